//! Requests to stop, from Ctrl-C, other signals and `git ralph stop`, as one value that all parts of the program watch.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// One Ctrl-C can arrive twice, from the terminal and forwarded by git. Only one that comes later than this is a second Ctrl-C.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// How soon to stop; a later variant is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Continue.
    None,
    /// Stop after the current attempt.
    AfterAttempt,
    /// End the attempt and roll back: `git ralph stop --now`.
    Now,
    /// End the attempt, roll back, then offer the completion choice: Ctrl-C.
    Interrupt,
    /// End the attempt, roll back, do not ask: SIGTERM, SIGHUP.
    Terminate,
    /// Exit at once and leave everything as it is.
    Quit,
}

/// The receiving end, which can be checked at any await point.
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
    /// Raises the urgency. It never decreases.
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
    /// The most urgent request so far.
    #[must_use]
    pub fn urgency(&self) -> Urgency {
        *self.0.borrow()
    }

    /// Waits for a request of at least this urgency.
    pub async fn reached(&mut self, least: Urgency) -> Urgency {
        match self.0.wait_for(|urgency| *urgency >= least).await {
            Ok(urgency) => *urgency,
            // The sender is gone, so no request can come.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Turns signals into requests while it is polled.
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

/// A signal that was ignored when git-ralph was started stays ignored, as `nohup` requires.
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

/// Applies the system's default action for a signal. If that stops the process, the call returns when the process is
/// continued. If there is no shell that could continue it, the system ignores the signal.
#[expect(unsafe_code, reason = "taking a handler away for a moment has no safe interface")]
pub(super) fn stop_as_usual(kind: SignalKind) {
    let signal = kind.as_raw_value();
    // SAFETY: both actions are plain structs, and the call fills in the second; the handler that is restored is the previous one.
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
