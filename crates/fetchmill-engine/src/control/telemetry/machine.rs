//! Measures the load of the processors that this process can use, based on the kernel's counters (proc(5), cgroups(7)).

use std::fs;
use std::time::Instant;

/// Unit of processor times in `/proc` (`USER_HZ`).
const TICKS_A_SECOND: f64 = 100.0;
/// Maximum number of threads that are inspected per second.
const THREADS_MAX: usize = 256;
/// Quota of this process's cgroup, at the path that a container sees.
const QUOTA: &str = "/sys/fs/cgroup/cpu.max";

/// Processor use over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Processors {
    /// Number of processors that this process can use. A quota can reduce it to less than one.
    pub(crate) allowed: f64,
    /// Number of these processors that were busy with this or another process.
    pub(crate) busy: f64,
    /// Number of processors that this process used.
    pub(crate) own: f64,
    /// Number of processors that this process could have used, summed over its running and runnable threads.
    pub(crate) wanted: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    idle: u64,
    own: u64,
    /// Nanoseconds that threads spent running or waiting to run.
    wanted: u64,
}

/// Meter of processor use. Each measurement covers the time since the previous one.
#[derive(Debug)]
pub(crate) struct Machine {
    processors: Vec<usize>,
    quota: Option<f64>,
    before: Ticks,
    at: Instant,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let processors = allowed(&status);
        let quota = fs::read_to_string(QUOTA).ok().and_then(|text| quota(&text));
        let before = ticks(&processors);
        Machine { processors, quota, before, at: Instant::now() }
    }

    /// Returns the processor use since the previous call.
    pub(crate) fn look(&mut self) -> Processors {
        let (now, at) = (ticks(&self.processors), Instant::now());
        let before = std::mem::replace(&mut self.before, now);
        let seconds = at.duration_since(std::mem::replace(&mut self.at, at)).as_secs_f64().max(1e-3);
        let used = |before: u64, now: u64| now.saturating_sub(before) as f64 / TICKS_A_SECOND / seconds;
        let count = self.processors.len() as f64;
        let own = used(before.own, now.own);
        Processors {
            allowed: self.quota.map_or(count, |quota| quota.min(count)),
            busy: (count - used(before.idle, now.idle)).clamp(0.0, count),
            own,
            // If the kernel does not report this time, fall back to the time that was used.
            wanted: (now.wanted.saturating_sub(before.wanted) as f64 / 1e9 / seconds).max(own),
        }
    }
}

/// Parses the list of processors that a process can run on, such as `Cpus_allowed_list: 0-1,4`.
fn allowed(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Parses a quota and returns it as a number of processors. `200000 100000` means two processors, and `max 100000`
/// means no quota.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (period > 0.0).then(|| quota / period)
}

fn ticks(processors: &[usize]) -> Ticks {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Ticks { idle: idle_ticks(&stat, processors), own: own_ticks(&own), wanted: wanted_nanos() }
}

/// Returns the total time in nanoseconds that up to `THREADS_MAX` threads spent running or waiting to run. The time of
/// a thread is lost when the thread ends.
fn wanted_nanos() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().take(THREADS_MAX);
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .map(|text| ready_nanos(&text))
        .sum()
}

/// Returns the nanoseconds that a thread spent running or waiting to run. Ignores the third field, which is the number
/// of time slices.
fn ready_nanos(schedstat: &str) -> u64 {
    schedstat.split_whitespace().take(2).filter_map(|nanos| nanos.parse::<u64>().ok()).sum()
}

/// Returns the number of ticks that processors spent idle or waiting for a disk.
fn idle_ticks(stat: &str, processors: &[usize]) -> u64 {
    let of_line = |line: &str| {
        let (processor, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        processors.contains(&processor.parse().ok()?).then_some(())?;
        Some(times.split(' ').skip(3).take(2).filter_map(|time| time.parse::<u64>().ok()).sum::<u64>())
    };
    stat.lines().filter_map(of_line).sum()
}

/// Returns the processor time of all threads, in user and kernel mode. The program name can contain any byte, but it
/// ends at the last closing parenthesis.
fn own_ticks(stat: &str) -> u64 {
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0 };
    fields.split_whitespace().skip(11).take(2).filter_map(|time| time.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(allowed("Name:\tx\nCpus_allowed_list:\t0-1,4\nMems_allowed:\t1\n"), [0, 1, 4]);
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        assert_eq!(quota("max 100000\n"), None);
        let stat = "cpu  9 9 9 9 9 9\ncpu0 1 2 3 40 5 6 7 0 0 0\ncpu1 1 2 3 50 6 6 7 0 0 0\nintr 5\n";
        assert_eq!(idle_ticks(stat, &[1]), 56);
        assert_eq!(idle_ticks(stat, &[0, 1]), 101);
        let own = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 100 0 0\n";
        assert_eq!(own_ticks(own), 200);
        assert_eq!(ready_nanos("3000 400 7\n"), 3400);
    }

    #[test]
    fn this_machine_is_looked_at() {
        let mut machine = Machine::new();
        let begun = Instant::now();
        while begun.elapsed().as_millis() < 300 {
            std::hint::spin_loop();
        }

        let processors = machine.look();

        assert!(processors.allowed > 0.0, "{processors:?}");
        assert!(processors.own > 0.1 && processors.busy > 0.1, "{processors:?}");
        assert!(processors.wanted > 0.5, "{processors:?}");
    }
}
