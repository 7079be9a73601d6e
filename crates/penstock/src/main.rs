//! The `penstock` command: parses, calls, prints. What it calls is in the libraries.

mod cat;
mod check;
mod completions;
mod cp;
mod ctl;
mod doctor;
mod exit;
mod get;
mod interrupt;
mod logging;
mod ls;
mod progress;
mod put;
mod serve;
mod show;
mod stat;
mod windows;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

/// An NFS server and client in user space
///
/// `penstock serve DIR` serves a directory; `penstock ls`, `cat`, `stat` and `cp` work with any NFS
/// server without mounting it. Exit status: 0 done, 1 failed, 2 wrong usage or configuration.
#[derive(Parser, Debug)]
#[command(name = "penstock", version, max_term_width = 100)]
enum Penstock {
    Serve(Box<serve::Args>),
    Check(check::Args),
    Ctl(ctl::Args),
    Doctor(doctor::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Cp(Box<cp::Args>),
    Get(get::Args),
    Put(put::Args),
    Stat(stat::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(completions::ManArgs),
}

fn main() -> ExitCode {
    let result = match Penstock::parse() {
        Penstock::Serve(args) => args.run(),
        Penstock::Check(args) => args.run(),
        Penstock::Ctl(args) => args.run(),
        Penstock::Doctor(args) => args.run(),
        Penstock::Ls(args) => args.run(),
        Penstock::Cat(args) => args.run(),
        Penstock::Cp(args) => args.run(),
        Penstock::Get(args) => args.run(),
        Penstock::Put(args) => args.run(),
        Penstock::Stat(args) => args.run(),
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
}
