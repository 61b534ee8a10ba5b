//! Requests to stop: from Ctrl-C, from signals, from `git ralph stop`; one value that everybody watches.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// One Ctrl-C can arrive twice, from the terminal and forwarded by git; only a later one is a second one.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// How soon to stop; a later variant is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Go on.
    None,
    /// After the attempt that is under way.
    AfterAttempt,
    /// End the attempt and roll back: `git ralph stop --now`.
    Now,
    /// End the attempt, roll back, then offer the completion choice: Ctrl-C.
    Interrupt,
    /// End the attempt, roll back, do not ask: SIGTERM, SIGHUP.
    Terminate,
    /// Leave everything as it is and go.
    Quit,
}

/// The receiving end: asked at any await point.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Urgency>);

/// The sending end.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<Urgency>);

/// A connected pair.
#[must_use]
pub fn stop_channel() -> (StopHandle, Stop) {
    let (sender, receiver) = watch::channel(Urgency::None);
    (StopHandle(sender), Stop(receiver))
}

impl StopHandle {
    /// Raises the urgency; it never falls.
    pub fn raise(&self, urgency: Urgency) {
        self.0.send_if_modified(|current| {
            let raise = urgency > *current;
            if raise {
                *current = urgency;
            }
            raise
        });
    }
}

impl Stop {
    /// What has been asked for so far.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        *self.0.borrow()
    }

    /// Waits until at least this urgency has been asked for.
    pub async fn reached(&mut self, least: Urgency) -> Urgency {
        match self.0.wait_for(|urgency| *urgency >= least).await {
            Ok(urgency) => *urgency,
            // Nobody is left who could ask.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Turns signals into requests for as long as it is polled.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn watch_signals(handle: StopHandle) -> std::io::Result<impl Future<Output = ()>> {
    let mut int = Listener::new(SignalKind::interrupt())?;
    let mut term = Listener::new(SignalKind::terminate())?;
    let mut hup = Listener::new(SignalKind::hangup())?;
    Ok(async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = int.recv() => match first {
                    Some(at) if at.elapsed() >= DEBOUNCE => handle.raise(Urgency::Quit),
                    Some(_) => {}
                    None => {
                        first = Some(Instant::now());
                        handle.raise(Urgency::Interrupt);
                    }
                },
                _ = term.recv() => handle.raise(Urgency::Terminate),
                _ = hup.recv() => handle.raise(Urgency::Terminate),
            }
        }
    })
}

/// A signal that was ignored when we were started stays ignored: `nohup` means it.
pub(super) enum Listener {
    Listening(Signal),
    Ignored,
}

impl Listener {
    pub fn new(kind: SignalKind) -> std::io::Result<Self> {
        if is_ignored(kind) { Ok(Listener::Ignored) } else { signal(kind).map(Listener::Listening) }
    }

    pub async fn recv(&mut self) {
        match self {
            Listener::Listening(signal) => {
                signal.recv().await;
            }
            Listener::Ignored => std::future::pending().await,
        }
    }
}

#[expect(unsafe_code, reason = "asking for a signal's disposition has no safe interface")]
fn is_ignored(kind: SignalKind) -> bool {
    // SAFETY: a null new action only asks; `old` is a plain struct that the call fills in.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(kind.as_raw_value(), std::ptr::null(), &raw mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}

/// Does what the system does with a signal that has no handler. A stop comes back when the process is continued; where no shell
/// could continue it, the system passes it over.
#[expect(unsafe_code, reason = "taking a handler away for a moment has no safe interface")]
pub(super) fn stop_as_usual(kind: SignalKind) {
    let signal = kind.as_raw_value();
    // SAFETY: both actions are plain structs, the second of which the call fills in; the handler that comes back is the one that was there.
    unsafe {
        let mut usual: libc::sigaction = std::mem::zeroed();
        let mut ours: libc::sigaction = std::mem::zeroed();
        usual.sa_sigaction = libc::SIG_DFL;
        if libc::sigaction(signal, &raw const usual, &raw mut ours) == 0 {
            libc::raise(signal);
            libc::sigaction(signal, &raw const ours, std::ptr::null_mut());
        }
    }
}
