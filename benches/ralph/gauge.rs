//! Measures: medians, timestamps written by agents, memory and processor time of a process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

/// The time in nanoseconds, from a clock that all processes share.
pub fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

/// The median.
pub fn median(mut times: Vec<Duration>) -> Result<Duration> {
    ensure!(!times.is_empty(), "nothing was measured");
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The timestamps that agents, and the wrapper around git, have written to a file.
pub struct Stamps(Vec<(char, u128, String)>);

impl Stamps {
    /// Reads the file, then deletes it.
    pub fn take(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("no agent has left a stamp in {}", file.display()))?;
        fs::remove_file(file)?;
        let entry = |line: &str| {
            let (kind, rest) = line.split_at_checked(2)?;
            Some((kind.chars().next()?, rest.parse().unwrap_or(0), rest.to_owned()))
        };
        Ok(Stamps(text.lines().filter_map(entry).collect()))
    }

    /// The times between the end of one agent and the start of the next.
    pub fn gaps(&self) -> Vec<Duration> {
        self.between('E', 'S')
    }

    /// How long the agents worked.
    pub fn spans(&self) -> Vec<Duration> {
        self.between('S', 'E')
    }

    /// When the first agent started.
    pub fn first(&self) -> Result<u128> {
        self.0.iter().find(|entry| entry.0 == 'S').map(|entry| entry.1).context("no agent was started")
    }

    /// The git commands between the end of one agent and the start of the next, gap by gap.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let mut gaps = Vec::new();
        let mut gap: Option<Vec<String>> = None;
        for (kind, _, text) in &self.0 {
            match kind {
                'E' => gap = Some(Vec::new()),
                'S' => gaps.extend(gap.take()),
                _ => gap.iter_mut().for_each(|gap| gap.push(text.clone())),
            }
        }
        gaps
    }

    /// How many git commands there were before the first agent, if there was one.
    pub fn before_the_first_agent(&self) -> Option<usize> {
        self.0.iter().position(|entry| entry.0 == 'S')
    }

    /// All git commands.
    pub fn all_commands(&self) -> Vec<String> {
        self.0.iter().filter(|entry| entry.0 == 'G').map(|entry| entry.2.clone()).collect()
    }

    fn between(&self, from: char, to: char) -> Vec<Duration> {
        let pairs = self.0.iter().filter(|entry| entry.0 != 'G').collect::<Vec<_>>();
        let pair = |pair: &[&(char, u128, String)]| {
            let [one, other] = pair else { return None };
            let time = u64::try_from(other.1.checked_sub(one.1)?).ok()?;
            (one.0 == from && other.0 == to).then(|| Duration::from_nanos(time))
        };
        pairs.windows(2).filter_map(pair).collect()
    }
}

/// A time from one stamp to a later one.
pub fn since(from: u128, to: u128) -> Duration {
    Duration::from_nanos(u64::try_from(to.saturating_sub(from)).unwrap_or(u64::MAX))
}

/// Runs a command to its end and returns how long that took.
pub fn time(command: &mut Command) -> Result<Duration> {
    let begun = Instant::now();
    let status = command.status().with_context(|| format!("{command:?}"))?;
    let time = begun.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(time)
}

/// The resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Weight {
    /// Its peak memory in MiB, without its children.
    pub peak: f64,
    /// Processor time, without its children.
    pub cpu: Duration,
}

/// Runs a command to its end and samples the resources that it uses.
pub fn weigh(command: &mut Command) -> Result<Weight> {
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let weight = watch(&child);
    let status = child.wait()?;
    ensure!(status.success(), "{command:?} ended with {status}");
    weight
}

fn watch(child: &Child) -> Result<Weight> {
    let dir = Path::new("/proc").join(child.id().to_string());
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(dir.join("status")).context("/proc is needed")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // A zombie no longer has memory, but its times can still be read.
        let Some(line) = line else { break };
        peak = peak.max(line.trim().trim_end_matches(" kB").parse::<u32>()?);
        std::thread::sleep(Duration::from_millis(2));
    }
    let stat = fs::read_to_string(dir.join("stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(") ").context("/proc/<pid>/stat")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    // Fields 14 and 15; a tick is 10 ms on all known Linux systems.
    Ok(Weight { peak: f64::from(peak) / 1024.0, cpu: Duration::from_millis(10 * (ticks(11) + ticks(12))) })
}
