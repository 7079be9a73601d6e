//! Server and Linux client together: workloads of `penstock bench` in a User Mode Linux guest, on mounts of ours in two
//! modes and of NFS-Ganesha, and beside it the same workloads by our own client from the host.
//!
//! In the guest everything that is not plain computing is many times slower than on a machine, so that the guest's
//! client is what most figures end at: how far, the figures beside it tell. The servers are on the host, and what they
//! take for the calls of a Linux client is what they take on any machine.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nfs_load::report::Report as Measured;
use nfs_load::spread::ratio;
use nfs_load::table::Table;
use nfs_load::workload::{Unit, Workload};
use serde::Serialize;

use crate::client::guest::{self, Guest};
use crate::client::serve::{HOST, NETWORK};
use crate::counters;
use crate::servers::{
    Penstock, Place, Program, Server, Start, WITHOUT_GANESHA, binary, ganesha_is_installed, on_core,
};
use crate::stage::Stage;
use crate::summary::Summary;
use crate::turns::{Machine, Turns};

/// The port of the first server; the others have those behind it.
const PORT: u16 = 20_531;
/// The workloads that are measured if none is named.
const USUAL: [Workload; 4] = [
    Workload::SeqRead,
    Workload::SeqWrite,
    Workload::Random4k,
    Workload::Metadata,
];

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of workloads of `penstock bench`; the usual ones if there are none.
    pub workloads: Vec<String>,
    /// Measurements of each figure, behind one that is thrown away.
    pub repetitions: usize,
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    file_system: String,
    repetitions: usize,
    run_seconds: f64,
    servers: Vec<&'static str>,
    workloads: Vec<Both>,
    missing: Vec<String>,
}

/// A workload by both clients.
#[derive(Debug, Serialize)]
struct Both {
    guest: Through,
    host: Through,
}

/// A workload by one client.
#[derive(Debug, Serialize)]
struct Through {
    report: Measured,
    /// CPU seconds of each server for all of it: files made, and what is thrown away.
    server_seconds: Vec<f64>,
}

/// Measures all workloads on all servers; says what it is doing on standard error.
///
/// # Errors
/// Not inside the namespaces of [`crate::stage`], User Mode Linux is not installed, a server or the guest does not come
/// up, or a workload fails.
pub fn run(options: &Options) -> Result<Report> {
    let turns = Turns::new();
    let machine = Machine::look()?;
    let workloads = workloads(&options.workloads)?;
    guest::set_wire()?;
    let stage = Stage::set(None)?;
    let (servers, missing) = start(&stage, machine.cores.1)?;
    let work = Work {
        servers: &servers,
        repetitions: options.repetitions,
        cpu: machine.cores.0,
    };
    let guests = work.in_guest(&workloads, &stage.root.join("guest"))?;
    let mut both = Vec::new();
    for (workload, guest) in workloads.into_iter().zip(guests) {
        eprintln!("{}, by our own client", workload.name());
        let host = work.on_host(workload)?;
        both.push(Both { guest, host });
    }
    Ok(Report {
        machine,
        file_system: stage.file_system,
        repetitions: options.repetitions,
        run_seconds: turns.seconds(),
        servers: servers.iter().map(|one| one.name).collect(),
        workloads: both,
        missing,
    })
}

fn workloads(names: &[String]) -> Result<Vec<Workload>> {
    if names.is_empty() {
        return Ok(USUAL.to_vec());
    }
    let named = |name: &String| {
        let found = USUAL.into_iter().find(|workload| workload.name() == name);
        found.with_context(|| {
            format!(
                "'{name}' is not measured here: give {}",
                USUAL.map(Workload::name).join(", ")
            )
        })
    };
    names.iter().map(named).collect()
}

/// The numbers of a workload: what a guest does in some seconds.
fn numbers(workload: Workload) -> &'static [&'static str] {
    match workload {
        Workload::Random4k => &["--size=64MiB", "--seconds=1"],
        Workload::Metadata => &["--names=300"],
        _ => &["--size=256MiB"],
    }
}

/// A server and its name.
struct Named {
    name: &'static str,
    server: Server,
}

/// Starts the servers; also what is not there.
fn start(stage: &Stage, cpu: usize) -> Result<(Vec<Named>, Vec<String>)> {
    let ours = |mode| {
        Program::Penstock(Penstock {
            mode: Some(mode),
            pseudo: "/",
            guests: Some((HOST, NETWORK)),
            ..Penstock::default()
        })
    };
    let mut wanted = vec![
        ("penstock-buffered", ours("buffered")),
        ("penstock-direct", ours("direct")),
    ];
    let mut missing = Vec::new();
    match ganesha_is_installed() {
        true => wanted.push(("ganesha", Program::Ganesha)),
        false => missing.push(WITHOUT_GANESHA.to_owned()),
    }
    let mut servers = Vec::new();
    // Ganesha has two ports.
    for (port, (name, program)) in (PORT..).step_by(2).zip(wanted) {
        let start = Start {
            name,
            program,
            directory: &stage.exports.join(name),
            work: &stage.root.join(name),
            port,
            cpu,
            wrapper: &[],
        };
        let server = start.start()?;
        servers.push(Named { name, server });
    }
    Ok((servers, missing))
}

/// What is measured, and by whom.
struct Work<'a> {
    servers: &'a [Named],
    repetitions: usize,
    /// The client's core.
    cpu: usize,
}

impl Work<'_> {
    /// Measures the workloads one after the other in a guest with its files in `at`. The servers take turns in each.
    fn in_guest(&self, workloads: &[Workload], at: &Path) -> Result<Vec<Through>> {
        let script = |lines: &Path| self.script(workloads, at, lines);
        let mut guest = Guest::start(self.cpu, at, script)?;
        let mut all = Vec::new();
        for workload in workloads {
            guest.wait_for("begin")?;
            eprintln!("{}, by the guest's client", workload.name());
            let before = self.server_seconds()?;
            guest.wait_for("end")?;
            let after = self.server_seconds()?;
            let path = at.join(workload.name());
            let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
            all.push(Through {
                report: serde_json::from_slice(&text)?,
                server_seconds: difference(&before, &after),
            });
        }
        guest.halt()?;
        Ok(all)
    }

    fn script(&self, workloads: &[Workload], at: &Path, lines: &Path) -> Result<String> {
        let mut script = guest::beginning(lines)?;
        for Named { name, server } in self.servers {
            let Place { nfs, mount, export } = &server.place;
            let point = format!("/mnt/{name}");
            script += &format!("mkdir {point}\n");
            script += &guest::mount((export, nfs.port(), mount.port()), &point);
        }
        let lines = lines.display();
        for workload in workloads {
            let mounted = self.servers.iter().map(|one| format!("/mnt/{}", one.name));
            let targets = mounted.map(|point| format!("--mounted={point}").into());
            let words = self.words(*workload, targets)?.join(&OsString::from(" "));
            let (words, out) = (words.display(), at.join(workload.name()));
            let out = out.display();
            script += &format!(
                "echo begin >>{lines}\n\
                 {words} >{out} 2>{out}.err || stop \"fail $(tail -n 3 {out}.err | tr '\\n' ' ')\"\n\
                 echo end >>{lines}\n"
            );
        }
        Ok(script + "umount /mnt/*\nstop halt\n")
    }

    /// Measures a workload by our own client.
    fn on_host(&self, workload: Workload) -> Result<Through> {
        let targets = self.servers.iter().map(|one| {
            let Place { nfs, mount, export } = &one.server.place;
            format!("--server=nfs://{nfs}{export}?mountport={}", mount.port()).into()
        });
        let before = self.server_seconds()?;
        let words = self.words(workload, targets)?;
        let mut command = on_core(self.cpu);
        let said = measured(command.args(words))?;
        let after = self.server_seconds()?;
        Ok(Through {
            report: serde_json::from_slice(&said)?,
            server_seconds: difference(&before, &after),
        })
    }

    /// The command that measures a workload on these targets.
    fn words(
        &self,
        workload: Workload,
        targets: impl Iterator<Item = OsString>,
    ) -> Result<Vec<OsString>> {
        let repetitions = format!("--repetitions={}", self.repetitions);
        let fixed = ["bench", workload.name(), "--json", "--quiet", &repetitions];
        let mut words = vec![binary()?.into()];
        words.extend(fixed.iter().map(OsString::from));
        words.extend(numbers(workload).iter().map(OsString::from));
        words.extend(targets);
        Ok(words)
    }

    fn server_seconds(&self) -> Result<Vec<f64>> {
        let of = |one: &Named| {
            let (user, system) = counters::cpu_times(one.server.pid)
                .with_context(|| format!("{} has ended", one.name))?;
            Ok(user + system)
        };
        self.servers.iter().map(of).collect()
    }
}

fn measured(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().context("penstock bench")?;
    ensure!(
        output.status.success(),
        "penstock bench: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(output.stdout)
}

fn difference(before: &[f64], after: &[f64]) -> Vec<f64> {
    let both = before.iter().zip(after);
    both.map(|(before, after)| after - before).collect()
}

impl Report {
    /// The run as people read it.
    ///
    /// # Errors
    /// A report of `penstock bench` has not a row for each server.
    pub fn summary(&self) -> Result<Summary<'_>> {
        let mut tables = Vec::new();
        for both in &self.workloads {
            tables.extend(self.steps(both)?);
            tables.push(self.processor(both));
        }
        Ok(Summary {
            header: self.header(),
            tables,
            verdicts: Vec::new(),
            missing: &self.missing,
        })
    }

    fn header(&self) -> Vec<String> {
        let mut lines = vec![
            self.machine.line("both clients"),
            format!(
                "{}; {} repetitions, median (min..max); {:.0} s in all",
                self.file_system, self.repetitions, self.run_seconds
            ),
            self.machine.others_line(&[]),
        ];
        let guest = self.workloads.first().map(|both| &both.guest.report);
        if let Some(environment) = guest.map(|report| &report.environment) {
            lines.push(format!(
                "the guest: {} as User Mode Linux, in which clock and speed are not those of a machine: how servers or \
                 modes compare is what may be read from it, and only where its client is not what both end at",
                environment.kernel
            ));
            let mounts = environment.mounts.iter();
            lines.extend(mounts.map(|mount| format!("mounted: {}", mount.options)));
        }
        lines
    }

    /// A table for each step of a workload: each server through each client.
    fn steps(&self, both: &Both) -> Result<Vec<Table>> {
        let name = both.guest.report.workload.name();
        let mut steps: Vec<&str> = Vec::new();
        for row in &both.guest.report.rows {
            if !steps.contains(&row.step.as_str()) {
                steps.push(&row.step);
            }
        }
        let table = |step: &&str| {
            let (guest, host) = (
                self.cells(&both.guest, step)?,
                self.cells(&both.host, step)?,
            );
            let unit = match both.guest.report.rows.iter().find(|row| row.step == **step) {
                Some(row) if row.unit == Unit::Mib => "MiB/s",
                _ => "calls/s",
            };
            let [linux, ours] = ["Linux client", "our client"].map(|who| format!("{who}, {unit}"));
            let heading = ["", &linux, "x first", "p50 us", &ours, "x first", "p50 us"];
            let rows = self.servers.iter().zip(guest.into_iter().zip(host));
            let rows = rows.map(|(name, (guest, host))| {
                let first = std::iter::once((*name).to_owned());
                first.chain(guest).chain(host).collect()
            });
            Ok(Table::new(format!("{name}: {step}"), &heading, rows))
        };
        steps.iter().map(table).collect()
    }

    /// For each server the throughput at a step, how it compares to the first server's, and what half of the calls took.
    fn cells(&self, through: &Through, step: &str) -> Result<Vec<[String; 3]>> {
        let rows = through.report.rows.iter().filter(|row| row.step == step);
        let rows: Vec<_> = rows.map(|row| row.figures).collect();
        if rows.len() != self.servers.len() {
            bail!("{step}: {}", through.report.missing.join("; "));
        }
        let first = rows.first().map(|figures| figures.throughput.median);
        let cells = rows.iter().map(|figures| {
            [
                format!("{:.0}", figures.throughput),
                ratio(Some(figures.throughput.median), first),
                format!("{:.0}", figures.p50_us.median),
            ]
        });
        Ok(cells.collect())
    }

    fn processor(&self, both: &Both) -> Table {
        let seconds = |through: &Through, at: usize| {
            let seconds = through.server_seconds.get(at);
            seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.2}"))
        };
        let names = self.servers.iter().enumerate();
        let rows = names.map(|(at, name)| {
            let [guest, host] = [&both.guest, &both.host].map(|through| seconds(through, at));
            vec![(*name).to_owned(), guest, host]
        });
        let title = format!(
            "{}: processor time of the server for all of it, files made and warm-up included",
            both.guest.report.workload.name()
        );
        Table::new(title, &["", "Linux client, s", "our client, s"], rows)
    }
}
