//! The `penstock` command: parses, calls, prints. What it calls is in the libraries.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "most of the documentation here is help texts, which clap prints as they are: [:PORT]"
)]

mod attributes;
mod audit;
mod bench;
mod cat;
mod check;
mod chmod;
mod chown;
mod complete;
mod completions;
mod cp;
mod ctl;
mod df;
mod doctor;
mod du;
mod exit;
mod find;
mod get;
mod interrupt;
mod limits;
mod ln;
mod logging;
mod ls;
mod message;
mod mkdir;
mod mount;
mod mv;
mod out;
mod patterns;
mod ping;
mod progress;
mod put;
mod results;
mod rm;
mod rmdir;
mod running;
mod serve;
mod session;
mod show;
mod showmount;
mod silence;
mod stat;
mod statistics;
mod stats;
mod status;
mod sync;
mod top;
mod touch;
mod trace;
mod truncate;
mod values;
mod windows;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

/// An NFS server and client in user space
///
///   What serves:   serve, check, status, top, ctl, trace, audit, doctor
///   What looks:    ls, stat, cat, find, du, df, showmount, ping
///   What copies:   cp, sync, put, get
///   What changes:  mkdir, rmdir, rm, mv, ln, chmod, chown, touch, truncate
///   What mounts:   mount, stats
///   What measures: bench
///
/// `penstock serve DIR` serves a directory; the others talk to any NFS server,
/// without mounting it: `penstock ls -l nfs://server/export`. Exit codes: 0 done,
/// 1 something failed, 2 wrong usage or configuration, 130 interrupted.
#[derive(Parser, Debug)]
#[command(name = "penstock", version, max_term_width = 100, verbatim_doc_comment)]
enum Penstock {
    // In the order of the groups above, which --help keeps.
    Serve(Box<serve::Args>),
    Check(check::Args),
    Status(status::Args),
    Ctl(ctl::Args),
    Trace(trace::Args),
    Top(top::Args),
    Audit(audit::Args),
    Doctor(doctor::Args),
    Ls(ls::Args),
    Stat(stat::Args),
    Cat(cat::Args),
    Find(Box<find::Args>),
    Du(du::Args),
    Df(df::Args),
    Showmount(showmount::Args),
    Ping(ping::Args),
    Cp(Box<cp::Args>),
    Sync(Box<sync::Args>),
    Put(put::Args),
    Get(get::Args),
    Mkdir(mkdir::Args),
    Rmdir(rmdir::Args),
    Rm(rm::Args),
    Mv(mv::Args),
    Ln(ln::Args),
    Chmod(chmod::Args),
    Chown(chown::Args),
    Touch(touch::Args),
    Truncate(truncate::Args),
    Mount(Box<mount::Args>),
    Stats(stats::Args),
    Bench(Box<bench::Args>),
    #[command(visible_alias = "completion")]
    Completions(completions::Args),
    #[command(hide = true)]
    Complete(complete::Args),
    #[command(hide = true)]
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    if let Some(code) = mount::run_as_helper() {
        return code;
    }
    let result = match Penstock::parse() {
        Penstock::Serve(args) => args.run(),
        Penstock::Check(args) => args.run(),
        Penstock::Status(args) => args.run(),
        Penstock::Ctl(args) => args.run(),
        Penstock::Trace(args) => args.run(),
        Penstock::Top(args) => args.run(),
        Penstock::Audit(args) => args.run(),
        Penstock::Doctor(args) => args.run(),
        Penstock::Ls(args) => args.run(),
        Penstock::Cat(args) => args.run(),
        Penstock::Cp(args) => args.run(),
        Penstock::Sync(args) => args.run(),
        Penstock::Get(args) => args.run(),
        Penstock::Put(args) => args.run(),
        Penstock::Stat(args) => args.run(),
        Penstock::Find(args) => args.run(),
        Penstock::Du(args) => args.run(),
        Penstock::Df(args) => args.run(),
        Penstock::Showmount(args) => args.run(),
        Penstock::Ping(args) => args.run(),
        Penstock::Mkdir(args) => args.run(),
        Penstock::Rmdir(args) => args.run(),
        Penstock::Rm(args) => args.run(),
        Penstock::Mv(args) => args.run(),
        Penstock::Ln(args) => args.run(),
        Penstock::Chmod(args) => args.run(),
        Penstock::Chown(args) => args.run(),
        Penstock::Touch(args) => args.run(),
        Penstock::Truncate(args) => args.run(),
        Penstock::Mount(args) => args.run(),
        Penstock::Stats(args) => args.run(),
        Penstock::Bench(args) => args.run(),
        Penstock::Complete(args) => args.run(),
        Penstock::Completions(args) => args.run(Penstock::command()),
        Penstock::Man(args) => args.run(Penstock::command()),
    };
    exit::code(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Penstock::command().debug_assert();
    }

    #[test]
    fn what_is_laid_out_by_hand_fits_80_columns() {
        // Laid out by clap.
        let of_server = ["serve", "check", "status", "ctl", "trace", "top", "audit"];
        let whole = Penstock::command();
        for command in std::iter::once(&whole).chain(whole.get_subcommands()) {
            if of_server.contains(&command.get_name()) {
                continue;
            }
            let texts = [command.get_long_about(), command.get_after_long_help()];
            for line in texts.into_iter().flatten().flat_map(|text| {
                let text = text.to_string();
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            }) {
                let columns = line.chars().count();
                assert!(columns <= 80, "{}: {line}", command.get_name());
            }
        }
    }
}
