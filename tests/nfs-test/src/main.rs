//! Tests of Penstock with real processes: the server binary, the Linux kernel's NFS client (in a
//! User Mode Linux guest), foreign tools, real file systems and power cuts.
//!
//! `nfs-test run --server target/debug/penstock` runs the scenarios of [`scenarios::TABLE`],
//! each as a process of its own; `nfs-test guest` is what the same binary does inside the guest, on the mounted file
//! system. A scenario owns everything it uses (temporary directory, ports, network namespace, loop
//! devices) and gives it back also when it fails; see [`host`].

mod duel;
mod guest;
mod host;
mod manifest;
mod map;

mod run;
mod scenarios;
mod wire_table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tests of Penstock against real kernels, file systems and tools.
#[derive(Parser)]
#[command(name = "nfs-test", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run scenarios, one after the other or side by side.
    Run(run::RunArgs),
    /// List the scenarios, with what each one needs.
    List,
    /// Run the table of procedures and errors against a server that runs already.
    Wire(wire_table::WireArgs),
    /// What runs inside the guest, on the mounted file system (used by the kernel scenarios).
    Guest(guest::GuestArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::List => {
            run::list();
            Ok(ExitCode::SUCCESS)
        }
        Command::Wire(args) => wire_table::main(&args),
        Command::Guest(args) => guest::main(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("nfs-test: {error:#}");
        ExitCode::FAILURE
    })
}
