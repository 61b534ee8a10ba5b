//! A long-lived child: its output streamed through a fixed buffer, its end enforced.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout};

use super::child::Child;
use super::group::Group;
use super::spawn::Input;
use super::survivors::remember_session;
use super::suspend::suspended;
use super::{Exit, Program, Stop, Urgency};

const BUFFER: usize = 64 * 1024;
/// How long a pipe may stay open after its process has gone before whoever holds it is ended.
const DRAIN: Duration = Duration::from_millis(500);

/// How long the helpers of a runner that has gone may take to clean up after it.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// How often the clock is looked at, to notice when this process did not run.
const BEAT: Duration = Duration::from_secs(1);
/// A beat that comes so late means that this process did not run: it was suspended, frozen, or the machine slept.
const LATE: Duration = Duration::from_secs(2);

/// Which output a piece came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where a program runs, and so when its clocks start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Below us, from the moment that it is spawned.
    Here,
    /// Wherever a runner starts it, and whenever that has room for it. Its clocks stand still until the sink gives something else than
    /// [`Flow::Waiting`].
    Behind {
        /// How long that may take.
        limit: Option<Duration>,
    },
}

/// What a piece of output means for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The runner has not started the program yet.
    Waiting,
    /// More is expected.
    Going,
    /// The last word may have been said: from here silence means lingering.
    Concluded,
    /// The last word has been said: from here anything means lingering.
    Over,
    /// The child must end: there is nothing left that it may use.
    Unwanted,
}

/// The clocks that a child is held to.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// For the whole of it.
    pub limit: Option<Duration>,
    /// Without any output.
    pub idle: Option<Duration>,
    /// Without any output after the last word.
    pub linger: Duration,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// Where the program runs.
    pub place: Place,
}

/// How a supervised child ended.
#[derive(Debug)]
pub struct Supervised {
    /// The way it ended.
    pub exit: Exit,
    /// How long it ran.
    pub duration: Duration,
    /// How long it waited for its runner to start it.
    pub waited: Duration,
    /// Whether it, or its runner, did not end when it was asked to, and was killed.
    pub killed: bool,
}

impl Supervised {
    /// What comes of a program that its runner was not even asked to start.
    #[must_use]
    pub fn not_started(message: String) -> Self {
        Supervised { exit: Exit::NotStarted { message }, duration: Duration::ZERO, waited: Duration::ZERO, killed: false }
    }
}

/// Runs a program with `input` on its standard input, hands every piece of output to `sink` and ends it in time.
///
/// # Errors
/// If `sink` fails; the child has been ended then.
pub async fn supervise(
    program: &Program,
    input: &[u8],
    watch: Watch,
    stop: &mut Stop,
    mut sink: impl FnMut(Stream, &[u8]) -> io::Result<Flow>,
) -> io::Result<Supervised> {
    let started = Instant::now();
    let mut child = match program.spawn(Input::Piped) {
        Ok(child) => child,
        Err(error) => {
            let exit = Exit::CouldNotStart { error: error.to_string() };
            return Ok(Supervised { exit, duration: started.elapsed(), waited: Duration::ZERO, killed: false });
        }
    };
    remember_session(child.pid, &program.env);
    let group = if watch.place == Place::Here { Group::of(&child) } else { Group::of_runner(&child) };
    let stdin = child.stdin.take();
    let mut pipes = Pipes::of(&mut child);
    let mut feed = pin!(async {
        if let Some(mut pipe) = stdin {
            // An agent may answer without reading all of its prompt.
            let _ = pipe.write_all(input).await;
        }
    });
    let mut clock = Clock::new(watch, started, suspended());
    let mut fed = false;
    let end = loop {
        clock.pass_over_absence(Instant::now(), suspended());
        tokio::select! {
            biased;
            _ = stop.reached(Urgency::Now) => break Stopped::Enforced(Exit::Interrupted),
            () = sleep_until(clock.next().min(clock.looked + BEAT)) => match child.try_wait()? {
                Some(status) => break Stopped::Gone(Exit::of(status)),
                None if !clock.rings(Instant::now()) => {}
                None if clock.is_only_silence() && pipes.take_what_is_there(&mut clock, &mut sink)? => {}
                None => break Stopped::Enforced(clock.rung()),
            },
            () = &mut feed, if !fed => fed = true,
            piece = pipes.next(), if pipes.open() => if let Some((stream, bytes)) = piece? {
                match sink(stream, bytes) {
                    Ok(Flow::Unwanted) => break Stopped::Enforced(Exit::Interrupted),
                    Ok(flow) => clock.heard(stream, flow),
                    Err(error) => break Stopped::Broken(error),
                }
            },
            status = child.wait() => break Stopped::Gone(Exit::of(status?)),
        }
    };
    let ended = end.complete(&mut child, &group, watch, &mut pipes, &mut sink).await;
    clock.pass_over_absence(Instant::now(), suspended());
    let (waited, duration) = clock.times();
    let (exit, killed) = ended?;
    Ok(Supervised { exit, duration, waited, killed })
}

enum Stopped {
    Gone(Exit),
    Enforced(Exit),
    Broken(io::Error),
}

impl Stopped {
    /// Hears the last words and leaves nothing behind. Gives how the child ended, and whether it had to be killed.
    async fn complete(
        self,
        child: &mut Child,
        group: &Group,
        watch: Watch,
        pipes: &mut Pipes,
        sink: &mut impl FnMut(Stream, &[u8]) -> io::Result<Flow>,
    ) -> io::Result<(Exit, bool)> {
        match self {
            Stopped::Gone(exit) => {
                let _ = timeout(DRAIN, pipes.drain(sink)).await;
                if watch.place == Place::Here {
                    group.signal(Signal::KILL);
                } else {
                    // A helper of a runner that was killed may be about to cancel its job; TERM follows when the group is dropped.
                    group.gone_within(CLEAN_UP).await;
                }
                Ok((exit, false))
            }
            Stopped::Enforced(exit) => Ok((exit, terminate(child, group, watch.grace, pipes.drain(sink)).await)),
            Stopped::Broken(error) => {
                terminate(child, group, watch.grace, pipes.drain(&mut |_, _| Ok(Flow::Going))).await;
                Err(error)
            }
        }
    }
}

/// TERM to the group, a grace period in which its last words are still heard, then KILL. Gives whether the child had to be killed.
async fn terminate(child: &mut Child, group: &Group, grace: Duration, drain: impl Future<Output = ()>) -> bool {
    group.ask_to_end();
    let gone = timeout(grace, async { tokio::join!(child.wait(), drain).0 });
    let mut killed = false;
    if gone.await.is_err() {
        killed = matches!(child.try_wait(), Ok(None));
        group.signal(Signal::KILL);
        let _ = child.wait().await;
    }
    // The leader may have gone politely and left others of its group behind.
    group.signal(Signal::KILL);
    killed
}

/// Which of the limits comes next, and which one it was. Time in which this process did not run does not count.
struct Clock {
    watch: Watch,
    started: Instant,
    heard: Instant,
    /// When this process last looked at the time.
    looked: Instant,
    /// How long this process had been suspended by then.
    suspended: Duration,
    concluded: bool,
    /// How long a runner took to start the program; none while it has not started it.
    waited: Option<Duration>,
}

impl Clock {
    /// Far enough to mean never.
    const NEVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

    fn new(watch: Watch, now: Instant, suspended: Duration) -> Self {
        let waited = (watch.place == Place::Here).then_some(Duration::ZERO);
        Clock { watch, started: now, heard: now, looked: now, suspended, concluded: false, waited }
    }

    /// How long the program waited for its runner, and how long it ran.
    fn times(&self) -> (Duration, Duration) {
        let elapsed = self.started.elapsed();
        self.waited.map_or((elapsed, Duration::ZERO), |waited| (waited, elapsed))
    }

    /// Moves both limits by the time in which this process did not run.
    fn pass_over_absence(&mut self, now: Instant, suspended: Duration) {
        let late = now.duration_since(self.looked).saturating_sub(BEAT);
        let known = suspended.saturating_sub(self.suspended);
        let absent = if late >= LATE { known.max(late) } else { known };
        self.started += absent;
        self.heard += absent;
        (self.looked, self.suspended) = (now, suspended);
    }

    /// Whether one of the limits is reached. A late beat is no alarm: the limits have to be moved first.
    fn rings(&self, now: Instant) -> bool {
        now >= self.next() && now.duration_since(self.looked) < BEAT + LATE
    }

    fn heard(&mut self, stream: Stream, flow: Flow) {
        if self.waited.is_none() {
            if flow == Flow::Waiting {
                return;
            }
            let now = Instant::now();
            self.waited = Some(now.duration_since(self.started));
            (self.started, self.heard) = (now, now);
        }
        // After the last word, chatter on standard error does not put the end off.
        let chatter = self.concluded && (stream == Stream::Stderr || flow == Flow::Over);
        if !chatter {
            self.heard = Instant::now();
        }
        self.concluded = !matches!(flow, Flow::Going | Flow::Waiting);
    }

    /// Whether the whole time is not up yet, so that the alarm was for silence.
    fn is_only_silence(&self) -> bool {
        self.waited.is_some() && self.watch.limit.is_none_or(|limit| self.started.elapsed() < limit)
    }

    fn silence(&self) -> Option<Duration> {
        if self.concluded { Some(self.watch.linger) } else { self.watch.idle }
    }

    fn next(&self) -> Instant {
        if let (None, Place::Behind { limit }) = (self.waited, self.watch.place) {
            return self.started + limit.unwrap_or(Self::NEVER);
        }
        let whole = self.started + self.watch.limit.unwrap_or(Self::NEVER);
        let silent = self.heard + self.silence().unwrap_or(Self::NEVER);
        whole.min(silent)
    }

    fn rung(&self) -> Exit {
        match (self.watch.limit, self.watch.idle) {
            _ if self.waited.is_none() => {
                Exit::NotStarted { message: format!("it was not started within {} s", self.started.elapsed().as_secs()) }
            }
            _ if self.concluded && self.heard.elapsed() >= self.watch.linger => Exit::Lingered,
            (Some(limit), _) if self.started.elapsed() >= limit => Exit::timed_out(limit),
            (_, idle) => Exit::stalled(idle.unwrap_or_default()),
        }
    }
}

/// Both outputs of a child behind one call.
struct Pipes {
    out: Pipe<ChildStdout>,
    err: Pipe<ChildStderr>,
}

struct Pipe<R> {
    reader: Option<R>,
    buffer: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Pipe { reader, buffer: vec![0; BUFFER].into_boxed_slice() }
    }

    async fn read(&mut self) -> io::Result<usize> {
        match &mut self.reader {
            Some(reader) => reader.read(&mut self.buffer).await,
            None => std::future::pending().await,
        }
    }
}

impl Pipes {
    fn of(child: &mut Child) -> Self {
        Pipes { out: Pipe::new(child.stdout.take()), err: Pipe::new(child.stderr.take()) }
    }

    fn open(&self) -> bool {
        self.out.reader.is_some() || self.err.reader.is_some()
    }

    /// The next piece of output; nothing when one of the pipes has just been closed.
    async fn next(&mut self) -> io::Result<Option<(Stream, &[u8])>> {
        let (stream, count) = tokio::select! {
            count = self.out.read() => (Stream::Stdout, count?),
            count = self.err.read() => (Stream::Stderr, count?),
        };
        Ok(match (stream, count) {
            (Stream::Stdout, 0) => {
                self.out.reader = None;
                None
            }
            (Stream::Stderr, 0) => {
                self.err.reader = None;
                None
            }
            (Stream::Stdout, count) => Some((stream, &self.out.buffer[..count])),
            (Stream::Stderr, count) => Some((stream, &self.err.buffer[..count])),
        })
    }

    /// When we were stopped ourselves, an alarm may ring although there is output to be read: takes it, says if there was any.
    fn take_what_is_there(&mut self, clock: &mut Clock, sink: &mut impl FnMut(Stream, &[u8]) -> io::Result<Flow>) -> io::Result<bool> {
        match self.next().now_or_never() {
            Some(Ok(Some((stream, bytes)))) => {
                let flow = sink(stream, bytes)?;
                clock.heard(stream, flow);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn drain(&mut self, sink: &mut impl FnMut(Stream, &[u8]) -> io::Result<Flow>) {
        while self.open() {
            match self.next().await {
                Ok(Some((stream, bytes))) if sink(stream, bytes).is_err() => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_the_process_did_not_run_ends_no_attempt() {
        let second = Duration::from_secs(1);
        let watch = Watch { limit: Some(60 * second), idle: Some(10 * second), linger: second, grace: second, place: Place::Here };
        let start = Instant::now();
        let mut clock = Clock::new(watch, start, Duration::ZERO);
        let mut now = start;
        for _ in 0..8 {
            now += second;
            clock.pass_over_absence(now, Duration::ZERO);
        }
        // The machine sleeps for an hour.
        now += 3600 * second;
        assert!(now >= clock.next() && !clock.rings(now), "the alarm rang before the absence was noticed");
        clock.pass_over_absence(now, Duration::ZERO);
        assert!(!clock.rings(now), "the sleep counted as silence");
        now += second;
        clock.pass_over_absence(now, Duration::ZERO);
        assert!(clock.rings(now), "ten seconds of silence that the process was there for");
        clock.pass_over_absence(now, second);
        assert!(!clock.rings(now), "a second in which the user had suspended the process");
        clock.heard = now;
        for _ in 0..51 {
            now += second;
            clock.heard = now;
            clock.pass_over_absence(now, Duration::ZERO);
        }
        assert!(clock.rings(now), "the whole time of an attempt is up after a minute that the process was there for");
    }
}
