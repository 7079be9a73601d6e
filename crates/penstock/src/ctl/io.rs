//! `penstock ctl io`: how bytes travel, changed live and explained.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::Context as _;
use nfs_server::exports::config::{from_word, word_of};
use nfs_server::exports::policy::{
    Io, IoChange, StableFloor, WriteMode, parse_mode, parse_read_ahead, parse_rule, show_size,
};
use nfs_server::operate::control::{
    Command, ExportStatus, IoChanged, IoOrder, IoQuery, IoState, IoView, Status, Why, WhyQuery,
    WhySegment,
};

use nfs_server::limits::READ_AHEAD_BYTES_DEFAULT;

use super::{ask, figures};
use crate::exit::UsageError;

/// Show or change how bytes travel between the wire and the disk, or say why
///
/// Without an option the policy of EXPORT, or of every export, is shown: the modes of READ and WRITE, the
/// floor under the stability of WRITEs, and the rules in the order they are tried.
///
/// With --read, --write, --auto, --hint, --stable, --read-ahead, --staging, --reserve, --order, --splice, --rule or --no-rules the
/// policy of EXPORT is changed, all of it in one step; what is not named stays. Calls under way finish as they began. The change
/// lasts until the next reload or restart, which go back to the configuration.
///
/// With --why the server says what would happen to a READ or WRITE of a file, and why.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Export: the path that clients mount, or its directory. May be left out where there is only one
    #[arg(conflicts_with = "why")]
    export: Option<String>,

    /// Mode of READs that no rule matches: buffered, dontcache or direct (or the kernel's 0, 1, 2), or auto: what
    /// suits the file's calls
    #[arg(long, value_name = "MODE", conflicts_with = "why", value_parser = checked(parse_mode))]
    read: Option<String>,
    /// Mode of WRITEs that no rule matches; the same, and the kernel's 3 and 4: direct with --stable
    /// data-sync and file-sync
    #[arg(long, value_name = "MODE", conflicts_with = "why", value_parser = checked(WriteMode::from_str))]
    write: Option<String>,
    /// Whether the modes that auto chooses are taken: on, or dry-run, where they are only told and counted
    #[arg(long, value_name = "HOW", conflicts_with = "why", value_parser = ["on", "dry-run"])]
    auto: Option<String>,
    /// What auto is to know of the calls beforehand, by the names of posix_fadvise(2)
    #[arg(long, value_name = "HINT", conflicts_with = "why", value_parser = ["normal", "sequential", "random", "noreuse", "willneed"])]
    hint: Option<String>,
    /// How stable every WRITE is at least: asked (as the client asks), data-sync or file-sync. With --why:
    /// what the client asks for, unstable, data-sync or file-sync
    #[arg(long, value_name = "STABLE", value_parser = ["asked", "unstable", "data-sync", "file-sync"])]
    stable: Option<String>,
    /// How much is read ahead of clients that read a file from one end to the other, where READs are direct,
    /// for example 8MiB; 0 for nothing
    #[arg(long, value_name = "SIZE", conflicts_with = "why", value_parser = checked(parse_read_ahead))]
    read_ahead: Option<String>,
    /// Whether the ends of UNSTABLE direct WRITEs that fill no whole block are held in memory until a neighbour
    /// completes the block: on or off
    #[arg(long, value_name = "HOW", conflicts_with = "why", value_parser = ["on", "off"])]
    staging: Option<String>,
    /// Whether space is taken ahead of streams of WRITEs that extend files: on or off
    #[arg(long, value_name = "HOW", conflicts_with = "why", value_parser = ["on", "off"])]
    reserve: Option<String>,
    /// Whether WRITEs that come out of order wait a moment for those before them: on or off
    #[arg(long, value_name = "HOW", conflicts_with = "why", value_parser = ["on", "off"])]
    order: Option<String>,
    /// Whether large buffered READs are sent from the page cache without a copy: on or off
    #[arg(long, value_name = "HOW", conflicts_with = "why", value_parser = ["on", "off"])]
    splice: Option<String>,
    /// A rule, as "op=read,min=64KiB,max=4MiB,client=10.0.0.0/8,name=*.ckpt,mode=direct"; only mode must be
    /// there. Repeat it for more, in the order tried. They take the place of all rules there were
    #[arg(long, value_name = "RULE", conflicts_with_all = ["why", "no_rules"], value_parser = checked(parse_rule))]
    rule: Vec<String>,
    /// Remove all rules
    #[arg(long, conflicts_with = "why")]
    no_rules: bool,

    /// Show how the bytes of READ and WRITE were moved since the server started: calls and bytes by the
    /// mode that was chosen, what they really went as, and why some went another way
    #[arg(long, conflicts_with_all = ["why", "read", "write", "auto", "hint", "stable", "staging", "read_ahead", "reserve", "order", "splice", "rule", "no_rules"])]
    counters: bool,

    /// Say what would happen to a READ or WRITE of this file: its path on the server's host, or as clients
    /// see it
    #[arg(long, value_name = "FILE")]
    why: Option<PathBuf>,
    /// With --why: read or write
    #[arg(long, default_value = "read", requires = "why", value_parser = ["read", "write"])]
    op: String,
    /// With --why: where in the file, for example 47008 or 1MiB
    #[arg(long, value_name = "SIZE", default_value = "0", requires = "why", value_parser = nfs_io::size::parse)]
    offset: u64,
    /// With --why: bytes asked for. Default: the size recommended to clients
    #[arg(long, value_name = "SIZE", requires = "why", value_parser = nfs_io::size::parse)]
    size: Option<u64>,
    /// With --why: the client's address. Default: this machine
    #[arg(long, value_name = "ADDR", requires = "why")]
    client: Option<IpAddr>,
    /// With --why: what the file is open for to the client. Default: none, as over NFSv3
    #[arg(long, value_name = "ACCESS", requires = "why", value_parser = ["none", "read", "write", "both"])]
    open: Option<String>,
    /// With --why: what that open denies to others
    #[arg(long, value_name = "ACCESS", requires = "open", value_parser = ["none", "read", "write", "both"])]
    deny: Option<String>,
}

/// A parser that keeps the text, once `parse` has found it good: the server reads it again.
fn checked<T>(
    parse: impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map(|_| text.to_owned())
}

impl Args {
    pub(super) const fn wants_counters(&self) -> bool {
        self.counters
    }

    /// Shows the server's figures of how bytes were moved.
    pub(super) fn count(&self, directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
        let status: Status = ask(directory, Command::Status)?;
        let mut rows = status.io;
        if let Some(wanted) = &self.export {
            let exports: Vec<ExportStatus> = ask(directory, Command::Exports)?;
            let found = exports
                .iter()
                .find(|export| export.pseudo == *wanted || export.path == Path::new(wanted));
            let Some(export) = found else {
                let served: Vec<&str> = exports.iter().map(|one| one.pseudo.as_str()).collect();
                let served = served.join(" ");
                let message = format!("no export is {wanted:?}; served are: {served}");
                return Err(anyhow::Error::msg(message));
            };
            rows.retain(|row| row.export == export.pseudo);
        }
        let mut out = std::io::stdout().lock();
        if json {
            serde_json::to_writer(&mut out, &rows)?;
            writeln!(out)?;
        } else {
            figures::print(&mut out, &rows)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What to ask the server.
    ///
    /// # Errors
    /// [`UsageError`]: options that do not go together.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let usage = |message: &str| UsageError(message.to_owned());
        if let Some(file) = &self.why {
            return Ok(Command::IoWhy(self.why_query(file)?));
        }
        if self.stable.as_deref() == Some("unstable") {
            let message = "--stable unstable is what a client asks for, with --why; the floor is \
                           asked, data-sync or file-sync";
            return Err(usage(message).into());
        }
        let rules = (self.no_rules || !self.rule.is_empty()).then(|| self.rule.clone());
        let order = IoOrder {
            export: self.export.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            stable: self.stable.clone(),
            read_ahead: self.read_ahead.clone(),
            staging: self.staging.clone(),
            reserve: self.reserve.clone(),
            order: self.order.clone(),
            splice: self.splice.clone(),
            auto: self.auto.clone(),
            hint: self.hint.clone(),
            rules,
        };
        if order.change().map_err(UsageError)? == IoChange::default() {
            return Ok(Command::Io(IoQuery {
                export: self.export.clone(),
            }));
        }
        Ok(Command::IoSet(order))
    }

    fn why_query(&self, file: &Path) -> anyhow::Result<WhyQuery> {
        let stable = self.stable.as_deref().unwrap_or("unstable");
        if stable == "asked" {
            let message = "--stable asked is a floor; with --why say what the client asks for: \
                           unstable, data-sync or file-sync";
            return Err(UsageError(message.to_owned()).into());
        }
        let shown = file.display();
        let absolute =
            std::path::absolute(file).with_context(|| format!("cannot tell where {shown} is"))?;
        let file = absolute.into_os_string().into_string().map_err(|_| {
            UsageError(format!(
                "{shown} is not UTF-8, which the control socket needs"
            ))
        })?;
        Ok(WhyQuery {
            file,
            op: self.op.clone(),
            offset: self.offset,
            size: self.size,
            client: self.client,
            stable: stable.to_owned(),
            open: self.open.clone(),
            deny: self.deny.clone(),
        })
    }
}

/// Prints the I/O policy of each export.
pub(super) fn print_states(out: &mut impl Write, states: &[IoState]) -> std::io::Result<()> {
    for state in states {
        writeln!(out, "{} is {}", state.export, state.path.display())?;
        print_view(out, &state.now)?;
        if let Some(configured) = &state.configured {
            writeln!(
                out,
                "  changed live; a reload or restart goes back to the configuration:"
            )?;
            for line in lines(configured) {
                writeln!(out, "    {line}")?;
            }
        }
    }
    Ok(())
}

/// Prints what a change of the policies did.
pub(super) fn print_changed(out: &mut impl Write, changed: &IoChanged) -> std::io::Result<()> {
    if changed.before == changed.now {
        writeln!(out, "{}: as it was", changed.export)?;
    } else {
        writeln!(out, "{}: before", changed.export)?;
        print_view(out, &changed.before)?;
        writeln!(out, "now")?;
    }
    print_view(out, &changed.now)?;
    for warning in &changed.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    writeln!(out, "this lasts {}", changed.lasts)
}

fn print_view(out: &mut impl Write, view: &IoView) -> std::io::Result<()> {
    for line in lines(view) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// The lines that show a policy.
pub(crate) fn lines(view: &IoView) -> Vec<String> {
    let floor = match view.stable.as_str() {
        word if word == word_of(StableFloor::Asked, StableFloor::WORDS) => {
            "as stable as asked".to_owned()
        }
        word => format!("at least {word}"),
    };
    let staged = if view.staging { ", staged" } else { "" };
    let mut lines = vec![format!(
        "read {}, write {}{staged}, {floor}",
        view.read, view.write
    )];
    match view.read_ahead_bytes {
        READ_AHEAD_BYTES_DEFAULT => {}
        0 => lines.push("nothing is read ahead of direct READs".to_owned()),
        bytes => lines.push(format!(
            "{} are read ahead of direct READs",
            show_size(bytes)
        )),
    }
    let rules = view.rules.iter().enumerate();
    if view.auto == "dry-run" {
        lines.push("auto is tried and not taken".to_owned());
    }
    if !matches!(view.hint.as_str(), "" | "normal") {
        lines.push(format!("auto is told: {}", view.hint));
    }
    if view.reserve {
        lines.push("space is taken ahead of streams of WRITEs".to_owned());
    }
    if view.order {
        lines.push("WRITEs out of order wait for those before them".to_owned());
    }
    if view.splice {
        lines.push("large READs are sent from the page cache without a copy".to_owned());
    }
    lines.extend(rules.map(|(index, rule)| format!("rule {}: {rule}", index + 1)));
    lines
}

/// What is chosen from what was seen of the file, and what that rests on.
fn print_auto(out: &mut impl Write, why: &Why) -> std::io::Result<()> {
    let Some(auto) = &why.auto else {
        return Ok(());
    };
    let taken = match auto.state.as_str() {
        "on" => "",
        _ => " (dry run: not taken)",
    };
    let (mode, reason, sentence) = (&auto.mode, &auto.reason, &auto.sentence);
    writeln!(out, "auto        {mode}{taken}: {reason}, {sentence}")?;
    if let Some(mode) = &auto.instead_of {
        writeln!(out, "  {mode} would suit it, and the file does not take it")?;
    }
    let evidence = auto.evidence.iter();
    let evidence: Vec<String> = evidence
        .map(|(name, figure)| match name.ends_with("-bytes") {
            true => format!("{name} {}", show_size(*figure)),
            false => format!("{name} {figure}"),
        })
        .collect();
    for line in evidence.chunks(4) {
        writeln!(out, "  {}", line.join(", "))?;
    }
    Ok(())
}

/// What would happen to a call, and why.
pub(super) fn print_why(out: &mut impl Write, why: &Why) -> std::io::Result<()> {
    let is_read = from_word(&why.op, Io::WORDS) == Ok(Io::Read);
    let what = if is_read { "READ" } else { "WRITE" };
    let asked = &why.asked;
    let client = why.client.map(|client| format!(" by {client}"));
    writeln!(
        out,
        "{what} of {} at {}{}",
        show_size(asked.end.saturating_sub(asked.start)),
        asked.start,
        client.unwrap_or_default(),
    )?;
    let (file, size, export) = (why.file.display(), why.size, &why.export);
    writeln!(out, "file        {file}, {size} bytes, in export {export}")?;
    writeln!(out, "mode        {}: {}", why.mode, why.because)?;
    for (index, rule) in why.rules.iter().enumerate() {
        writeln!(out, "  rule {}  {}: {}", index + 1, rule.rule, rule.verdict)?;
    }
    print_auto(out, why)?;
    let name = why.name.as_deref().unwrap_or("not known");
    if why.rules.iter().any(|rule| rule.rule.contains("name=")) {
        writeln!(out, "name        {name} ({})", why.name_from)?;
    }
    if let Some(stable) = &why.stable {
        writeln!(
            out,
            "stable      {}: asked {}, floor {}",
            stable.committed, stable.asked, stable.floor
        )?;
    }
    print_switches(out, why)?;
    let alignment = &why.alignment;
    let bytes = |bytes: u32| match bytes {
        0 => "unknown".to_owned(),
        bytes => bytes.to_string(),
    };
    writeln!(
        out,
        "alignment   memory {}, offset {}, offset of reads {}, block {}",
        bytes(alignment.memory),
        bytes(alignment.offset),
        bytes(match alignment.read_offset {
            0 => alignment.offset,
            own => own,
        }),
        bytes(alignment.block)
    )?;
    print_segments(out, why)?;
    print_read_ahead(out, why)?;
    for fallback in &why.fallbacks {
        writeln!(out, "fallback    {fallback}")?;
    }
    match (why.cached_bytes, why.dirty_bytes) {
        (Some(cached), Some(dirty)) => {
            let (cached, dirty) = (show_size(cached), show_size(dirty));
            writeln!(
                out,
                "page cache  {cached} of the file, {dirty} of it not on disk yet"
            )?;
        }
        _ => writeln!(out, "page cache  unknown")?,
    }
    for note in &why.notes {
        writeln!(out, "note        {note}")?;
    }
    Ok(())
}

/// What is done for calls of the operation or not, and who says so.
fn print_switches(out: &mut impl Write, why: &Why) -> std::io::Result<()> {
    let switches = [
        ("reserve", &why.reserve),
        ("order", &why.order),
        ("splice", &why.splice),
    ];
    for (name, said) in switches {
        if let Some(said) = said {
            writeln!(out, "{name:<12}{said}")?;
        }
    }
    Ok(())
}

fn print_read_ahead(out: &mut impl Write, why: &Why) -> std::io::Result<()> {
    match why.read_ahead_bytes {
        None => Ok(()),
        Some(0) => writeln!(out, "read ahead  nothing: it is switched off"),
        Some(bytes) => {
            let bytes = show_size(bytes);
            writeln!(
                out,
                "read ahead  {bytes}, if such READs follow each other, few at a time"
            )
        }
    }
}

fn print_segments(out: &mut impl Write, why: &Why) -> std::io::Result<()> {
    if why.segments.is_empty() {
        return writeln!(out, "moved       nothing");
    }
    for (index, WhySegment { file, mode }) in why.segments.iter().enumerate() {
        let title = if index == 0 { "moved" } else { "" };
        let len = show_size(file.end.saturating_sub(file.start));
        writeln!(
            out,
            "{title:<12}{}..{}  {len}  {mode}",
            file.start, file.end
        )?;
    }
    Ok(())
}
