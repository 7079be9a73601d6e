//! `penstock bench`: loads on servers and file systems, and a report of how they were borne.

mod ceiling;
mod compare;
mod replay;
mod targets;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nfs_io::BusyPoll;
use nfs_load::error::LoadError;
use nfs_load::pace::Stop;
use nfs_load::report::page::Page;
use nfs_load::report::{Report, html};
use nfs_load::run::{self, Event, Plan};
use nfs_load::target::{Target, command_line};
use nfs_load::workload::{Number, Settings, Workload};

use crate::exit::UsageError;
use crate::interrupt::{self, Ended, Interrupts};
use crate::message;
use crate::session::Common;
use crate::silence;
use targets::TargetArgs;

/// Measure NFS servers, the modes of ours, and this host's file system
///
/// Puts a load on each target in turn, as often as --repetitions says, and shows
/// medians with their range: throughput (COMMIT included), latencies, processor
/// time where the run started the server. Without a target, that is --self: our
/// server in each of its modes, started for it and gone with it. Files are made in
/// a new directory, which is removed again.
///
/// Examples:
///
///   penstock bench seq-read --self --local --size 64MiB
///
///   penstock bench random-4k --self=buffered,direct --report /tmp/random-4k
///
///   penstock bench metadata --server nfs://server/export --names 500
///
///   penstock bench compare old/report.json new/report.json
///
/// Exit codes: 0 done, 1 something could not be measured or is worse (compare), 2
/// wrong usage or reports that cannot be compared, 130 interrupted.
#[derive(clap::Args, Debug)]
#[command(
    verbatim_doc_comment,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// A file read from one end to the other
    SeqRead(Box<LoadArgs>),
    /// A new file written from one end to the other, COMMIT included
    SeqWrite(Box<LoadArgs>),
    /// 4 KiB at random places: read, written and committed, written to stable storage each time
    #[command(name = "random-4k")]
    Random4k(Box<LoadArgs>),
    /// Names of one directory: create, stat, readdir, rename, remove
    Metadata(Box<LoadArgs>),
    /// Small calls by the clock, alone and beside a flooding writer, reader and stable writer
    Mixed(Box<LoadArgs>),
    /// NULL, GETATTR, LOOKUP and ACCESS, many in flight; and NULL beside a flood of stable WRITEs
    SmallCalls(Box<LoadArgs>),
    /// READs over 1, 4, 16 and 256 connections and beside idle ones, and what those cost
    Connections(Box<LoadArgs>),
    /// Records of 1 KiB to 16 MiB: write, rewrite, read, reread, in microseconds for a call
    Iozone(Box<LoadArgs>),
    /// A file written and read with 1 to 32 calls in flight
    MkfileDd(Box<LoadArgs>),
    /// Each connection writes and reads a file of its own
    IorEasy(Box<LoadArgs>),
    /// Connections take turns in one file, with records of 47008 bytes
    IorHard(Box<LoadArgs>),
    /// A stream of WRITEs, in order and shuffled within 2 to 64
    OutOfOrder(Box<LoadArgs>),
    /// A file written and read while it outgrows memory, moment by moment
    TipOver(Box<LoadArgs>),
    /// A source tree unpacked: directories, many small files, some symbolic links
    Untar(Box<LoadArgs>),
    Ceiling(Box<ceiling::Args>),
    Replay(Box<replay::Args>),
    Compare(compare::Args),
}

#[derive(clap::Args, Debug)]
struct LoadArgs {
    #[command(flatten)]
    targets: TargetArgs,

    /// Measurements of each figure, in turn, after one that is thrown away
    #[arg(long, value_name = "N", default_value_t = 3)]
    repetitions: u32,
    /// Bytes of each file, for example 256MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Bytes of one call of the application, for example 64KiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    record: Option<u64>,
    /// Calls in flight on each connection
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Connections
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Length of each measurement, where it is not a whole file or directory
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Begin so many calls in a second, by the clock; latencies count from when a call was to begin
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Names in the directory
    #[arg(long, value_name = "N")]
    names: Option<u64>,
    /// Leave files that are read in this host's page cache
    #[arg(long)]
    cached: bool,
    /// Connections that are open and idle beside those that are measured
    #[arg(long, value_name = "N")]
    idle: Option<usize>,

    /// How long the generator looks for replies before it sleeps, for example 50us: without it, at --depth=1, its own
    /// wake-ups are part of what is measured
    #[arg(long, value_name = "TIME", default_value_t = BusyPoll::OFF, value_parser = time_to_poll)]
    busy_poll: BusyPoll,

    /// Write the report into this directory: report.html, report.json, report.md
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,

    #[command(flatten)]
    common: Common,
}

/// How long a thread polls that has to be told how long.
fn time_to_poll(text: &str) -> Result<BusyPoll, String> {
    match text.parse::<BusyPoll>() {
        Ok(poll) if poll.is_auto() => {
            Err("the generator does not choose: give a time, for example 50us".to_owned())
        }
        poll => poll.map_err(|error| error.to_string()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    nfs_io::size::parse(text).map_err(|error| error.to_string())
}

impl Args {
    /// Measures or compares, and prints what came of it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (workload, args) = match self.what {
            What::SeqRead(args) => (Workload::SeqRead, args),
            What::SeqWrite(args) => (Workload::SeqWrite, args),
            What::Random4k(args) => (Workload::Random4k, args),
            What::Metadata(args) => (Workload::Metadata, args),
            What::Mixed(args) => (Workload::Mixed, args),
            What::SmallCalls(args) => (Workload::SmallCalls, args),
            What::Connections(args) => (Workload::Connections, args),
            What::Iozone(args) => (Workload::Iozone, args),
            What::MkfileDd(args) => (Workload::MkfileDd, args),
            What::IorEasy(args) => (Workload::IorEasy, args),
            What::IorHard(args) => (Workload::IorHard, args),
            What::OutOfOrder(args) => (Workload::OutOfOrder, args),
            What::TipOver(args) => (Workload::TipOver, args),
            What::Untar(args) => (Workload::Untar, args),
            What::Ceiling(args) => return args.run(),
            What::Replay(args) => return args.run(),
            What::Compare(args) => return args.run(),
        };
        args.run(workload)
    }
}

impl LoadArgs {
    fn run(&self, workload: Workload) -> anyhow::Result<ExitCode> {
        message::begin(self.common.log_json);
        crate::results::begin(self.common.json);
        let settings = self.settings(workload)?;
        let plan = Plan {
            settings,
            ..self
                .targets
                .plan(workload, self.repetitions, &self.common)?
        };
        carried_out(plan, self.report.as_deref(), &self.common)
    }

    fn settings(&self, workload: Workload) -> Result<Settings, UsageError> {
        let given = [
            (self.size.is_some(), Number::Size, "--size"),
            (self.record.is_some(), Number::Record, "--record"),
            (self.depth.is_some(), Number::Depth, "--depth"),
            (
                self.connections.is_some(),
                Number::Connections,
                "--connections",
            ),
            (self.seconds.is_some(), Number::Seconds, "--seconds"),
            (self.rate.is_some(), Number::Rate, "--rate"),
            (self.names.is_some(), Number::Names, "--names"),
            (self.cached, Number::Cached, "--cached"),
            (self.idle.is_some(), Number::Idle, "--idle"),
        ];
        let unused = given
            .iter()
            .find(|(given, number, _)| *given && !workload.uses(*number));
        if let Some((_, _, option)) = unused {
            let name = workload.name();
            return Err(UsageError(format!(
                "{option} changes nothing of {name}: leave it out"
            )));
        }
        let defaults = workload.defaults();
        let record = self.record.map_or(Ok(defaults.record_bytes), u32::try_from);
        Ok(Settings {
            size_bytes: self
                .size
                .unwrap_or_else(|| workload.default_size_bytes(self.targets.memory_bytes())),
            // Longer than anything that is allowed, which is told with the bound.
            record_bytes: record.unwrap_or(u32::MAX),
            depth: self.depth.unwrap_or(defaults.depth),
            connections: self.connections.unwrap_or(defaults.connections),
            seconds: self.seconds.unwrap_or(defaults.seconds),
            rate: self.rate.or(defaults.rate),
            names: self.names.unwrap_or(defaults.names),
            cached: self.cached,
            idle: self.idle.unwrap_or(defaults.idle),
            busy_poll_us: self.busy_poll.microseconds(),
        })
    }
}

/// The plan of a workload with its usual numbers.
fn plan(
    workload: Workload,
    targets: Vec<Target>,
    repetitions: u32,
    common: &Common,
) -> anyhow::Result<Plan> {
    Ok(Plan {
        workload,
        settings: workload.defaults(),
        targets,
        repetitions,
        directory: std::env::temp_dir(),
        program: std::env::current_exe().context("cannot find this program")?,
        options: common.mount_options(),
        memory_bytes: None,
        command: again(),
        began: format!("{:.0}", jiff::Timestamp::now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
    })
}

/// Carries a plan out.
fn carried_out(plan: Plan, report: Option<&Path>, common: &Common) -> anyhow::Result<ExitCode> {
    // What is out of range is known before anything is started.
    plan.check().map_err(usage)?;
    let run = move |stop: &Stop, tell: &mut dyn FnMut(Event<'_>)| run::run(&plan, stop, tell);
    told(report, common, run)
}

/// Measures, and prints and writes what came of it.
fn told(
    directory: Option<&Path>,
    common: &Common,
    run: impl FnOnce(&Stop, &mut dyn FnMut(Event<'_>)) -> Result<Report, LoadError> + Send + 'static,
) -> anyhow::Result<ExitCode> {
    if let Some(directory) = directory {
        // It must not turn out after the measurements that there is no place for them.
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let Some(report) = measured(common, run)? else {
        return Ok(interrupt::exit_code());
    };
    if let Some(directory) = directory {
        write(directory, &report)?;
    }
    let text = match common.json {
        true => format!("{}\n", serde_json::to_string(&report)?),
        false => Page::of(&report).text(),
    };
    std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes())?;
    Ok(match report.missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The commit that the program was built of, as whoever built it told: a build script that looked for it would make
/// another program in each directory.
fn commit() -> Option<String> {
    let told = option_env!("PENSTOCK_COMMIT").filter(|commit| !commit.is_empty());
    told.map(str::to_owned)
}

/// The command that repeats this run.
fn again() -> String {
    let arguments = std::env::args_os().skip(1);
    let words: Vec<OsString> = std::iter::once(OsString::from("penstock"))
        .chain(arguments)
        .collect();
    command_line(&words)
}

/// An error of usage where the load says that a setting is wrong.
fn usage(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Setting(text) => UsageError(text).into(),
        error => error.into(),
    }
}

/// Runs a plan on a thread of its own; `None` if it was interrupted.
fn measured(
    common: &Common,
    plan: impl FnOnce(&Stop, &mut dyn FnMut(Event<'_>)) -> Result<Report, LoadError> + Send + 'static,
) -> anyhow::Result<Option<Report>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the event loop")?;
    let ended = runtime.block_on(async {
        let mut interrupts = Interrupts::new()?;
        let stop = Stop::default();
        let told = stop.clone();
        let quiet = common.quiet;
        let work = tokio::task::spawn_blocking(move || {
            let line = line(quiet);
            let result = plan(&told, &mut |event| show(&line, &event));
            line.finish_and_clear();
            result
        });
        let watched = interrupts.watch(work, || stop.set());
        anyhow::Ok(match quiet {
            true => watched.await,
            false => silence::told(&common.liveness(), watched).await,
        })
    })?;
    runtime.shutdown_background();
    match ended {
        Ended::GivenUp => {
            message::warn(
                "ended while calls were on their way: files of the run may be left, which the next one removes",
            );
            Ok(None)
        }
        Ended::Done { value, .. } => match value.context("the run panicked")? {
            Err(LoadError::Interrupted) => Ok(None),
            result => Ok(Some(result.map_err(usage)?)),
        },
    }
}

/// The line on a terminal that says how far the run is.
fn line(quiet: bool) -> ProgressBar {
    let target = match quiet {
        true => ProgressDrawTarget::hidden(),
        // Nothing is drawn where that is no terminal.
        false => ProgressDrawTarget::stderr_with_hz(10),
    };
    let style = ProgressStyle::with_template("[{bar:24}] {percent:>3}%  {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let line = ProgressBar::with_draw_target(None, target).with_style(style.progress_chars("=> "));
    message::give_way(line.clone());
    line
}

fn show(line: &ProgressBar, event: &Event<'_>) {
    match event {
        Event::Preparing(what) => line.set_message(format!("preparing {what}")),
        Event::Measuring {
            step,
            target,
            done,
            all,
        } => {
            line.set_length(u64::try_from(*all).unwrap_or(u64::MAX));
            line.set_position(u64::try_from(*done).unwrap_or(u64::MAX));
            line.set_message(format!("{target}: {step}"));
        }
        Event::Failed {
            step,
            target,
            error,
        } => message::error(format_args!("{target}: {step}: {error}")),
    }
}

fn write(directory: &Path, report: &Report) -> anyhow::Result<()> {
    let page = Page::of(report);
    let json = serde_json::to_string_pretty(report)?;
    let files = [
        ("report.html", html::html(&page)),
        ("report.json", json),
        ("report.md", page.markdown()),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
