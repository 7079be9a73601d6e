//! A call that changed names and was never answered, because the server was killed between the
//! change and the reply: sent again to the next server, it is told that it succeeded, and changes
//! nothing.
//!
//! One call, one kill. The moment is none of chance: the flush that a reply waits for is held, or the
//! file system is frozen while the change waits in the kernel, so that it is made after the server has
//! got its signal. In half of the trials another client goes on from the change before the call comes
//! again, which a second run of it would destroy.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::number;
use nfs_client::{Nfs3, RawConnection};
use nfs_lab::{Frozen, FsKind, Hold, LoopFs, Server, ServerOptions};
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, DirOpArgs, FileHandle, Filename, LinkArgs, MkdirArgs,
    MknodArgs, Mknoddata, Nfspath3, Nfsstat3, PipeData, Procedure, RemoveArgs, RenameArgs,
    RmdirArgs, Sattr3, StableHow, SymlinkArgs, SymlinkData,
};
use nfs_wire::rpc::{AcceptStat, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder, encode_to_vec};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::host::Context;
use crate::host::wire::{CALL_DEADLINE, block_on, mount, ok, walk};
use crate::manifest;

/// The moment of a call at which the server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The change is being made: it is done when the process is dead for everybody but the kernel.
    Changing,
    /// The change is made, its flush has begun.
    Flushing,
    /// The reply was sent, and the server is killed.
    Answered,
    /// The reply was sent, and the server is ended in order.
    Stopped,
}

impl Moment {
    const ALL: [Self; 4] = [
        Self::Changing,
        Self::Flushing,
        Self::Answered,
        Self::Stopped,
    ];
}

/// Whether the call comes again from the port it was first sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Same,
    Another,
}

/// A call, in a directory of its own that has a `file` and a directory `subdir`. What it makes is `new`.
struct Case {
    name: &'static str,
    procedure: Procedure,
    arguments: fn(&Objects) -> Vec<u8>,
    /// What another client does before it comes again.
    meanwhile: Meanwhile,
}

/// What another client does, which a second run of the call would undo, or run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Writes to the file that the call made.
    Write(&'static str),
    /// Makes a file, anew where the call took one away.
    Create(&'static str),
    Mkdir(&'static str),
}

impl Meanwhile {
    async fn run(self, address: SocketAddr, dir: &str) -> Result<()> {
        let (nfs, root) = mount(address).await?;
        let dir = walk(&nfs, &root, dir).await?;
        match self {
            Self::Nothing => {}
            Self::Write(name) => {
                let file = walk(&nfs, &dir, name).await?;
                let data = Bytes::from_static(b"somebody's");
                ok("WRITE", nfs.write(&file, 0, StableHow::FileSync, data)).await?;
            }
            Self::Create(path) => {
                let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
                let dir = walk(&nfs, &dir, parent).await?;
                let how = CreateHow::Guarded(mode(0o604));
                ok("CREATE", nfs.create(&dir, name.as_bytes(), &how)).await?;
            }
            Self::Mkdir(name) => {
                ok("MKDIR", nfs.mkdir(&dir, name.as_bytes(), &mode(0o705))).await?;
            }
        }
        Ok(())
    }
}

/// The handles that a call's arguments may need.
struct Objects {
    dir: FileHandle,
    file: FileHandle,
}

impl Objects {
    const fn at<'a>(&self, name: &'a [u8]) -> DirOpArgs<'a> {
        DirOpArgs {
            dir: self.dir,
            name: Filename(name),
        }
    }
}

const NEW: &[u8] = b"new";
/// How many failures are shown in full.
const SHOWN: usize = 12;

const CASES: &[Case] = &[
    Case {
        name: "CREATE-unchecked",
        procedure: Procedure::Create,
        arguments: |objects| create(objects, CreateHow::Unchecked(empty_file())),
        meanwhile: Meanwhile::Write("new"),
    },
    Case {
        name: "CREATE-guarded",
        procedure: Procedure::Create,
        arguments: |objects| create(objects, CreateHow::Guarded(empty_file())),
        meanwhile: Meanwhile::Write("new"),
    },
    Case {
        name: "CREATE-exclusive",
        procedure: Procedure::Create,
        arguments: |objects| create(objects, CreateHow::Exclusive(*b"verifier")),
        meanwhile: Meanwhile::Write("new"),
    },
    Case {
        name: "MKDIR",
        procedure: Procedure::Mkdir,
        arguments: |objects| {
            encode_to_vec(&MkdirArgs {
                where_: objects.at(NEW),
                attributes: mode(0o750),
            })
        },
        meanwhile: Meanwhile::Create("new/inside"),
    },
    Case {
        name: "SYMLINK",
        procedure: Procedure::Symlink,
        arguments: |objects| {
            let symlink = SymlinkData {
                symlink_attributes: mode(0o777),
                symlink_data: Nfspath3(b"file"),
            };
            encode_to_vec(&SymlinkArgs {
                where_: objects.at(NEW),
                symlink,
            })
        },
        meanwhile: Meanwhile::Nothing,
    },
    Case {
        name: "MKNOD",
        procedure: Procedure::Mknod,
        arguments: |objects| {
            let pipe_attributes = mode(0o640);
            encode_to_vec(&MknodArgs {
                where_: objects.at(NEW),
                what: Mknoddata::Fifo(PipeData { pipe_attributes }),
            })
        },
        meanwhile: Meanwhile::Nothing,
    },
    Case {
        name: "LINK",
        procedure: Procedure::Link,
        arguments: |objects| {
            encode_to_vec(&LinkArgs {
                file: objects.file,
                link: objects.at(NEW),
            })
        },
        meanwhile: Meanwhile::Nothing,
    },
    Case {
        name: "RENAME",
        procedure: Procedure::Rename,
        arguments: |objects| {
            encode_to_vec(&RenameArgs {
                from: objects.at(b"file"),
                to: objects.at(NEW),
            })
        },
        meanwhile: Meanwhile::Create("file"),
    },
    Case {
        name: "REMOVE",
        procedure: Procedure::Remove,
        arguments: |objects| {
            encode_to_vec(&RemoveArgs {
                object: objects.at(b"file"),
            })
        },
        meanwhile: Meanwhile::Create("file"),
    },
    Case {
        name: "RMDIR",
        procedure: Procedure::Rmdir,
        arguments: |objects| {
            encode_to_vec(&RmdirArgs {
                object: objects.at(b"subdir"),
            })
        },
        meanwhile: Meanwhile::Mkdir("subdir"),
    },
];

fn mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}

fn empty_file() -> Sattr3 {
    Sattr3 {
        size: Some(0),
        ..mode(0o640)
    }
}

fn create(objects: &Objects, how: CreateHow) -> Vec<u8> {
    encode_to_vec(&CreateArgs {
        where_: objects.at(NEW),
        how,
    })
}

/// One trial with a server that is ended: during which call, at which moment, and what comes after.
struct Trial {
    case: &'static Case,
    moment: Moment,
    port: Port,
    /// Whether another client does something before the call comes again.
    meanwhile: bool,
    /// How often the server is killed before the call comes again.
    kills: u64,
    /// Number of the trial, from which the directory's name and the call's xid follow.
    number: u32,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, moment, port) = (self.case.name, self.moment, self.port);
        write!(f, "{name}, {moment:?}, {port:?} port")?;
        if self.meanwhile {
            write!(f, ", changed meanwhile")?;
        }
        if self.kills > 1 {
            write!(f, ", {} kills", self.kills)?;
        }
        Ok(())
    }
}

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    let mut disk = LoopFs::new(FsKind::Xfs, 320, &export)?;
    // In the state directory: a server that keeps itself out of other files finds the rules there.
    let state = context.lab.dir.join("state");
    DirBuilder::new().mode(0o700).create(&state)?;
    let bench = Bench {
        context,
        hold: Hold::new(&state, "flush")?,
        frozen: Frozen::new(disk.point())?,
        export,
        state,
    };
    let mut random = Rng::with_seed(context.seed.wrapping_add(context.lab.engine as u64));
    let trials = trials(&mut random);
    let mut server = Some(bench.start("")?);
    let (mut kills, mut wrong) = (0, Vec::new());
    for trial in &trials {
        kills += trial.kills - u64::from(trial.moment == Moment::Stopped);
        let running = server.take().context("a server runs")?;
        let (next, outcome) = bench.trial(trial, running)?;
        server = Some(next);
        wrong.extend(outcome.err().map(|error| format!("{trial}: {error:#}")));
    }
    server.context("a server runs")?.stop()?;
    drop(bench);
    disk.unmount()?;
    ensure!(
        wrong.is_empty(),
        "{} of {} replies, seed {}; the first: {}",
        wrong.len(),
        trials.len(),
        context.seed,
        wrong
            .iter()
            .take(SHOWN)
            .cloned()
            .collect::<Vec<_>>()
            .join(" | ")
    );
    Ok(format!("{} replies owed over {kills} kills", trials.len()))
}

/// Each case at each moment; the rest by turns, begun anywhere.
fn trials(random: &mut Rng) -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in CASES {
        let mut turn = random.u64(..);
        for moment in Moment::ALL {
            for port in [Port::Same, Port::Another] {
                turn = turn.wrapping_add(1);
                let meanwhile = turn.is_multiple_of(2);
                trials.push(Trial {
                    case,
                    moment,
                    port,
                    // Each port once with and once without over two moments.
                    meanwhile: meanwhile != matches!(moment, Moment::Flushing | Moment::Stopped),
                    kills: 1 + random.u64(..4) / 3,
                    number: trials.len() as u32,
                });
            }
        }
    }
    trials
}

struct Bench<'a> {
    context: &'a Context,
    export: PathBuf,
    state: PathBuf,
    hold: Hold,
    frozen: Frozen,
}

/// The call as it was sent, and by whom.
struct Sent {
    body: Vec<u8>,
    from: SocketAddr,
    /// The reply, if there was one before the server ended.
    reply: Option<Vec<u8>>,
}

impl Bench<'_> {
    fn start(&self, listen: &str) -> Result<Server> {
        let options = ServerOptions {
            listen: listen.to_owned(),
            faults: Some(self.hold.rules()),
            more: &["--squash", "none"],
            ..ServerOptions::default()
        };
        Server::start(&self.context.lab, &self.export, &self.state, &options)
    }

    /// Ends `server` in the middle of the call, starts it, and sends the call again.
    fn trial(&self, trial: &Trial, mut server: Server) -> Result<(Server, Result<()>)> {
        let address = server.address();
        let dir = self.export.join(trial.number.to_string());
        fs::create_dir_all(dir.join("subdir"))?;
        fs::write(dir.join("file"), "what was there")?;
        let before = manifest::of_tree(&dir)?;
        let sent = block_on(self.broken(trial, &mut server));
        let sent = sent.with_context(|| format!("before {trial}"))?;
        if trial.moment == Moment::Stopped {
            server.stop()?;
        }
        for _ in 1..trial.kills {
            self.start(&address.to_string())?.kill()?;
        }
        let made = manifest::of_tree(&dir)?;
        ensure!(made != before, "{trial}: nothing had been changed");
        let server = self.start(&address.to_string())?;
        if trial.meanwhile {
            let name = trial.number.to_string();
            let changed = block_on(trial.case.meanwhile.run(address, &name));
            changed.with_context(|| format!("meanwhile, {trial}"))?;
        }
        let mut found = manifest::of_tree(&dir)?;
        let outcome = block_on(again(trial, address, &sent));
        let mut left = manifest::of_tree(&dir)?;
        if trial.moment == Moment::Changing {
            // What the call was to set besides may be set only now.
            manifest::forget_times(&mut left);
            manifest::forget_times(&mut found);
        }
        let left = manifest::differences(&found, &left);
        let outcome = outcome.and_then(|()| match left.first() {
            Some(difference) => Err(anyhow!("it ran twice: {difference}")),
            None => Ok(()),
        });
        Ok((server, outcome))
    }

    /// Sends the call and ends the server when the moment has come.
    async fn broken(&self, trial: &Trial, server: &mut Server) -> Result<Sent> {
        let address = server.address();
        let (nfs, root) = mount(address).await?;
        let dir = walk(&nfs, &root, &trial.number.to_string()).await?;
        let file = walk(&nfs, &dir, "file").await?;
        let objects = Objects { dir, file };
        let body = body(trial, &nfs, &objects);
        let (mut connection, from) = connect(address, None).await?;
        let deadline = Instant::now() + CALL_DEADLINE;
        match trial.moment {
            Moment::Changing => self.frozen.freeze()?,
            Moment::Flushing => self.hold.begin(1)?,
            Moment::Answered | Moment::Stopped => {}
        }
        connection.send_record(&body).await?;
        let mut reply = None;
        match trial.moment {
            Moment::Changing => {
                server.until_it_waits_for_a_thaw(CALL_DEADLINE)?;
                server.kill_while(|| self.frozen.thaw())?;
            }
            Moment::Flushing => {
                let held = self.hold.caught(|| Ok(Instant::now() < deadline))?;
                let held = held
                    .context("no flush for the call (is the server built with penstock/faults?)")?;
                server.kill()?;
                self.hold.end()?;
                drop(held);
            }
            Moment::Answered => {
                reply = timeout(CALL_DEADLINE, connection.receive_record()).await??;
                server.kill()?;
            }
            Moment::Stopped => {
                reply = timeout(CALL_DEADLINE, connection.receive_record()).await??;
            }
        }
        // The port is free at once.
        connection.stream().set_zero_linger()?;
        Ok(Sent { body, from, reply })
    }
}

/// The call's body from the xid to the last argument.
fn body(trial: &Trial, nfs: &Nfs3, objects: &Objects) -> Vec<u8> {
    let procedure = number(trial.case.procedure);
    let xid = 0x6b69_0000 + trial.number;
    let mut body = RawConnection::call_body(xid, procedure, nfs.identity(), &());
    body.extend_from_slice(&(trial.case.arguments)(objects));
    body
}

/// A connection from port `from`, or any; where it comes from. The address is one that nobody else connects
/// from: the port is free when it is wanted again.
async fn connect(to: SocketAddr, from: Option<SocketAddr>) -> Result<(RawConnection, SocketAddr)> {
    let IpAddr::V4(server) = to.ip() else {
        bail!("a server on an address of IPv4");
    };
    let [a, b, c, _] = server.octets();
    let any = SocketAddr::from(([a, b, c, 2], 0));
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    let from = from.unwrap_or(any);
    socket.bind(from).with_context(|| format!("bind {from}"))?;
    let stream = timeout(CALL_DEADLINE, socket.connect(to)).await??;
    stream.set_nodelay(true)?;
    let from = stream.local_addr()?;
    Ok((RawConnection::from_stream(stream), from))
}

/// Sends the call again and looks at the reply.
async fn again(trial: &Trial, address: SocketAddr, sent: &Sent) -> Result<()> {
    let from = (trial.port == Port::Same).then_some(sent.from);
    let (mut connection, _) = connect(address, from).await?;
    let reply = timeout(CALL_DEADLINE, connection.exchange(&sent.body)).await??;
    let reply = reply.context("the server hung up")?;
    let made = object_of(trial.case.procedure, &reply)?;
    if let Some(first) = &sent.reply {
        let first = object_of(trial.case.procedure, first).context("the first reply")?;
        ensure!(first == made, "another handle than the first");
    }
    connection.stream().set_zero_linger()?;
    if let Some(made) = made {
        let (nfs, root) = mount(address).await?;
        let found = walk(&nfs, &root, &format!("{}/new", trial.number)).await?;
        let made = ok("GETATTR", nfs.getattr(&made)).await?.obj_attributes;
        let found = ok("GETATTR", nfs.getattr(&found)).await?.obj_attributes;
        ensure!(made.fileid == found.fileid, "the handle of another object");
    }
    Ok(())
}

/// The handle in a reply that says that all went well, where the procedure gives one.
fn object_of(procedure: Procedure, reply: &[u8]) -> Result<Option<FileHandle>> {
    let mut decoder = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut decoder).context("the reply's header")?;
    let accepted = matches!(
        header.body,
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        }
    );
    ensure!(accepted, "{:?}", header.body);
    let status = Nfsstat3::decode(&mut decoder).context("the reply's status")?;
    ensure!(status == Nfsstat3::Ok, "answered {status:?}");
    let makes = matches!(
        procedure,
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod
    );
    if !makes {
        return Ok(None);
    }
    let made = CreateOk::decode(&mut decoder).context("the reply")?;
    let handle = made.obj.context("no handle of what was made")?;
    Ok(Some(handle))
}
