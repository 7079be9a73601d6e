//! The state directory of a server with NFSv4 clients is full, becomes read-only, or loses the file of their records: nothing
//! is granted that would not outlive a restart, who holds something goes on, and the log tells once.

use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nfs_lab::{FsKind, LoopFs, Mounted, Server, ServerOptions, output};
use nfs_wire::nfs4::ops::{
    CloseArgs, Createhow4, LockArgs, Locker4, LookupArgs, OpenArgs, OpenClaim4, OpenToLockOwner4,
    Openflag4, ReclaimCompleteArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attributes, Clientid4, Component4, Fattr4, LockType4, Nfsstat4, Opaque4, ResOp,
    StateOwner4, Stateid4,
};
use nfs_wire::{Encode as _, Encoder, decode_all};

use super::io::fill_up;
use crate::host::Context;
use crate::host::raw_client4::RawClient4;
use crate::host::wire::block_on;

/// Clients that come while nothing can be written: more than find room in what the file has.
const NEWCOMERS_MAX: usize = 2000;
/// OPENs of the one that is refused: far more than lines of the log may come of them.
const OPENS: usize = 200;
/// How long the server may take to find that it can write again.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(30);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn run(context: &Context) -> Result<String> {
    let in_memory = full(context, Disk::Memory)?;
    let on_disk = full(context, Disk::Ext4)?;
    read_only(context)?;
    Ok(format!(
        "{in_memory} newcomers found room in the file in memory, {on_disk} on ext4"
    ))
}

enum Disk {
    Memory,
    Ext4,
}

/// A server whose state directory is the root of a file system of its own.
struct Bed<'a> {
    context: &'a Context,
    name: &'static str,
    export: PathBuf,
    config: PathBuf,
    state: PathBuf,
}

impl<'a> Bed<'a> {
    fn new(context: &'a Context, name: &'static str) -> Result<Self> {
        let dir = &context.lab.dir;
        let export = dir.join(format!("export-{name}"));
        fs::create_dir(&export)?;
        let config = dir.join(format!("{name}.toml"));
        let text = format!(
            "[server]\n[[export]]\npath = {export:?}\npseudo = \"/\"\nsquash = \"none\"\n\
             clients = [\"127.0.0.0/8\"]\n"
        );
        fs::write(&config, text)?;
        Ok(Self {
            context,
            name,
            export,
            config,
            state: dir.join(format!("state-{name}")),
        })
    }

    fn start(&self) -> Result<Server> {
        fs::set_permissions(&self.state, Permissions::from_mode(0o700))?;
        let options = ServerOptions {
            config: Some(self.config.clone()),
            ..ServerOptions::default()
        };
        Server::start(&self.context.lab, &self.export, &self.state, &options)
            .with_context(|| self.name)
    }

    /// Lines of the log that tell of the records, from so many bytes on.
    fn told(&self, from: usize) -> Result<Vec<String>> {
        let log = fs::read(self.context.lab.dir.join("server.log"))?;
        let log = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
        let lines = log
            .lines()
            .filter(|line| line.contains("records of NFSv4 clients"));
        Ok(lines.map(str::to_owned).collect())
    }

    /// How many files of this name are open.
    fn opens(&self, name: &str) -> Result<usize> {
        let mut command = Command::new(&self.context.lab.program);
        command
            .args(["ctl", "--json", "--state-dir"])
            .arg(&self.state);
        let text = output(command.arg("opens"))?;
        Ok(String::from_utf8_lossy(&text).matches(name).count())
    }

    fn log_length(&self) -> Result<usize> {
        Ok(fs::read(self.context.lab.dir.join("server.log")).map_or(0, |log| log.len()))
    }
}

/// A full state directory, until there is room again.
fn full(context: &Context, disk: Disk) -> Result<usize> {
    let bed = Bed::new(
        context,
        match disk {
            Disk::Memory => "memory",
            Disk::Ext4 => "ext4",
        },
    )?;
    // Unmounted when the server has ended.
    let (mut memory, mut ext4) = (None, None);
    match disk {
        Disk::Memory => memory = Some(Mounted::tmpfs(8, &bed.state)?),
        Disk::Ext4 => ext4 = Some(LoopFs::new(FsKind::Ext4, 16, &bed.state)?),
    }
    let from = bed.log_length()?;
    let server = bed.start()?;
    let filler = bed.state.join("filler");
    let granted = block_on(async {
        let mut known = client(&server, "known").await?;
        let file = open(&mut known, "known").await?;
        ensure!(file.is_ok(), "OPEN: {file:?}");
        fill_up(&filler)?;
        let (granted, mut newcomer) = newcomers(&server).await?;
        for _ in 0..OPENS {
            let refused = open(&mut newcomer, "refused").await?;
            ensure!(refused == Err(Nfsstat4::Delay), "{refused:?}");
        }
        ensure!(bed.opens("refused")? == 0, "something is open");
        goes_on(&mut known).await?;
        // All that the server has may be gone: what it holds open is what counts.
        fs::remove_file(&filler)?;
        let told = bed.told(from)?;
        ensure!(
            told.len() == 1 && told[0].contains("make room in the state directory"),
            "the log says {told:?}"
        );
        until_open(&mut newcomer, "refused").await?;
        fs::remove_file(bed.state.join("clients.redb"))?;
        until("the file is there again", || {
            Ok(bed.state.join("clients.redb").exists())
        })?;
        goes_on(&mut known).await?;
        anyhow::Ok(granted)
    })?;
    let told = bed.told(from)?;
    ensure!(
        told.len() == 3
            && told[1].contains("can be written again")
            && told[2].contains("were removed"),
        "the log says {told:?}"
    );
    let from = bed.log_length()?;
    kill(server)?;
    recorded(&bed, from, granted + 2)?;
    drop((memory, ext4));
    Ok(granted)
}

/// The kernel lets nobody write the state directory's file system any more, as after an error of the disk.
fn read_only(context: &Context) -> Result<()> {
    let bed = Bed::new(context, "read-only")?;
    let mut disk = LoopFs::new(FsKind::Ext4, 16, &bed.state)?;
    output(
        Command::new("mount")
            .args(["-o", "remount,errors=remount-ro"])
            .arg(&bed.state),
    )?;
    let device = output(
        Command::new("findmnt")
            .args(["-no", "SOURCE"])
            .arg(&bed.state),
    )?;
    let device = String::from_utf8(device)?;
    let device = device.trim().rsplit('/').next().unwrap_or_default();
    let from = bed.log_length()?;
    let server = bed.start()?;
    block_on(async {
        let mut known = client(&server, "known").await?;
        let file = open(&mut known, "known").await?;
        ensure!(file.is_ok(), "OPEN: {file:?}");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(&trigger, "a test").with_context(|| trigger.clone())?;
        let (granted, mut newcomer) = newcomers(&server).await?;
        ensure!(granted == 0, "{granted} records on a disk that takes none");
        for _ in 0..OPENS {
            let refused = open(&mut newcomer, "refused").await?;
            ensure!(refused == Err(Nfsstat4::Delay), "{refused:?}");
        }
        goes_on(&mut known).await
    })?;
    let told = bed.told(from)?;
    ensure!(
        told.len() == 1 && told[0].contains("check the file system of the state directory"),
        "the log says {told:?}"
    );
    kill(server)?;
    // As its administrator mends it.
    disk.unmount()?;
    let checked = Command::new("e2fsck")
        .args(["-fy"])
        .arg(disk.image())
        .output()?;
    ensure!(
        checked.status.code().is_some_and(|code| code <= 1),
        "{checked:?}"
    );
    disk.mount()?;
    let from = bed.log_length()?;
    recorded(&bed, from, 1)
}

/// A server that starts finds so many records.
fn recorded(bed: &Bed<'_>, from: usize, clients: usize) -> Result<()> {
    let server = bed.start()?;
    let log = bed.context.lab.dir.join("server.log");
    let count = format!("clients={clients} ");
    until("what is recorded", || {
        let log = fs::read(&log)?;
        let log = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
        let told = log
            .lines()
            .find(|line| line.contains("may reclaim what they held"));
        if let Some(told) = told {
            ensure!(told.contains(&count), "not {clients} clients: {told}");
        }
        Ok(told.is_some())
    })?;
    kill(server)
}

fn kill(mut server: Server) -> Result<()> {
    server.kill()
}

/// Lets new clients come until one is refused: how many were not, and that one.
async fn newcomers(server: &Server) -> Result<(usize, RawClient4)> {
    for number in 0..NEWCOMERS_MAX {
        // A new client joins, and learns at its first OPEN.
        let mut newcomer = client(server, &format!("newcomer {number}")).await?;
        match open(&mut newcomer, &format!("by-{number}")).await? {
            Ok(_) => {}
            Err(Nfsstat4::Delay) => return Ok((number, newcomer)),
            Err(other) => bail!("OPEN: {other}"),
        }
    }
    bail!("{NEWCOMERS_MAX} clients found room in a full state directory")
}

/// What a client may do that is recorded.
async fn goes_on(known: &mut RawClient4) -> Result<()> {
    let opened = open(known, "known").await?;
    let stateid = opened.map_err(|status| anyhow::anyhow!("OPEN of who is known: {status}"))?;
    let lookup = ArgOp::Lookup(LookupArgs {
        objname: Component4(b"known"),
    });
    let lock = ArgOp::Lock(LockArgs {
        locktype: LockType4::Write,
        reclaim: false,
        offset: 0,
        length: 10,
        locker: Locker4::New(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: stateid,
            lock_seqid: 0,
            lock_owner: owner(b"locker"),
        }),
    });
    let close = ArgOp::Close(CloseArgs {
        seqid: 0,
        open_stateid: stateid,
    });
    let ops = vec![ArgOp::Putrootfh(()), lookup, lock, close];
    known
        .call(ops, |status, results| {
            ensure!(status == Nfsstat4::Ok, "{status}: {results:?}");
            Ok(())
        })
        .await
}

async fn until_open(client: &mut RawClient4, name: &str) -> Result<()> {
    let end = Instant::now() + RECOVERY_DEADLINE;
    loop {
        match open(client, name).await? {
            Ok(_) => return Ok(()),
            Err(Nfsstat4::Delay) => {}
            Err(other) => bail!("OPEN: {other}"),
        }
        ensure!(Instant::now() < end, "it does not recover");
        // SLEEP: between two looks.
        tokio::time::sleep(PAUSE).await;
    }
}

fn until(what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + RECOVERY_DEADLINE;
    while !is_so()? {
        ensure!(Instant::now() < end, "not in time: {what}");
        // SLEEP: between two looks.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

async fn client(server: &Server, name: &str) -> Result<RawClient4> {
    let mut client = RawClient4::new(Ipv4Addr::LOCALHOST, server.address(), name).await?;
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    client
        .call(vec![complete], |status, _| {
            ensure!(status == Nfsstat4::Ok, "RECLAIM_COMPLETE: {status}");
            Ok(())
        })
        .await?;
    Ok(client)
}

const fn owner(name: &[u8]) -> StateOwner4<'_> {
    StateOwner4 {
        clientid: Clientid4 { id: 0 },
        owner: Opaque4(name),
    }
}

/// OPEN of a file in the root, which is made if it is not there.
async fn open(client: &mut RawClient4, name: &str) -> Result<Result<Stateid4, Nfsstat4>> {
    let mut nothing = Vec::new();
    Attributes::default().encode(&mut Encoder::new(&mut nothing));
    let nothing: Fattr4<'_> = decode_all(&nothing)?;
    let open = ArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: owner(b"opener"),
        openhow: Openflag4::Create(Createhow4::Unchecked(nothing)),
        claim: OpenClaim4::Null(Component4(name.as_bytes())),
    });
    client
        .call(
            vec![ArgOp::Putrootfh(()), open],
            |status, results| match results {
                [_, ResOp::Open(Ok(ok))] => Ok(Ok(ok.stateid)),
                _ => Ok(Err(status)),
            },
        )
        .await
}
