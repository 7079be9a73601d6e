//! The `penstock` command.

mod cat;
mod ls;
mod show;
mod stat;

use std::process::ExitCode;

use clap::Parser;

/// An NFS server and client in user space
#[derive(Parser, Debug)]
#[command(version)]
enum Command {
    Ls(ls::Args),
    Cat(cat::Args),
    Stat(stat::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Ls(args) => args.run(),
        Command::Cat(args) => args.run(),
        Command::Stat(args) => args.run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("penstock: {error:#}");
        ExitCode::FAILURE
    })
}
