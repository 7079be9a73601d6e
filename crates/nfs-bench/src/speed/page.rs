//! The page of all bars, in Markdown.

use std::fmt::Write as _;

use nfs_load::cores::Apart;
use nfs_load::report::number;

use super::list::On;
use super::values::Value;
use super::{Measured, copies, data, mounts};

/// Share of the machine (0 to 1) that others may use before the page warns of its figures.
const BUSY_SHARE_TOLD: f64 = 0.1;

/// The page: every bar with what came of it, and the commands.
pub(super) fn markdown(measured: &Measured, file_system: &str) -> String {
    let count = |is: Option<bool>| measured.lines.iter().filter(|one| one.is_met == is).count();
    let mut out = format!(
        "# The speed that the project asks of itself\n\n\
         `cargo xtask bench speed` wrote this page and [its figures](speed.json): {} of {} bars are met, {} are missed \
         ({} of those by who has less to do as well), {} could not be held against anything here. Every figure is the median of measurements that were taken in turn. \
         The limit is what the same load comes to against a responder that touches no file, against a plain program, \
         straight on the file system, in the better case of our own, or with the program that is named, as the line says. \
         The plain program is a server of one thread that does what a call asks by one system call, and sends the \
         replies to calls that came together together: it asks nobody for permission and tells no attributes. Figures of another machine say nothing about this one.\n\n",
        count(Some(true)),
        measured.lines.len(),
        count(Some(false)),
        measured
            .lines
            .iter()
            .filter(|one| one.is_missed_by_others())
            .count(),
        count(None),
    );
    let busy = measured.in_order().next();
    let busy = busy.and_then(|(_, report)| report.environment.busy_before);
    if let Some(share) = busy.filter(|share| *share > BUSY_SHARE_TOLD) {
        let _ = writeln!(
            out,
            "**The machine was {:.0} % busy with something else when the first run began: neither these figures nor which \
             bars they meet are worth much. Take them again at rest.**\n",
            share * 100.0
        );
    }
    out.push_str(
        "| | ours | Ganesha | limit | ours / Ganesha | ours / limit | bar | met | run |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for value in &measured.lines {
        let _ = writeln!(out, "{}", line(value));
    }
    out.push_str(
        "\nWhere less is better, so is a ratio below 1. \"Nor by\" is said of a bar that somebody with less to do misses at \
         the same load as well: a responder that touches no file, so that what sends the load, the loopback and the \
         machine come to less than it asks; a plain program; a program that does the same straight to the file system and has no network; or, \
         one call after the other, the two together, since a server has both to do. \"The load was the limit\" is said of \
         rounds in which the core of what sends the load had no time left and the server's had. Where the limit is the responder's and a line of \
         `penstock bench` is near it, the generator may be what was measured: `penstock bench ceiling` tells what it can \
         do. The runs `calls` and `data` have load and server each on a core of its own, and fio has the \
         server's; in the others they share all cores. The files of `data` repeat a stamp in each block, those of the others are \
         noise. GETATTR, ACCESS, LOOKUP and READ ask about one file, or one name, again and again. Our server looks once at the file, or directory, for all \
         such calls that one read of a connection brought, so that a call about a file that no other asks about costs one `statx` more than these lines tell.\n\n",
    );
    runs(measured, &mut out);
    place(measured, file_system, &mut out);
    out
}

fn line(value: &Value) -> String {
    let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), number);
    let ratio = |other: Option<f64>| shown(value.ours.zip(other).map(|(ours, other)| ours / other));
    let limit = match (value.limit, value.limit_is) {
        (Some(limit), "ours") => number(limit),
        (limit, "") => shown(limit),
        (limit, is) => format!("{} ({is})", shown(limit)),
    };
    let what = value.target.trim_start_matches("penstock").trim_start();
    let what = match what {
        "" => value.label.to_owned(),
        mode => format!("{}: {mode}", value.label),
    };
    let cells = [
        what,
        shown(value.ours),
        shown(value.peer),
        limit,
        ratio(value.peer),
        ratio(value.limit),
        value.bar.clone(),
        met(value),
        format!("[{0}](#runs)", value.run),
    ];
    format!("| {} |", cells.join(" | "))
}

/// Whether the bar is met, and where not, what is known of the reason.
fn met(value: &Value) -> String {
    match value.is_met {
        Some(true) => return "yes".to_owned(),
        Some(false) => {}
        None => return "unknown".to_owned(),
    }
    let mut text = "**no**".to_owned();
    for name in &value.missed_by {
        let _ = write!(text, ", nor by {name}");
    }
    if let Some((of_load @ 1.., rounds)) = value.rounds_of_load {
        let _ = write!(
            text,
            "; the load was the limit in {of_load} of {rounds} rounds"
        );
    }
    text
}

fn runs(measured: &Measured, out: &mut String) {
    out.push_str(
        "## Runs\n\nEach takes `--directory` on XFS in memory as well, on the disk, or on XFS on the disk (a loop device with direct I/O), and `--report`.\n\n\
         | run | command |\n|---|---|\n",
    );
    if measured.calls.is_some() {
        out.push_str("| calls | `cargo xtask bench baseline --quick --server penstock-uring --server penstock-polling --server ganesha --server responder --server responder-polling --server plain` |\n");
    }
    for work in data::WORKS.iter().filter(|_| measured.data.is_some()) {
        let words = data::words(*work, measured.rounds).join(" ");
        let _ = writeln!(out, "| {} | `cargo xtask bench {words}` |", data::NAME);
    }
    if measured.copies.is_some() {
        let (name, words) = (copies::NAME, copies::words(measured.rounds).join(" "));
        let _ = writeln!(out, "| {name} | `cargo xtask bench {words}` |");
    }
    if measured.mounts.is_some() {
        let name = mounts::NAME;
        let _ = writeln!(
            out,
            "| {name} | `cargo xtask bench speed --only {name} --out DIR` |"
        );
    }
    for run in super::RUNS {
        if let Some(command) = measured.commands.get(run.name) {
            let _ = writeln!(out, "| {} | `{command}` |", run.name);
        }
    }
    let missing = measured.in_order().flat_map(|(run, report)| {
        let of_run = report.missing.iter();
        of_run.map(|missing| format!("{}: {missing}", run.name))
    });
    let calls = measured.calls.iter().flat_map(|calls| &calls.missing);
    // What a quick run leaves out was not asked for.
    let calls = calls.filter(|text| !text.ends_with("(--quick)"));
    let calls = calls.map(|text| format!("calls: {text}"));
    let data = measured.data.iter().flat_map(|data| &data.missing);
    let data = data.map(|text| format!("{}: {text}", data::NAME));
    let copies = measured.copies.iter().flat_map(|copies| &copies.missing);
    let copies = copies.map(|text| format!("{}: {text}", copies::NAME));
    let mounts = measured.mounts.iter().flat_map(|mounts| &mounts.missing);
    let mounts = mounts.map(|text| format!("{}: {text}", mounts::NAME));
    for missing in data.chain(copies).chain(mounts).chain(calls).chain(missing) {
        let _ = writeln!(out, "\nNot measured: {missing}");
    }
}

fn place(measured: &Measured, file_system: &str, out: &mut String) {
    let Some((_, report)) = measured.in_order().next() else {
        return;
    };
    let machine = &report.environment;
    let busy = machine.busy_before.map_or("unknown".to_owned(), |share| {
        format!("{:.0} % of the cores", share * 100.0)
    });
    let disk = measured.in_order().find(|(run, _)| run.on == On::Disk);
    let disk = disk.and_then(|(_, report)| report.environment.file_system.as_ref());
    let _ = write!(
        out,
        "\n## Where\n\nBegun {}, {:.0} s in all, commit {}, {}, {} cores, {}, TCP with {}, {}, {file_system}; the disk: {}. \
         In use before the first run: {busy}. Between two cores: {}.\n",
        report.began,
        measured.seconds,
        report.commit.as_deref().unwrap_or("unknown"),
        machine.processor,
        machine.cores,
        machine.kernel,
        machine.congestion_control.as_deref().unwrap_or("unknown"),
        match machine.peers.is_empty() {
            true => "no peer".to_owned(),
            false => machine.peers.join(", "),
        },
        disk.map_or("unknown", |place| place.kind.as_str()),
        apart(measured).map_or("unknown".to_owned(), |apart| apart.words()),
    );
}

/// How far apart the cores were in all runs that tell.
fn apart(measured: &Measured) -> Option<Apart> {
    let calls = measured.calls.iter();
    let calls = calls.filter_map(|calls| calls.header.machine.cores_apart.clone());
    let data = measured.data.iter();
    let data = data.filter_map(|data| data.header.cores_apart.clone());
    let others = measured.in_order();
    let others = others.filter_map(|(_, report)| report.environment.cores_apart.clone());
    calls
        .chain(data)
        .chain(others)
        .reduce(|all, one| all.and(&one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_that_is_missed_says_who_else_misses_it_and_whose_rounds_they_were() {
        let of = |is_met, missed_by: &[&'static str], rounds_of_load| {
            met(&Value {
                label: "",
                target: "",
                run: "",
                ours: None,
                peer: None,
                limit: None,
                limit_is: "",
                bar: String::new(),
                is_met,
                missed_by: missed_by.to_vec(),
                rounds_of_load,
                is_less_better: false,
            })
        };
        let two = ["the responder", "local fio direct"];
        assert_eq!(of(Some(true), &two, Some((3, 3))), "yes");
        assert_eq!(of(None, &two, None), "unknown");
        assert_eq!(of(Some(false), &[], Some((0, 3))), "**no**");
        assert_eq!(
            of(Some(false), &two, Some((1, 3))),
            "**no**, nor by the responder, nor by local fio direct; the load was the limit in 1 of 3 rounds"
        );
    }
}
