//! What each part of the confinement costs a system call: `cargo run --release -p nfs-io --example confine_cost`.
//! Nanoseconds for each call, the least of many short runs, in a thread of its own for each part.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use nfs_io::confine::no_new_privileges;
use nfs_io::confine::places::{self, Places};
use nfs_io::confine::system_calls::{self, Besides};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};

const PARTS: [&str; 4] = ["nothing", "no-new-privileges", "system-calls", "places"];
const CALLS: usize = 500;
const RUNS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    fs::create_dir_all(directory.path().join("a/b/c"))?;
    fs::write(directory.path().join("a/b/c/file"), "text")?;
    println!(
        "{:18} getppid   statx    open  open 3 deeper  open to name",
        ""
    );
    for part in PARTS {
        let path = directory.path();
        let measured = std::thread::scope(|scope| {
            let thread = scope.spawn(|| confine(part, path).map(|()| measure(path)));
            thread.join().unwrap_or_else(|_| Err("panicked".to_owned()))
        });
        match measured {
            Ok(nanoseconds) => {
                let [ppid, statx, near, deep, name] = nanoseconds;
                println!("{part:18} {ppid:7} {statx:7} {near:7} {deep:14} {name:13}");
            }
            Err(why) => println!("{part:18} {why}"),
        }
    }
    Ok(())
}

fn confine(part: &str, directory: &Path) -> Result<(), String> {
    if part != "nothing" {
        no_new_privileges().map_err(|error| error.to_string())?;
    }
    match part {
        "system-calls" => system_calls::restrict(Besides::default()),
        "places" => places::restrict(&Places {
            changed: vec![directory.to_owned()],
            read: Some(vec!["/usr".into(), "/proc".into()]),
        }),
        _ => Ok(()),
    }
}

fn measure(path: &Path) -> [u128; 5] {
    let top = File::open(path).expect("it was made");
    let bottom = File::open(path.join("a/b/c")).expect("it was made");
    let open = |directory: &File, name: &str, flags: OFlags| {
        let (directory, beneath) = (directory.as_fd(), ResolveFlags::BENEATH);
        rustix::fs::openat2(directory, name, flags, Mode::empty(), beneath).expect("it is there");
    };
    let (read, to_name) = (OFlags::RDONLY, OFlags::PATH);
    [
        least(rustix::process::getppid),
        least(|| {
            let basic = StatxFlags::BASIC_STATS;
            rustix::fs::statx(&bottom, "", AtFlags::EMPTY_PATH, basic).expect("it is open");
        }),
        least(|| open(&bottom, "file", read)),
        least(|| open(&top, "a/b/c/file", read)),
        least(|| open(&bottom, "file", to_name)),
    ]
}

fn least<T>(call: impl Fn() -> T) -> u128 {
    let run = || {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| drop(std::hint::black_box(call())));
        begin.elapsed().as_nanos() / CALLS as u128
    };
    (0..RUNS).map(|_| run()).min().unwrap_or_default()
}
