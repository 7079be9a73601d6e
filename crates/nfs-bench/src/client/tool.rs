//! Who moves files, and what is asked of it: the command line for each.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use serde::Serialize;

use super::serve::Serving;
use crate::servers::{binary, on_core};

/// What one measurement moves, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A large file that is read from the server and dropped.
    Read,
    /// A large file that is written to the server from a command's standard input, or from the library's one
    /// buffer.
    Write,
    /// A large file to a file in memory.
    CopyDown,
    /// A large file in memory to the server.
    CopyUp,
    /// A directory of small files from the server.
    ManyDown,
    /// A directory of small files to the server.
    ManyUp,
}

impl Work {
    /// Every work, in the order of the report.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::CopyDown,
        Self::CopyUp,
        Self::ManyDown,
        Self::ManyUp,
    ];

    /// The work's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::CopyDown => "copy down",
            Self::CopyUp => "copy up",
            Self::ManyDown => "many down",
            Self::ManyUp => "many up",
        }
    }

    /// Whether many small files are moved instead of one large one.
    pub fn is_many(self) -> bool {
        matches!(self, Self::ManyDown | Self::ManyUp)
    }

    /// Whether the file comes to be on the server.
    pub fn is_up(self) -> bool {
        matches!(self, Self::Write | Self::CopyUp | Self::ManyUp)
    }
}

/// How ours is told to go about it; what is `None` it finds itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Number of READs or WRITEs in flight: `--window`.
    pub window: Option<u32>,
    /// Largest READ or WRITE in KiB: `--transfer`.
    pub transfer_kib: Option<u32>,
    /// Number of TCP connections: `nconnect` of the URL.
    pub nconnect: Option<u32>,
    /// How local files are moved: `--local` of `penstock cp`.
    pub local: Option<&'static str>,
}

impl Tuning {
    fn words(self) -> String {
        let word = |name, value: Option<u32>, unit| {
            value.map_or(String::new(), |value| format!(", {name} {value}{unit}"))
        };
        word("window", self.window, "")
            + &word("transfer", self.transfer_kib, " KiB")
            + &word("nconnect", self.nconnect, "")
            + &self.local.map_or(String::new(), |way| format!(", {way}"))
    }

    fn options(self) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(window) = self.window {
            options.extend(["--window".to_owned(), window.to_string()]);
        }
        if let Some(kib) = self.transfer_kib {
            options.extend(["--transfer".to_owned(), format!("{kib}KiB")]);
        }
        if let Some(way) = self.local {
            options.extend(["--local".to_owned(), way.to_owned()]);
        }
        options
    }
}

/// A client that takes its turn in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The commands `penstock cat`, `put` and `cp`, tuned as given.
    Penstock(Tuning),
    /// The client library without a command around it, tuned as given.
    Library(Tuning),
    /// libnfs's `nfs-cat` and `nfs-cp`; small files one by one in a shell's loop.
    Libnfs,
    /// The Linux kernel's client, in User Mode Linux; not a command.
    Kernel,
}

impl Tool {
    /// The client's name in the report when it does `work`.
    pub fn name(self, work: Work) -> String {
        match self {
            Self::Penstock(tuning) => {
                let command = match work {
                    Work::Read => "cat",
                    Work::Write => "put",
                    Work::CopyDown | Work::CopyUp => "cp",
                    Work::ManyDown | Work::ManyUp => "cp -r",
                };
                format!("penstock {command}{}", tuning.words())
            }
            Self::Library(tuning) => format!("nfs-client{}", tuning.words()),
            Self::Libnfs => match work {
                Work::Read => "nfs-cat".to_owned(),
                Work::ManyDown | Work::ManyUp => "nfs-cp in a loop".to_owned(),
                Work::Write | Work::CopyDown | Work::CopyUp => "nfs-cp".to_owned(),
            },
            Self::Kernel => "dd on the kernel's client (UML)".to_owned(),
        }
    }

    /// How our client was tuned; `None` for the clients of others.
    pub fn tuning(self) -> Option<Tuning> {
        match self {
            Self::Penstock(tuning) | Self::Library(tuning) => Some(tuning),
            Self::Libnfs | Self::Kernel => None,
        }
    }
}

/// Where a measurement's bytes come from and go to.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Name of the source or the destination on the server.
    pub remote: &'a str,
    /// The local file or directory that is the source or the destination.
    pub local: &'a Path,
    /// Bytes of a file that comes out of nowhere.
    pub bytes: u64,
    /// The local file has to be on its device at the end, whoever wrote it.
    pub synced: bool,
}

/// The command that does `work` with `tool` on core `cpu`; its messages go to `log`.
///
/// # Errors
/// `tool` cannot do this, or a file cannot be opened.
pub fn command(
    tool: Tool,
    work: Work,
    on: &Serving,
    ends: Ends<'_>,
    (cpu, log): (usize, &Path),
) -> Result<Command> {
    let mut command = on_core(cpu);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(log)?);
    if ends.synced {
        // Neither of the commands does that unless it is told, and one of them cannot be told.
        command
            .args(["sh", "-c", r#""$@" && sync "$0""#])
            .arg(ends.local);
    }
    match tool {
        Tool::Penstock(tuning) => {
            let url = on.url(ends.remote, tuning.nconnect);
            command.arg(binary()?);
            match work {
                Work::Read => command.arg("cat").args(tuning.options()).arg(url),
                Work::Write => {
                    command.stdin(File::open(ends.local)?);
                    command.arg("put").args(tuning.options()).arg(url)
                }
                Work::CopyDown => {
                    command.arg("cp").args(tuning.options());
                    command.arg(url).arg(ends.local)
                }
                Work::CopyUp => {
                    command.arg("cp").args(tuning.options());
                    command.arg(ends.local).arg(url)
                }
                Work::ManyDown => command.args(["cp", "-r"]).arg(url).arg(ends.local),
                Work::ManyUp => command.args(["cp", "-r"]).arg(ends.local).arg(url),
            };
        }
        Tool::Library(tuning) => {
            command.arg(std::env::current_exe()?);
            command.args(["move", &on.url(ends.remote, tuning.nconnect)]);
            command.args(tuning.options());
            match work {
                Work::Read => {}
                Work::Write => {
                    command.args(["--write-bytes", &ends.bytes.to_string()]);
                }
                _ => bail!("the library alone only reads and writes one file"),
            }
        }
        Tool::Libnfs => libnfs(&mut command, work, on, ends)?,
        Tool::Kernel => bail!("the kernel's client is no command"),
    }
    Ok(command)
}

fn libnfs(command: &mut Command, work: Work, on: &Serving, ends: Ends<'_>) -> Result<()> {
    let (url, options) = on.libnfs_url(ends.remote);
    let whole = format!("{url}{options}");
    match work {
        Work::Read => command.arg("nfs-cat").arg(whole),
        Work::CopyDown => command.arg("nfs-cp").arg(whole).arg(ends.local),
        Work::CopyUp => command.arg("nfs-cp").arg(ends.local).arg(whole),
        Work::ManyDown | Work::ManyUp => {
            let loop_ = if work == Work::ManyDown {
                r#"for f in $4; do nfs-cp "$2/$f$3" "$1/$f" || exit 1; done"#
            } else {
                r#"for f in $4; do nfs-cp "$1/$f" "$2/$f$3" || exit 1; done"#
            };
            command.args(["sh", "-c", loop_, "sh"]).arg(ends.local);
            // So many of the files that the directory has: the rest would take as long again and again.
            let names: Vec<String> = (0..LOOPED_FILES).map(small_name).collect();
            command.arg(url).arg(options).arg(names.join(" "))
        }
        Work::Write => bail!("libnfs has no command that writes what it is given"),
    };
    Ok(())
}

/// How many of the small files libnfs's loop copies; its rate does not depend on it.
pub const LOOPED_FILES: usize = 300;

/// Name of the small file number `index`.
pub fn small_name(index: usize) -> String {
    format!("small-{index:05}")
}
