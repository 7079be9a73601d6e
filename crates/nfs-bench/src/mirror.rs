//! Mirroring a tree to a server: `penstock sync` beside rsync and rclone, in turn in one run.
//!
//! Ours talks to the server. rsync and rclone have no NFS client of their own, so they write to a `penstock mount` of
//! the same export: what is compared is what each comes to on a machine without a kernel module. All bring what they
//! copied to the server's stable storage: on the mount, `close` returns when it is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::client::watch::{Spent, watch};
use crate::content::{Content, Data};
use crate::counters;
use crate::mounted::Mounted;
use crate::servers::{Penstock, Program, Server, Start, binary, on_core};
use crate::stage::{Stage, output};
use crate::summary::Summary;
use crate::turns::{Machine, Turns};
use nfs_load::spread::Spread;
use nfs_load::table::Table;

/// Length of each small file in bytes.
const SMALL_BYTES: usize = 4096;
/// Number of small files in one directory.
const FILES_OF_A_DIRECTORY: usize = 1000;
/// Bytes of the large file that are composed at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The port of the server.
const PORT: u16 = 20_521;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of small files.
    pub files: usize,
    /// Size of the large file in bytes.
    pub large_bytes: u64,
    /// Number of rounds: everything is measured once in each.
    pub rounds: usize,
}

/// Who mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Tool {
    Penstock,
    Rsync,
    Rclone,
    /// With as many files at once as ours has.
    RcloneWide,
}

impl Tool {
    const ALL: [Self; 4] = [Self::Penstock, Self::Rsync, Self::Rclone, Self::RcloneWide];

    const fn name(self) -> &'static str {
        match self {
            Self::Penstock => "penstock sync",
            Self::Rsync => "rsync -a, mount",
            Self::Rclone => "rclone sync, mount",
            Self::RcloneWide => "rclone sync --transfers 32, mount",
        }
    }

    const fn program(self) -> Option<&'static str> {
        match self {
            Self::Penstock => None,
            Self::Rsync => Some("rsync"),
            Self::Rclone | Self::RcloneWide => Some("rclone"),
        }
    }
}

/// What is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Tree {
    Small,
    Large,
}

/// A tool on a tree, to an empty directory and then once more with nothing to do.
#[derive(Debug, Serialize)]
struct Row {
    tree: Tree,
    tool: Tool,
    first: Vec<Figures>,
    again: Vec<Figures>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
struct Figures {
    client: Spent,
    /// CPU seconds of the process that serves the mount.
    mount_seconds: f64,
    server_seconds: f64,
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    versions: Vec<String>,
    file_system: String,
    files: usize,
    large_bytes: u64,
    rounds: usize,
    run_seconds: f64,
    rows: Vec<Row>,
    missing: Vec<String>,
}

/// Measures all in all rounds; says what it is doing on standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], or the server or the mount does not come up.
pub fn run(options: &Options) -> Result<Report> {
    let mut turns = Turns::new();
    let machine = Machine::look()?;
    let stage = Stage::set(None)?;
    let mut rows = Vec::new();
    for tree in [Tree::Small, Tree::Large] {
        rows.extend(Tool::ALL.map(|tool| Row {
            tree,
            tool,
            first: Vec::new(),
            again: Vec::new(),
        }));
    }
    let place = Place::set(&stage, options, machine.cores)?;
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            let label = format!("{:?}: {}", row.tree, row.tool.name());
            let say = |(first, again): &(Figures, Figures)| {
                format!(
                    "{:>8.2} s, again {:.2} s",
                    first.client.seconds, again.client.seconds
                )
            };
            let taken = turns.take(&label, |_| place.measure(row.tree, row.tool), say);
            if let Some((first, again)) = taken {
                row.first.push(first);
                row.again.push(again);
            }
        }
    }
    rows.retain(|row| !row.first.is_empty());
    let version = |package: &str| {
        output(
            "dpkg-query",
            &["-W", &format!("-f={package} ${{Version}}"), package],
        )
        .ok()
    };
    Ok(Report {
        machine: turns.on(machine),
        versions: ["rsync", "rclone"]
            .into_iter()
            .filter_map(version)
            .collect(),
        file_system: stage.file_system,
        files: options.files,
        large_bytes: options.large_bytes,
        rounds: options.rounds,
        run_seconds: turns.seconds(),
        rows,
        missing: turns.missing,
    })
}

/// The trees, the server and the mount.
struct Place {
    sources: PathBuf,
    served: PathBuf,
    log: PathBuf,
    client_core: usize,
    // The mount goes before its server.
    mounted: Mounted,
    server: Server,
}

impl Place {
    fn set(stage: &Stage, options: &Options, cores: (usize, usize)) -> Result<Self> {
        let (client_core, server_core) = cores;
        let sources = stage.root.join("sources");
        make_trees(&sources, options)?;
        let served = stage.exports.join("served");
        let server = Start {
            name: "penstock",
            program: Program::Penstock(Penstock {
                pseudo: "/export",
                ..Penstock::default()
            }),
            directory: &served,
            work: &stage.root.join("server"),
            port: PORT,
            cpu: server_core,
            wrapper: &[],
        };
        let server = server.start()?;
        let mounted = stage.root.join("mounted");
        let mounted = Mounted::start(on_core(client_core), &url(""), &mounted)?;
        let log = stage.root.join("log");
        Ok(Self {
            sources,
            served,
            mounted,
            log,
            client_core,
            server,
        })
    }

    /// A tree to an empty directory, and once more; compared, and removed.
    fn measure(&self, tree: Tree, tool: Tool) -> Result<(Figures, Figures)> {
        if let Some(program) = tool.program() {
            output("which", &[program]).with_context(|| format!("no {program}"))?;
        }
        let source = self.sources.join(name(tree));
        let to = self.served.join("to");
        fs::create_dir(&to)?;
        let measured = self.once(&source, tool).and_then(|first| {
            same(&source, &to)?;
            Ok((first, self.once(&source, tool)?))
        });
        fs::remove_dir_all(&to)?;
        rustix::fs::sync();
        measured
    }

    fn once(&self, source: &Path, tool: Tool) -> Result<Figures> {
        let mut command = on_core(self.client_core);
        let to = self.mounted.directory.join("to");
        match tool {
            Tool::Penstock => command
                .arg(binary()?)
                .args(["sync", "--quiet"])
                .arg(source)
                .arg(url("/to")),
            // What ends with a slash is the content of the directory.
            Tool::Rsync => command.args(["rsync", "-a"]).arg(source.join("")).arg(to),
            Tool::Rclone => command.args(["rclone", "sync"]).arg(source).arg(to),
            Tool::RcloneWide => command
                .args(["rclone", "sync", "--transfers", "32", "--checkers", "32"])
                .arg(source)
                .arg(to),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&self.log)?);
        let seconds = |pid| counters::cpu_seconds(pid);
        let before = (seconds(self.mounted.id())?, seconds(self.server.pid)?);
        let client = watch(&mut command)
            .with_context(|| fs::read_to_string(&self.log).unwrap_or_default())?;
        Ok(Figures {
            client,
            mount_seconds: seconds(self.mounted.id())? - before.0,
            server_seconds: seconds(self.server.pid)? - before.1,
        })
    }
}

const fn name(tree: Tree) -> &'static str {
    match tree {
        Tree::Small => "small",
        Tree::Large => "large",
    }
}

fn url(below: &str) -> String {
    format!("nfs://127.0.0.1:{PORT}/export{below}")
}

fn make_trees(sources: &Path, options: &Options) -> Result<()> {
    eprintln!("writing the files that are mirrored");
    let large = sources.join(name(Tree::Large));
    fs::create_dir_all(&large)?;
    Content::new(Data::Noise, PIECE_BYTES).make_file(&large.join("file"), options.large_bytes)?;
    let small = sources.join(name(Tree::Small));
    let mut content = Content::new(Data::Noise, SMALL_BYTES);
    for index in 0..options.files {
        let directory = small.join(format!("{:03}", index / FILES_OF_A_DIRECTORY));
        if index % FILES_OF_A_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        let at = (index * SMALL_BYTES) as u64;
        let path = directory.join(format!("file-{index:06}"));
        fs::write(path, content.piece(at, SMALL_BYTES))?;
    }
    Ok(())
}

/// Whether two trees are the same, byte by byte and in their times of modification.
fn same(one: &Path, other: &Path) -> Result<()> {
    let paths = [one, other].map(|path| path.display().to_string());
    let [one, other] = &paths;
    if let Err(error) = output("diff", &["-rq", one, other]) {
        bail!("another tree came: {error:#}");
    }
    let listed = |root: &str| {
        output(
            "sh",
            &[
                "-c",
                "cd \"$0\" && find . -type f -printf '%P %s %Ts\\n' | sort",
                root,
            ],
        )
    };
    ensure!(
        listed(one)? == listed(other)?,
        "names, sizes or times differ"
    );
    Ok(())
}

impl Report {
    /// The run as people read it.
    pub fn summary(&self) -> Summary<'_> {
        let header = vec![
            self.machine.line("client and mount"),
            format!(
                "{} files of 4 KiB in directories of {FILES_OF_A_DIRECTORY}, and one file of {} MiB, from memory (tmpfs) to {}; {} rounds, median (min..max); {:.0} s in all",
                self.files,
                self.large_bytes >> 20,
                self.file_system,
                self.rounds,
                self.run_seconds
            ),
            self.machine.others_line(&self.versions),
        ];
        Summary {
            header,
            tables: vec![self.table(Tree::Small), self.table(Tree::Large)],
            verdicts: Vec::new(),
            missing: &self.missing,
        }
    }

    fn table(&self, tree: Tree) -> Table {
        let heading = [
            "",
            "seconds",
            "again",
            "CPU s, client",
            "CPU s, mount",
            "CPU s, server",
            "RSS MiB",
        ];
        let rows = self.rows.iter().filter(|row| row.tree == tree).map(|row| {
            let of = |rounds: &[Figures], figure: fn(&Figures) -> f64| {
                Spread::cell(rounds.iter().map(figure), 2)
            };
            vec![
                row.tool.name().to_owned(),
                of(&row.first, |it| it.client.seconds),
                of(&row.again, |it| it.client.seconds),
                of(&row.first, |it| it.client.user + it.client.system),
                of(&row.first, |it| it.mount_seconds),
                of(&row.first, |it| it.server_seconds),
                of(&row.first, |it| {
                    it.client.peak_bytes as f64 / f64::from(1 << 20)
                }),
            ]
        });
        Table::new(
            format!("{}: up, and again with nothing to do", name(tree)),
            &heading,
            rows,
        )
    }
}
