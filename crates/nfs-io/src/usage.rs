//! What the kernel has counted of a process: processor time, memory, threads. From `/proc/PID/stat`
//! (proc_pid_stat(5)), which is read anew for each question.

use std::time::Duration;

/// What the process used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processor time of all threads in the process's own code, those that have ended included.
    pub user: Duration,
    /// Processor time of all threads in the kernel.
    pub system: Duration,
    /// Memory that the process has in RAM, in bytes, what it shares with others included.
    pub resident_bytes: u64,
    /// How many threads there are.
    pub threads: u64,
}

/// Asks the kernel; `None` where `/proc` cannot be read. One short file without a disk behind it.
#[must_use]
pub fn process() -> Option<ProcessUsage> {
    of_process("self")
}

/// Asks the kernel about another process; `None` where there is none of that number any more.
#[must_use]
pub fn of(pid: u32) -> Option<ProcessUsage> {
    of_process(&pid.to_string())
}

fn of_process(name: &str) -> Option<ProcessUsage> {
    let text = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
    let ticks = rustix::param::clock_ticks_per_second();
    parse(&text, ticks, rustix::param::page_size() as u64)
}

fn parse(text: &str, ticks_per_second: u64, page_bytes: u64) -> Option<ProcessUsage> {
    // The name of the program is in parentheses and may have blanks and parentheses in it.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // The first of these is the third field of the manual page.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let time = |ticks: u64| {
        let nanoseconds = ticks.checked_mul(1_000_000_000)?;
        nanoseconds
            .checked_div(ticks_per_second)
            .map(Duration::from_nanos)
    };
    Some(ProcessUsage {
        user: time(field(14)?)?,
        system: time(field(15)?)?,
        threads: field(20)?,
        resident_bytes: field(24)?.checked_mul(page_bytes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 250 130 13 14 15 16 7 18 19 20 1000 22";
        for name in ["penstock", "a b", "x) R 9 (y"] {
            let usage = parse(&format!("42 ({name}) {rest}"), 100, 4096).unwrap();
            assert_eq!(usage.user, Duration::from_millis(2500));
            assert_eq!(usage.system, Duration::from_millis(1300));
            assert_eq!((usage.threads, usage.resident_bytes), (7, 4_096_000));
        }
        for short in [
            "",
            "42 (x",
            "42 (x) S 1",
            "42 (x) S a b c d e f g h i j k l m n o p q r s t u v",
        ] {
            assert_eq!(parse(short, 100, 4096), None, "{short}");
        }
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let usage = process().unwrap();
        assert!(usage.resident_bytes > 0 && usage.threads > 0, "{usage:?}");
        assert!(of(std::process::id()).is_some_and(|same| same.threads > 0));
        assert_eq!(of(u32::MAX), None);
    }
}
