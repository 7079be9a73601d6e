//! The claims of the sources, each by a workload of `penstock bench`, one after the other: what `docs/results/claims` has.
//!
//! The sources' figures belong to their machines. What carries over are ratios, so that each claim has a few of them,
//! of figures that were measured in turn in one run. Nothing is judged here: the page has the ratio beside what it
//! should be.

mod list;
mod page;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use nfs_load::report::page::Page;
use nfs_load::report::{Report, html};

use crate::product::{self, Asked};
use list::{CLAIMS, Claim, PICTURES};

/// What a run of the claims is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where reports, pictures and the page go.
    pub out: PathBuf,
    /// Where the files of the measurements are made.
    pub directory: PathBuf,
    /// Only workloads whose name is one of these; all if there are none. The page is made of all reports that are there.
    pub only: Vec<String>,
}

/// Measures, and writes a report for each workload, the pictures and the page.
///
/// # Errors
/// There is no such workload, something cannot be written, or a workload could not be measured.
pub fn run(options: &Options) -> Result<()> {
    let known = |name: &&String| !CLAIMS.iter().any(|claim| claim.workload == **name);
    if let Some(name) = options.only.iter().find(known) {
        bail!("no claim has a workload called {name}");
    }
    let has_peer = product::has_peer();
    let mut failed = Vec::new();
    for claim in CLAIMS {
        let is_asked = options.only.is_empty() || options.only.iter().any(|n| n == claim.workload);
        if is_asked && !measure(claim, options, has_peer)? {
            failed.push(claim.workload);
        }
    }
    let found = found(&options.out)?;
    pictures(&options.out, &found)?;
    let path = options.out.join("README.md");
    std::fs::write(&path, page::markdown(&found)).with_context(|| path.display().to_string())?;
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("not measured: {}", failed.join(", ")),
    }
}

/// The reports that are there, by claim.
fn found(out: &Path) -> Result<Vec<(&'static Claim, Report)>> {
    let mut found = Vec::new();
    for claim in CLAIMS {
        let path = out.join(claim.workload).join("report.json");
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let report = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        found.push((claim, report));
    }
    Ok(found)
}

/// Whether the workload was measured, or a part of it.
fn measure(claim: &Claim, options: &Options, has_peer: bool) -> Result<bool> {
    eprintln!("{}: {}", claim.number, claim.workload);
    let out = options.out.join(claim.workload);
    let asked = Asked {
        workload: claim.workload,
        options: claim.options,
        has_peer: has_peer && claim.has_peer,
        directory: &options.directory,
        out: &out,
    };
    Ok(asked.measure()?.is_some())
}

/// The pictures that the README shows, each for a light and for a dark page.
fn pictures(out: &Path, found: &[(&Claim, Report)]) -> Result<()> {
    for picture in PICTURES {
        let of = found
            .iter()
            .find(|(claim, _)| claim.workload == picture.workload);
        let Some((_, report)) = of else { continue };
        let page = Page::of(report);
        let section = page.sections.get(picture.section);
        let Some(chart) = section.and_then(|section| section.charts.get(picture.chart)) else {
            bail!("{} has no picture {}", picture.workload, picture.name);
        };
        for (scheme, is_dark) in [("light", false), ("dark", true)] {
            let path = out.join(format!("{}-{scheme}.svg", picture.name));
            let text = html::picture(chart, is_dark);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}
