//! `penstock doctor nfs://…` on real servers: ours, NFS-Ganesha, the kernel's, and two that cannot be
//! seen to sync: ours over memory, and the kernel's with the export option `async`.
//!
//! What stable storage is judged to be rests on times, which a busy machine changes: it is in the notes and fails
//! nothing. The judgement itself is held by the doctor's own tests.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{Mounted, Server, ServerOptions};
use serde_json::Value;

use crate::host::{Context, Peer, PeerServer};

pub(super) fn penstock(context: &Context) -> Result<String> {
    let mut note = Vec::new();
    let mut server = PeerServer::start(context, Peer::Penstock, |_| Ok(()))?;
    for version in ["3", "4.1", "4.2"] {
        let report = examined(&server, version)?;
        check(&report, "NFS3ERR_BAD_COOKIE")?;
        note.push(format!("{version} on a disk: {}", stable(&report)?));
    }
    let export = server.at_rest()?;
    ensure!(
        fs::read_dir(export)?.count() == 1,
        "something was left beside lost+found"
    );
    drop(server);
    let memory = context.lab.dir.join("memory");
    let _mounted = Mounted::tmpfs(16, &memory)?;
    let state = context.lab.dir.join("state-of-memory");
    // What a WRITE is answered with: what it asked for, or FILE_SYNC always.
    for answers in ["asked", "file-sync"] {
        let options = ServerOptions {
            more: &["--stable", answers],
            ..ServerOptions::default()
        };
        let server = Server::start(&context.lab, &memory, &state, &options)?;
        let url = format!("nfs://{}/", server.address());
        let mut doctor = std::process::Command::new(&context.lab.program);
        let report = run(doctor.args(["doctor", "--json", &url]))?;
        check(&report, "NFS3ERR_BAD_COOKIE")?;
        note.push(format!("in memory, {answers}: {}", stable(&report)?));
        server.stop()?;
    }
    Ok(note.join("; "))
}

pub(super) fn ganesha(context: &Context) -> Result<String> {
    let server = PeerServer::start(context, Peer::Ganesha, |_| Ok(()))?;
    let report = examined(&server, "3")?;
    check(&report, "")?;
    stable(&report)
}

pub(super) fn nfsd(context: &Context) -> Result<String> {
    let mut note = Vec::new();
    for (peer, word) in [(Peer::KernelNfsd, "sync"), (Peer::KernelNfsdAsync, "async")] {
        let mut server = PeerServer::start(context, peer, |_| Ok(()))?;
        let report = examined(&server, "3")?;
        check(&report, "")?;
        note.push(format!("{word}: {}", stable(&report)?));
        let export = server.at_rest()?;
        ensure!(
            fs::read_dir(export)?.count() == 1,
            "something was left beside lost+found"
        );
    }
    Ok(note.join("; "))
}

fn examined(server: &PeerServer<'_>, version: &str) -> Result<Value> {
    let url = format!("{}?version={version}", server.url(""));
    run(server.penstock().args(["doctor", "--json", &url]))
}

/// The report of an examination that found no problem.
fn run(command: &mut std::process::Command) -> Result<Value> {
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {told} {error}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| told.into_owned())
}

/// What is so on every server here. `wrong_verifier` is what one that is known to say it answers to a wrong cookie
/// verifier; empty where it is the server's affair.
fn check(report: &Value, wrong_verifier: &str) -> Result<()> {
    let trials = &report["trials"];
    let at = |pointer: &str| trials.pointer(pointer).unwrap_or(&Value::Null);
    let expected: [(&str, Value); 9] = [
        ("/verifier/changes", 0.into()),
        ("/verifier/same_over_another_connection", true.into()),
        ("/handles/another_connection", "ok".into()),
        ("/handles/renamed", "ok".into()),
        ("/handles/moved", "ok".into()),
        ("/handles/directory_renamed", "ok".into()),
        ("/listing/lost", 0.into()),
        ("/listing/twice", 0.into()),
        ("/exclusive/again", true.into()),
    ];
    for (pointer, value) in expected {
        ensure!(
            *at(pointer) == value,
            "{pointer} is {}: {report:#}",
            at(pointer)
        );
    }
    ensure!(*at("/exclusive/other") == "NFS3ERR_EXIST", "{report:#}");
    let told = at("/listing/wrong_verifier");
    ensure!(
        wrong_verifier.is_empty() || *told == wrong_verifier,
        "{told}: {report:#}"
    );
    ensure!(report["own_directory"]["removed"] == true, "{report:#}");
    Ok(())
}

/// What the stable WRITE was judged to be, with the evidence.
fn stable(report: &Value) -> Result<String> {
    let findings = report["findings"].as_array().context("findings")?;
    let found = findings
        .iter()
        .find(|one| one["subject"] == "stable storage");
    let found = found.with_context(|| format!("nothing on stable storage: {report:#}"))?;
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Ok(format!("{} ({})", word("level"), word("fact")))
}
