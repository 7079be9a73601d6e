//! The processes of a command, as /proc shows them: who they are, what they do, and signals to all of them.
//!
//! A process is read about without touching its memory: reading its command line waits for a lock that a thread in
//! the state D may hold.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// Processes whose doings are told; of a command with more, those that cannot be killed come first.
const PROCESSES_MAX: usize = 16;
/// Kinds of threads of one process that are told.
const THREADS_MAX: usize = 24;
/// Functions of the kernel, the innermost first, in which a thread in the state D is said to be.
const FRAMES_MAX: usize = 8;

/// A command and what it started, as far as it has been seen.
pub(crate) struct Family {
    root: Option<Pid>,
    /// What /proc calls the pipe that the command writes to.
    output: Option<PathBuf>,
    members: Vec<Member>,
}

/// A process; the descriptor is this one's and no other's, also when its number is given to somebody else.
struct Member {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Family {
    /// The family of `child`, to whose output `output` is the reading end.
    pub(crate) fn of(child: &Child, output: Option<&OwnedFd>) -> Self {
        let link = |output: &OwnedFd| format!("/proc/self/fd/{}", output.as_raw_fd());
        Self {
            root: Some(Pid::from_child(child)),
            output: output.and_then(|output| fs::read_link(link(output)).ok()),
            members: Vec::new(),
        }
    }

    /// The command itself has ended, and its number may be another's.
    pub(crate) fn root_has_ended(&mut self) {
        self.root = None;
    }

    /// Whether the command itself still runs.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Looks who is there. Whoever was seen once stays, also when its parent has ended.
    pub(crate) fn look(&mut self) {
        let parents = parents();
        self.members.retain(Member::is_alive);
        let mut known: HashSet<Pid> = self.members.iter().map(|member| member.pid).collect();
        let before = known.clone();
        known.extend(self.root);
        if let Some(output) = &self.output {
            let all = parents.iter().map(|(pid, _)| *pid);
            known.extend(all.filter(|pid| can_write_to(*pid, output)));
        }
        // The caller has other children, which are not the command's.
        known.remove(&getpid());
        while let Some((child, _)) = parents.iter().find(|(child, parent)| {
            parent.is_some_and(|parent| known.contains(&parent)) && !known.contains(child)
        }) {
            known.insert(*child);
        }
        let mut new: Vec<Pid> = known.difference(&before).copied().collect();
        new.sort_by_key(|pid| pid.as_raw_nonzero());
        self.members.extend(new.into_iter().filter_map(|pid| {
            let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(Member { pid, descriptor })
        }));
    }

    /// Sends each a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        for member in &self.members {
            // One that has ended needs none, and one of another user's cannot be helped.
            let _ended_or_not_ours = pidfd_send_signal(&member.descriptor, signal);
        }
    }

    /// Waits until all that were seen have ended, or until the deadline.
    pub(crate) fn wait(&self, deadline: Instant) {
        for member in &self.members {
            member.wait(deadline);
        }
    }

    /// What each does that is still there, in lines.
    pub(crate) fn doings(&self) -> Vec<String> {
        let alive = self.members.iter().filter(|member| member.is_alive());
        let mut all: Vec<(Pid, Vec<Task>)> = alive
            .map(|member| (member.pid, tasks(member.pid)))
            .collect();
        // The sort is stable: parents come before their children otherwise.
        all.sort_by_key(|(_, tasks)| !tasks.iter().any(Task::cannot_be_killed));
        let told = all.iter().take(PROCESSES_MAX);
        let mut lines: Vec<String> = told.flat_map(|(pid, tasks)| doing(*pid, tasks)).collect();
        let more = all.len().saturating_sub(PROCESSES_MAX);
        if more > 0 {
            lines.push(format!("and {more} processes more"));
        }
        lines
    }
}

impl Member {
    fn is_alive(&self) -> bool {
        self.is_alive_after(Duration::ZERO)
    }

    fn wait(&self, deadline: Instant) {
        // A signal may cut a wait short.
        while let Some(left) = deadline.checked_duration_since(Instant::now())
            && self.is_alive_after(left)
        {}
    }

    /// Whether the process is there when the time has passed, or a signal came meanwhile.
    fn is_alive_after(&self, time: Duration) -> bool {
        // The descriptor can be read when the process has ended.
        let mut end = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let time = Timespec::try_from(time).unwrap_or_default();
        !poll(&mut end, Some(&time)).is_ok_and(|ended| ended > 0)
    }
}

/// All processes, each with its parent.
fn parents() -> Vec<(Pid, Option<Pid>)> {
    numbers(Path::new("/proc"))
        .filter_map(|pid| {
            let stat = Stat::read(&proc_of(pid))?;
            Some((pid, Pid::from_raw(stat.parent)))
        })
        .collect()
}

/// The names in a directory that are numbers of processes or threads.
fn numbers(directory: &Path) -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn proc_of(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()))
}

/// Whether the process has `pipe` open for writing. Only its reading end is in a program that another thread of
/// the caller starts at this moment.
fn can_write_to(pid: Pid, pipe: &Path) -> bool {
    const WRITABLE: u32 = 0o200;
    let descriptors = fs::read_dir(proc_of(pid).join("fd")).into_iter().flatten();
    descriptors.flatten().any(|descriptor| {
        let path = descriptor.path();
        fs::read_link(&path).is_ok_and(|link| link == pipe)
            && fs::symlink_metadata(&path).is_ok_and(|meta| meta.mode() & WRITABLE != 0)
    })
}

/// The first fields of `/proc/PID/stat`, of proc(5).
struct Stat {
    name: String,
    state: String,
    parent: i32,
}

impl Stat {
    fn read(directory: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(directory.join("stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold spaces and parentheses.
        let (head, fields) = text.rsplit_once(") ")?;
        let (_, name) = head.split_once(" (")?;
        let mut fields = fields.split(' ');
        Some(Self {
            name: name.to_owned(),
            state: fields.next()?.to_owned(),
            parent: fields.next()?.parse().ok()?,
        })
    }
}

/// A thread: the first 15 bytes of its name, which is that of the test in Rust's test programs, and where it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    name: String,
    state: String,
    /// The function of the kernel, or those from the innermost on of one in the state D; empty if not to be had.
    place: String,
}

impl Task {
    fn read(directory: &Path, is_main: bool) -> Option<Self> {
        let Stat { name, state, .. } = Stat::read(directory)?;
        let mut place = fs::read_to_string(directory.join("wchan")).unwrap_or_default();
        if place == "0" {
            place.clear();
        }
        let name = if is_main { "main".to_owned() } else { name };
        let mut task = Self { name, state, place };
        if task.cannot_be_killed()
            && let Ok(stack) = fs::read_to_string(directory.join("stack"))
        {
            task.place = frames(&stack);
        }
        Some(task)
    }

    fn cannot_be_killed(&self) -> bool {
        self.state == "D"
    }

    fn told(&self) -> String {
        let Self { name, state, place } = self;
        match place.as_str() {
            "" => format!("{name} {state}"),
            place => format!("{name} {state} in {place}"),
        }
    }
}

fn tasks(pid: Pid) -> Vec<Task> {
    let directory = proc_of(pid).join("task");
    numbers(&directory)
        .filter_map(|thread| {
            let directory = directory.join(thread.as_raw_nonzero().to_string());
            Task::read(&directory, thread == pid)
        })
        .collect()
}

/// The functions of a kernel's stack, as in `[<0>] request_wait_answer+0x12f/0x220`.
fn frames(stack: &str) -> String {
    let functions = stack.lines().filter_map(|line| {
        let (_, function) = line.split_once("] ")?;
        function.split('+').next()
    });
    functions.take(FRAMES_MAX).collect::<Vec<_>>().join(" < ")
}

/// What one process does: a line for it, and one for its threads if it has several.
fn doing(pid: Pid, tasks: &[Task]) -> Vec<String> {
    let name = Stat::read(&proc_of(pid)).map_or_else(String::new, |stat| stat.name);
    let program = fs::read_link(proc_of(pid).join("exe")).unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    // The kernel keeps 15 characters of a name.
    let name = match program.as_ref() {
        "" => name,
        program if program.starts_with(&name) => program.to_owned(),
        program => format!("{name} ({program})"),
    };
    let process = format!("process {}, {name}", pid.as_raw_nonzero());
    if let [task] = tasks {
        return vec![format!("{process}: {}", task.told())];
    }
    let mut lines = vec![format!("{process}: {} threads", tasks.len())];
    lines.extend(kinds(tasks).into_iter().map(|kind| format!("  {kind}")));
    lines
}

/// The threads of one process; those that are alike in one.
fn kinds(tasks: &[Task]) -> Vec<String> {
    let mut kinds: Vec<(&Task, usize)> = Vec::new();
    for task in tasks {
        match kinds.iter_mut().find(|(kind, _)| *kind == task) {
            Some((_, count)) => *count += 1,
            None => kinds.push((task, 1)),
        }
    }
    kinds.sort_by_key(|(task, _)| !task.cannot_be_killed());
    let told = kinds.iter().take(THREADS_MAX);
    let mut told: Vec<String> = told
        .map(|(task, count)| match count {
            1 => task.told(),
            count => format!("{count} times {}", task.told()),
        })
        .collect();
    if kinds.len() > THREADS_MAX {
        told.push(format!("and {} kinds more", kinds.len() - THREADS_MAX));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_ends_a_name() {
        let stat = Stat::parse("17 (a) b (c) S 4 17 17 0 -1").unwrap();
        assert_eq!((stat.name.as_str(), stat.state.as_str()), ("a) b (c", "S"));
        assert_eq!(stat.parent, 4);
        assert!(Stat::parse("17 (a").is_none());
    }

    #[test]
    fn a_stack_is_told_from_the_inside() {
        let stack = "[<0>] request_wait_answer+0x12f/0x220\n[<0>] fuse_simple_request+0x1a/0x2e\n";
        assert_eq!(frames(stack), "request_wait_answer < fuse_simple_request");
        assert_eq!(frames(""), "");
    }

    #[test]
    fn a_test_is_known_by_the_name_of_its_thread() {
        let name = std::thread::current().name().unwrap()[..15].to_owned();
        let own = doing(getpid(), &tasks(getpid())).join("\n");
        assert!(own.contains("nfs_deadline-"), "{own}");
        assert!(own.contains("\n  main ") && own.contains(&name), "{own}");
    }

    #[test]
    fn threads_that_are_alike_are_told_once_and_those_that_hang_first() {
        let task = |name: &str, state: &str, place: &str| Task {
            name: name.to_owned(),
            state: state.to_owned(),
            place: place.to_owned(),
        };
        let tasks = [
            task("main", "S", "futex_do_wait"),
            task("shard", "S", "ep_poll"),
            task("shard", "S", "ep_poll"),
            task("a_test", "D", "request_wait_answer"),
            task("busy", "R", ""),
        ];
        let told = [
            "a_test D in request_wait_answer",
            "main S in futex_do_wait",
            "2 times shard S in ep_poll",
            "busy R",
        ];
        assert_eq!(kinds(&tasks), told);
    }
}
