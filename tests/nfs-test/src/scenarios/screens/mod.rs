//! What an operator watches a server on: `penstock top` in a terminal, and the web page in a browser. The server is a
//! real one, under the load of a client.

mod page;
mod terminal;
mod top;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{Server, pattern};

pub(super) use page::page;
pub(super) use top::top;

/// How long a screen may take to show what is waited for, on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a look at a screen rests before the next one.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Size of the file that is read over and over, in bytes.
const BYTES: usize = 3 << 20;
/// Its name.
const NAME: &str = "read-again";

/// Reads one file over and over until it is dropped, also while no server answers.
struct Load {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(program: &Path, server: &Server, export: &str) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let url = format!("nfs://{}{export}/{NAME}", server.address());
        let program = program.to_owned();
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let mut command = Command::new(&program);
                command.args(["cat", &url]).stdin(Stdio::null());
                // What it reads is not what is tested, and it fails while the server is away.
                let _read_or_not = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
        });
        Self {
            end,
            thread: Some(thread),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// A directory with the file that the load reads.
fn export(lab: &Path, name: &str) -> Result<PathBuf> {
    let export = lab.join(name);
    std::fs::create_dir_all(&export)?;
    std::fs::write(export.join(NAME), pattern::bytes(5, 0, BYTES))?;
    Ok(export)
}

/// Looks again and again until `look` has found something; at the deadline, what it saw last is in the error.
fn until<T>(
    what: &str,
    mut look: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match look().with_context(|| format!("waiting for {what}"))? {
            Ok(found) => return Ok(found),
            Err(seen) => {
                ensure!(
                    Instant::now() < deadline,
                    "no {what} after {DEADLINE:?}; seen:\n{seen}"
                );
            }
        }
        // SLEEP: a poll rests between two looks.
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
