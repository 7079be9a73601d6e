//! The page of all claims, in Markdown.

use std::fmt::Write as _;

use nfs_load::report::{Report, Row, number};

use super::list::{Claim, Figure, Ratio};

/// The page: what the sources say, what came out, and where the reports are.
pub(super) fn markdown(found: &[(&Claim, Report)]) -> String {
    let mut out = String::from(
        "# What the sources claim, measured\n\n\
         `cargo xtask bench claims` wrote this page, and the reports that it links to. Figures of another machine say \
         nothing about this one; ratios of figures that were measured in turn in one run do. What a ratio should be is \
         the project's own bar.\n\n",
    );
    for (claim, report) in found {
        put_claim(&mut out, claim, report);
    }
    out.push_str("## Where\n\n| workload | begun | commit | machine | in use before |\n|---|---|---|---|---|\n");
    for (claim, report) in found {
        let machine = &report.environment;
        let busy = machine.busy_before.map_or("unknown".to_owned(), |share| {
            format!("{:.0} % of the cores", share * 100.0)
        });
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {}, {} cores, {}, {} | {busy} |",
            claim.workload,
            report.began,
            report.commit.as_deref().unwrap_or("unknown"),
            machine.processor,
            machine.cores,
            machine.kernel,
            machine
                .file_system
                .as_ref()
                .map_or("unknown", |place| place.kind.as_str()),
        );
    }
    out
}

fn put_claim(out: &mut String, claim: &Claim, report: &Report) {
    let (workload, number_of) = (claim.workload, claim.number);
    let _ = write!(
        out,
        "## {number_of}: {workload}\n\n{}\n\n**{}** [Report]({workload}/report.html), \
         [figures]({workload}/report.json).\n\n| ratio | is | should be |\n|---|---|---|\n",
        claim.source, report.answer
    );
    for ratio in claim.ratios {
        let shown = value(report, ratio).map_or("-".to_owned(), number);
        let _ = writeln!(out, "| {} | {shown} | {} |", ratio.label, ratio.wanted);
    }
    for missing in &report.missing {
        let _ = writeln!(out, "\nNot measured: {missing}");
    }
    let _ = write!(out, "\n```sh\n{}\n```\n\n", report.command);
}

fn value(report: &Report, ratio: &Ratio) -> Option<f64> {
    let of = |(step, target): (&str, &str)| {
        let row = report.row(step, target)?;
        figure(row, ratio.figure)
    };
    Some(of(ratio.over)? / of(ratio.under)?)
}

fn figure(row: &Row, figure: Figure) -> Option<f64> {
    match figure {
        Figure::Throughput => Some(row.figures.throughput.median),
        Figure::Processor => row.figures.cpu.map(|cpu| cpu.median),
    }
}
