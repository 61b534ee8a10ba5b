//! Runs a long-lived child: streams its output through a fixed buffer and enforces its time limits.

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
/// How long a pipe may stay open after its process has ended. Then the processes that hold it are ended.
const DRAIN: Duration = Duration::from_millis(500);

/// How long the processes of a runner that has ended may take to clean up.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// How often the clock is read, to notice when this process was not running.
const BEAT: Duration = Duration::from_secs(1);
/// A beat later than this means that this process was suspended or frozen, or that the machine slept.
const LATE: Duration = Duration::from_secs(2);

/// Which output stream a piece came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where a program runs, which determines when its time limits start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As a child of git-ralph, which runs from the moment that it is spawned.
    Here,
    /// Wherever and whenever a runner starts it. Its time limits start when the sink returns anything but [`Flow::Waiting`].
    Behind {
        /// How long the runner may take to start it.
        limit: Option<Duration>,
    },
}

/// What a piece of output means for the time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The runner has not started the program yet.
    Waiting,
    /// More output is expected.
    Going,
    /// The program may have finished: from now on it lingers if it stays silent.
    Concluded,
    /// The program has finished: from now on it lingers whatever it prints.
    Over,
    /// The child must end, because it has used up what it may use.
    Unwanted,
}

/// The time limits of a child.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// For the whole run.
    pub limit: Option<Duration>,
    /// Without any output.
    pub idle: Option<Duration>,
    /// Without any output after the program has finished its work.
    pub linger: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Where the program runs.
    pub place: Place,
}

/// How a supervised child ended.
#[derive(Debug)]
pub struct Supervised {
    /// The way it ended.
    pub exit: Exit,
    /// How long the program ran.
    pub duration: Duration,
    /// How long the program waited for its runner to start it.
    pub waited: Duration,
    /// Whether the program or its runner ignored SIGTERM and was killed.
    pub killed: bool,
}

impl Supervised {
    /// The result for a program whose runner was never started.
    #[must_use]
    pub fn not_started(message: String) -> Self {
        Supervised { exit: Exit::NotStarted { message }, duration: Duration::ZERO, waited: Duration::ZERO, killed: false }
    }
}

/// Runs a program with `input` on its standard input, passes every piece of output to `sink`, and enforces the time
/// limits.
///
/// # Errors
/// If `sink` fails. The child has then been ended.
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
            // An agent may answer without reading its whole prompt.
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
    /// Reads the remaining output and ends all processes. Returns how the child ended, and whether it had to be killed.
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
                    // After a runner was killed, one of its processes may be about to cancel its job. SIGTERM follows
                    // when the group is dropped.
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

/// Sends SIGTERM to the group, reads output for a grace period, then sends SIGKILL. Returns whether the child had to be killed.
async fn terminate(child: &mut Child, group: &Group, grace: Duration, drain: impl Future<Output = ()>) -> bool {
    group.ask_to_end();
    let gone = timeout(grace, async { tokio::join!(child.wait(), drain).0 });
    let mut killed = false;
    if gone.await.is_err() {
        killed = matches!(child.try_wait(), Ok(None));
        group.signal(Signal::KILL);
        let _ = child.wait().await;
    }
    // The leader may have ended and left other processes of its group behind.
    group.signal(Signal::KILL);
    killed
}

/// Determines which time limit comes next. Time in which this process was not running does not count.
struct Clock {
    watch: Watch,
    started: Instant,
    heard: Instant,
    /// When this process last read the clock.
    looked: Instant,
    /// How long this process had been suspended by then.
    suspended: Duration,
    concluded: bool,
    /// How long the runner took to start the program; `None` until it has started it.
    waited: Option<Duration>,
}

impl Clock {
    /// Long enough to mean never.
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

    /// Postpones all limits by the time in which this process was not running.
    fn pass_over_absence(&mut self, now: Instant, suspended: Duration) {
        let late = now.duration_since(self.looked).saturating_sub(BEAT);
        let known = suspended.saturating_sub(self.suspended);
        let absent = if late >= LATE { known.max(late) } else { known };
        self.started += absent;
        self.heard += absent;
        (self.looked, self.suspended) = (now, suspended);
    }

    /// Whether a limit is reached. After a late beat the answer is no, because the limits have to be postponed first.
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
        // After the program has finished its work, output on standard error does not postpone the end.
        let chatter = self.concluded && (stream == Stream::Stderr || flow == Flow::Over);
        if !chatter {
            self.heard = Instant::now();
        }
        self.concluded = !matches!(flow, Flow::Going | Flow::Waiting);
    }

    /// Whether the total limit is not reached yet, so that the limit that was reached is the one for silence.
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

/// Both output pipes of a child.
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

    /// The next piece of output, or `None` when one of the pipes has just been closed.
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

    /// Reads output that is already available, and returns whether there was any. After git-ralph itself was stopped, a
    /// limit may be reached although there is unread output.
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
