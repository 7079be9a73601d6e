//! What programs of the server's own host notice of the files that it has open: a program that was copied to
//! it can be run as soon as the copy is done, and a file that is removed gives its space back.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{FsKind, LoopFs, Mounted, Server, ServerOptions, counter, output};

use crate::host::Context;

/// Number of copies that are made of each program.
const COPIES: usize = 10;
/// A short program, of one WRITE, and one of several. Both are small, as the space of a copy that was removed may come
/// back after the next copies were made.
const PROGRAMS: [&str; 2] = ["/bin/true", "/bin/bash"];
const MIB: u64 = 1 << 20;
/// How long the space of a removed file is waited for. Whether it came back because the server looked, its
/// counter says.
const SPACE_DEADLINE: Duration = Duration::from_secs(60);

pub(super) fn run(context: &Context) -> Result<String> {
    let mut ran = 0;
    let disk = LoopFs::new(FsKind::Xfs, 512, &context.lab.dir.join("xfs"))?;
    ran += programs(context, disk.point(), "state-xfs")?;
    let memory = context.lab.dir.join("memory");
    let _memory = Mounted::tmpfs(512, &memory)?;
    ran += programs(context, &memory, "state-memory")?;
    Ok(format!("{ran} programs ran as soon as they were copied"))
}

/// Copies programs to the server and runs each from its disk. Then removes a file there.
fn programs(context: &Context, export: &Path, state: &str) -> Result<usize> {
    let state = context.lab.dir.join(state);
    let options = ServerOptions {
        more: &["--squash", "none"],
        ..ServerOptions::default()
    };
    let server = Server::start(&context.lab, export, &state, &options)?;
    let (ip, port) = (server.address().ip(), server.address().port());
    let url = |name: &str| format!("nfs://{ip}/{name}?nfsport={port}&mountport={port}");
    let long = context.lab.dir.join("long");
    fs::write(&long, vec![7; 64 << 20])?;
    for number in 0..COPIES {
        for program in PROGRAMS {
            let name = format!("program-{number}");
            let copy = export.join(&name);
            output(
                Command::new(&context.lab.program)
                    .args(["cp", "-p"])
                    .arg(program)
                    .arg(url(&name)),
            )?;
            output(Command::new(&copy).arg("--version"))
                .with_context(|| format!("{program} as {}", copy.display()))?;
            fs::remove_file(&copy)?;
        }
    }
    output(
        Command::new(&context.lab.program)
            .arg("cp")
            .arg(&long)
            .arg(url("long")),
    )?;
    let before = free_bytes(export)?;
    let seen = counter(&context.lab, &state, "file_cache_removed_locally")?;
    fs::remove_file(export.join("long"))?;
    let begun = Instant::now();
    while free_bytes(export)? < before + 48 * MIB {
        ensure!(
            begun.elapsed() < SPACE_DEADLINE,
            "the space of a removed file does not come back"
        );
        // SLEEP: a poll rests.
        std::thread::sleep(Duration::from_millis(50));
    }
    let looked = counter(&context.lab, &state, "file_cache_removed_locally")? - seen;
    ensure!(looked > 0, "its space came back by some other way");
    server.stop()?;
    Ok(PROGRAMS.len() * COPIES)
}

fn free_bytes(path: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(path)?;
    Ok(facts.f_bfree * facts.f_frsize)
}
