//! libnfs's utilities, a client of another make, on our server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::needs::find;
use nfs_lab::pattern;
use nfs_lab::{Server, ServerOptions, output};

use crate::host::Context;

pub(super) fn run(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    fs::create_dir_all(export.join("sub/deeper"))?;
    let options = ServerOptions::default();
    let server = Server::start(
        &context.lab,
        &export,
        &context.lab.dir.join("state"),
        &options,
    )?;
    let address = server.address();
    let url = |path: &str| {
        format!(
            "nfs://{}{path}?version=3&nfsport={port}&mountport={port}",
            address.ip(),
            port = address.port()
        )
    };
    let mut checks = 0;
    for (name, size) in [
        ("empty", 0),
        ("small", 10),
        ("odd", 1_000_003),
        ("large", 20_000_000),
    ] {
        let local = context.lab.dir.join(name);
        let content = pattern::bytes(size as u64, 0, size);
        fs::write(&local, &content)?;
        // Up, and what is on the disk.
        tool("nfs-cp", &[path(&local)?, &url(&format!("/sub/{name}"))])?;
        let on_disk = fs::read(export.join("sub").join(name))?;
        ensure!(
            on_disk == content,
            "nfs-cp up: {name} is wrong on the server's disk"
        );
        // Down again, by two tools.
        let back = context.lab.dir.join(format!("{name}-back"));
        tool("nfs-cp", &[&url(&format!("/sub/{name}")), path(&back)?])?;
        ensure!(fs::read(&back)? == content, "nfs-cp down: {name} is wrong");
        let shown = tool("nfs-cat", &[&url(&format!("/sub/{name}"))])?;
        ensure!(shown == content, "nfs-cat: {name} is wrong");
        checks += 3;
    }
    checks += listing(&export, &url)?;
    server.stop()?;
    Ok(format!("{checks} checks"))
}

fn listing(export: &Path, url: &dyn Fn(&str) -> String) -> Result<u32> {
    fs::set_permissions(export.join("sub/odd"), fs::Permissions::from_mode(0o640))?;
    let text = String::from_utf8(tool("nfs-ls", &[&url("/sub")])?)?;
    for name in ["empty", "small", "odd", "large", "deeper"] {
        let line = text.lines().find(|line| line.ends_with(name));
        line.with_context(|| format!("nfs-ls does not list {name}: {text}"))?;
    }
    let line = text
        .lines()
        .find(|line| line.ends_with("odd"))
        .unwrap_or_default();
    ensure!(
        line.contains("-rw-r-----") && line.contains("1000003"),
        "nfs-ls: {line}"
    );
    for i in 0..500 {
        fs::write(export.join(format!("sub/deeper/file-{i:03}")), "")?;
    }
    let text = String::from_utf8(tool("nfs-ls", &[&url("/sub/deeper")])?)?;
    let listed = text.lines().filter(|line| line.contains("file-")).count();
    ensure!(listed == 500, "nfs-ls lists {listed} of 500 files");
    if find("nfs-stat").is_some() {
        let text = String::from_utf8(tool("nfs-stat", &[&url("/sub/odd")])?)?;
        ensure!(text.contains("1000003"), "nfs-stat: {text}");
    }
    ensure!(
        tool("nfs-cat", &[&url("/sub/missing")]).is_err(),
        "nfs-cat of a missing file"
    );
    Ok(5)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is UTF-8")
}

fn tool(program: &str, args: &[&str]) -> Result<Vec<u8>> {
    output(Command::new(program).args(args))
}
