//! The Linux kernel's NFSv4 client on our server, in a User Mode Linux guest: what [`super::kernel`] does over
//! NFSv3, with two exports that the client finds by their paths from `/` on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{FsKind, Guest, Kernel, LoopFs, Mount, Netns, Server, ServerOptions};

use super::kernel::{compare_calls, compare_fsx, failures, source_tree, verdicts};
use crate::guest;
use crate::host::Context;
use crate::manifest;

/// How long a guest may run in all.
const GUEST_DEADLINE: Duration = Duration::from_secs(900);

pub(super) fn v41(context: &Context) -> Result<String> {
    run(context, Kernel::Installed, "4.1")
}

pub(super) fn v42(context: &Context) -> Result<String> {
    run(context, Kernel::Installed, "4.2")
}

pub(super) fn v41_newer(context: &Context) -> Result<String> {
    run(context, Kernel::Newer, "4.1")
}

pub(super) fn v42_newer(context: &Context) -> Result<String> {
    run(context, Kernel::Newer, "4.2")
}

fn run(context: &Context, kernel: Kernel, version: &str) -> Result<String> {
    let disk = context.lab.dir.join("disk");
    // On a disk in memory: ten thousands of names are put on stable storage here, one by one.
    let mut mounted = LoopFs::new(FsKind::Xfs, 2048, &disk)?;
    let (data, more) = (disk.join("data"), disk.join("more"));
    fs::create_dir(&data)?;
    fs::create_dir(&more)?;
    fs::write(more.join("hello"), "from the other export\n")?;
    let archive = context.lab.dir.join("tree.tar");
    let original = context.lab.dir.join("original");
    let tree = source_tree(&original, &archive).context("make a source tree")?;
    fs::write(
        context.lab.dir.join("tree.json"),
        serde_json::to_vec(&tree)?,
    )?;

    let netns = Netns::new()?;
    let state = context.lab.dir.join("state");
    let options = ServerOptions {
        listen: format!("{}:2049", Netns::HOST),
        netns: Some(&netns),
        config: Some(config(context, &data, &more)?),
        ..ServerOptions::default()
    };
    let server = Server::start(&context.lab, &data, &state, &options)?;
    // They came with minor version 2, and so did the umask, which default ACLs need.
    let has_xattrs = version == "4.2";
    let xattrs = match has_xattrs {
        true => {
            "mkdir /mnt/nfs/xattrs /mnt/nfs/acls\n\
             $T guest --results $R xattrs /mnt/nfs/xattrs\n\
             $T guest --results $R acls /mnt/nfs/acls\n"
        }
        false => "",
    };
    let operations = if context.quick { 2_000 } else { 20_000 };
    let guest = Guest {
        kernel,
        netns: &netns,
        port: server.address().port(),
        mounts: &[
            Mount::new("nfs", "/a/data", "hard").over(version),
            Mount::new("top", "/", "hard").over(version),
        ],
        script: &format!(
            "[ \"$(cat /mnt/top/a/more/hello)\" = 'from the other export' ] &&\n\
               echo 'ok path' >>$R || echo 'FAIL path: an export is not found by its path' >>$R\n\
             [ \"$(echo $(ls /mnt/top/a))\" = 'data more' ] &&\n\
               echo 'ok listing' >>$R || echo \"FAIL listing: $(ls /mnt/top/a)\" >>$R\n\
             mkdir /mnt/nfs/calls /mnt/nfs/tree\n\
             $T guest --results $R calls /mnt/nfs/calls\n\
             $T guest --results $R tree /mnt/nfs/tree $W/tree.tar $W/tree.json\n\
             {xattrs}\
             $T guest --results $R fsx /mnt/nfs --seed {seed} --operations {operations}\n",
            seed = context.seed,
        ),
        within: GUEST_DEADLINE,
    };
    let outcome = guest.run(&context.lab, |_| Ok(()))?;
    server.stop()?;

    let mut wrong = failures(&outcome);
    wrong.extend(compare_calls(&outcome, "calls", &data.join("calls"))?);
    wrong.extend(compare_fsx(&outcome, "fsx", &data.join("fsx"))?);
    if has_xattrs && let Err(error) = guest::xattrs::on_disk(&data.join("xattrs")) {
        wrong.push(format!("xattrs: {error:#}"));
    }
    if has_xattrs && let Err(error) = guest::acls::on_disk(&data.join("acls")) {
        wrong.push(format!("acls: {error:#}"));
    }
    let on_disk = manifest::of_tree(&data.join("tree/tree"))?;
    for line in manifest::differences(&tree, &on_disk).into_iter().take(5) {
        wrong.push(format!("tree on the server's disk: {line}"));
    }
    let passed = verdicts(&outcome);
    let expected = 2 + guest::CALLS.len() + 4 + 1 + 2 * usize::from(has_xattrs);
    mounted.unmount()?;
    ensure!(
        wrong.is_empty(),
        "{} wrong: {}",
        wrong.len(),
        wrong.join(" | ")
    );
    ensure!(
        passed == expected,
        "{passed} verdicts, should be {expected}"
    );
    Ok(format!(
        "{passed} tests, {} entries in the tree, fsx {operations} operations",
        tree.len()
    ))
}

/// Two exports below a directory that is none.
fn config(context: &Context, data: &Path, more: &Path) -> Result<std::path::PathBuf> {
    let file = context.lab.dir.join("penstock.toml");
    let export = |path: &Path, pseudo: &str| {
        format!(
            "[[export]]\npath = \"{}\"\npseudo = \"{pseudo}\"\nclients = [\"{}\"]\nsquash = \"none\"\n",
            path.display(),
            Netns::NETWORK
        )
    };
    let text = format!(
        "[server]\nversions = [\"3\", \"4.1\", \"4.2\"]\n{}{}",
        export(data, "/a/data"),
        export(more, "/a/more")
    );
    fs::write(&file, text)?;
    Ok(file)
}
