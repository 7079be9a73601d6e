//! Asking a server: what is measured and tried, one call at a time. Nothing is judged here.

mod changes;
mod data;
mod directory;
mod handles;
mod identities;
mod own;
mod services;

use std::future::Future;
use std::time::Duration;

use nfs_wire::nfs3::{
    CreateArgs, CreateHow, Failure, Fattr3, FileHandle, Ftype3, MkdirArgs, RemoveArgs, RenameArgs,
    Sattr3,
};
use tokio::time::Instant;

use self::own::Own;
use super::facts::{
    Answered, Ended, Facts, Latency, NoTrials, OwnDirectory, Refusal, Times, Trials,
};
use crate::client::{Client, MountOptions};
use crate::connection::{Connection, Reconnect};
use crate::error::ClientError;
use crate::identity::Identity;
use crate::limits::{
    DOCTOR_CLEAN_UP_MAX, DOCTOR_LISTED_MAX, DOCTOR_MEASURE_MAX, DOCTOR_READ_BYTES, DOCTOR_SAMPLES,
    DOCTOR_TIME_MAX,
};
use crate::nfs::Nfs;
use crate::nfs3::{self, Node, Outcome, entry};
use crate::url::{NfsUrl, Version};

/// Asks the server of a URL everything that [`Facts`] have, one call at a time, for
/// [`DOCTOR_TIME_MAX`] at most.
///
/// Unless `read_only`, it writes into a directory of its own, made in the one that the URL names and
/// removed at the end; also when `stop` ends it before. Whoever drops the future that this returns
/// leaves that directory behind.
pub async fn examine(
    url: &NfsUrl,
    options: &MountOptions,
    read_only: bool,
    stop: impl Future<Output = ()>,
) -> Facts {
    let mut options = options.clone();
    // What comes twice would be measured wrong, and a MKDIR that came twice could leave a directory.
    options.connect.reconnect = Reconnect::ForNewCalls;
    options.nconnect = 1;
    let (services, place) = services::look(url, &options).await;
    let newest = services.nfs.iter().rev().find(|one| one.answer.is_ok());
    let mut facts = Facts {
        server: place.map_or_else(|_| url.host.clone(), |place| place.to_string()),
        path: url.path.clone(),
        version: match url.version {
            Version::V4 => newest.map_or("4", |found| found.version),
            version => version.word(),
        },
        calls: 0,
        services,
        directory: Ok(()),
        fsinfo: Err(Refusal::NotAsked),
        pathconf: Err(Refusal::NotAsked),
        latency: Latency::default(),
        trials: Err(NoTrials::NotMounted),
        own: None,
        ended: None,
    };
    let (client, directory) = match mounted(url, &options).await {
        Ok(found) => found,
        Err(refusal) => {
            facts.directory = Err(refusal);
            return facts;
        }
    };
    let ground = Ground {
        url,
        options: &options,
        client: &client,
        nfs: client.nfs(),
        directory: directory.handle,
    };
    ground.look(&mut facts, read_only, stop).await;
    facts.calls = client.nfs().connections().stats().replies;
    leave(client).await;
    facts
}

/// The URL's export as it is mounted, and the directory that the URL's path leads to.
async fn mounted(url: &NfsUrl, options: &MountOptions) -> Answered<(Client, Node)> {
    let told = |error: ClientError| Refusal::Call(error.of(&url.path).to_string());
    let (client, path) = Client::mount_with(url, options).await.map_err(told)?;
    let node = client.resolve(&path).await.map_err(told)?;
    if node.attributes.ftype != Ftype3::Dir {
        let path = crate::error::printable(&url.path);
        let text = format!("{path}: is no directory: name one, in which files can be made");
        return Err(Refusal::Call(text));
    }
    Ok((client, node))
}

/// Where the examination takes place.
struct Ground<'a> {
    url: &'a NfsUrl,
    options: &'a MountOptions,
    client: &'a Client,
    nfs: &'a Nfs,
    directory: FileHandle,
}

impl Ground<'_> {
    async fn look(&self, facts: &mut Facts, read_only: bool, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let late = tokio::time::sleep(DOCTOR_TIME_MAX);
        let mut late = std::pin::pin!(late);
        tokio::select! {
            () = &mut stop => facts.ended = Some(Ended::Asked),
            () = &mut late => facts.ended = Some(Ended::Late),
            () = self.ask(facts) => {}
        }
        if read_only {
            facts.trials = Err(NoTrials::ReadOnly);
            return;
        }
        if facts.ended.is_some() {
            return;
        }
        let own = match Own::make(self.client, &self.directory).await {
            Ok(own) => own,
            Err(not_made) => {
                facts.trials = Err(NoTrials::Refused(not_made.refusal));
                facts.own = not_made.left.map(|(name, why)| OwnDirectory {
                    path: own::path_in(&self.url.path, &name),
                    removed: Err(why),
                });
                return;
            }
        };
        let mut trials = Trials::default();
        tokio::select! {
            () = &mut stop => facts.ended = Some(Ended::Asked),
            () = &mut late => facts.ended = Some(Ended::Late),
            () = self.try_all(&own, &mut trials, &mut facts.latency) => {}
        }
        facts.trials = Ok(trials);
        facts.own = Some(OwnDirectory {
            path: own.path(&self.url.path),
            removed: own.remove(self.client).await,
        });
    }

    /// What changes nothing.
    async fn ask(&self, facts: &mut Facts) {
        let directory = &self.directory;
        facts.fsinfo = flat(self.nfs.fsinfo(directory).await);
        facts.pathconf = flat(self.nfs.pathconf(directory).await);
        let connection = self.nfs.connection();
        let version = self.url.version.program_version();
        let null = async || null(connection, nfs3::PROGRAM, version).await;
        facts.latency.null = times(DOCTOR_SAMPLES, null).await;
        let getattr = async || flat(self.nfs.getattr(directory).await).map(|_| ());
        facts.latency.getattr = times(DOCTOR_SAMPLES, getattr).await;
        if let Some(file) = self.some_file().await {
            facts.latency.read = self.reads(&file).await;
        }
    }

    async fn try_all(&self, own: &Own, trials: &mut Trials, latency: &mut Latency) {
        let wrote = self.stable(own).await;
        if let Ok(wrote) = &wrote
            && latency.read.count() == 0
        {
            latency.read = self.reads(&wrote.file).await;
        }
        trials.verifiers = match &wrote {
            Ok(wrote) => self.verifiers(wrote).await,
            Err(refusal) => Err(refusal.clone()),
        };
        trials.stable = wrote.map(|wrote| wrote.trial);
        trials.wcc = self.wcc(own).await;
        trials.clock = self.clock(own).await;
        trials.handles = self.handles(own).await;
        trials.exclusive = self.exclusive(own).await;
        trials.cookies = self.cookies(own).await;
        trials.identities = self.identities(own).await;
    }

    /// A regular file of the directory to read from, with something in it, among the first that the server lists.
    async fn some_file(&self) -> Option<FileHandle> {
        let bytes = DOCTOR_LISTED_MAX;
        let page = self
            .nfs
            .readdirplus(&self.directory, 0, [0; 8], bytes, bytes)
            .await;
        let entries = flat(page).ok()?.entries.into_iter();
        let mut files = entries.filter_map(|found| {
            let attributes = found.name_attributes?;
            let readable = attributes.ftype == Ftype3::Reg && attributes.size > 0;
            found.name_handle.filter(|_| readable)
        });
        files.next()
    }

    /// READs of 4 KiB from the beginning of a file; none where it cannot be read.
    async fn reads(&self, file: &FileHandle) -> Times {
        let read = async || {
            let read = self.nfs.read(file, 0, DOCTOR_READ_BYTES).await;
            flat(read).map(|_| ())
        };
        times(DOCTOR_SAMPLES, read).await
    }

    /// Another connection to the same server, with the session and mount that belong to it.
    async fn elsewhere(&self) -> Answered<Client> {
        let made = Client::mount_with(self.url, self.options).await;
        let told = |error: ClientError| Refusal::Call(error.to_string());
        made.map(|(client, _)| client).map_err(told)
    }

    async fn create(&self, dir: &FileHandle, name: &[u8], how: CreateHow) -> Answered<Made> {
        create(self.nfs, dir, name, how).await
    }

    async fn new_file(&self, dir: &FileHandle, name: &[u8]) -> Answered<FileHandle> {
        let how = CreateHow::Guarded(mode(0o600));
        Ok(self.create(dir, name, how).await?.handle)
    }

    async fn mkdir(&self, dir: &FileHandle, name: &[u8], bits: u32) -> Answered<FileHandle> {
        let args = MkdirArgs {
            where_: entry(dir, name),
            attributes: mode(bits),
        };
        let made = answered(self.nfs.mkdir(&args).await?.outcome)?;
        match made.obj {
            Some(handle) => Ok(handle),
            None => Ok(flat(self.nfs.lookup(dir, name).await)?.object),
        }
    }

    async fn remove(&self, dir: &FileHandle, name: &[u8]) -> Answered<nfs3::WccData> {
        let args = RemoveArgs {
            object: entry(dir, name),
        };
        Ok(answered(self.nfs.remove(&args).await?.outcome)?.wcc)
    }

    async fn rename(&self, from: (&FileHandle, &[u8]), to: (&FileHandle, &[u8])) -> Answered<()> {
        let args = RenameArgs {
            from: entry(from.0, from.1),
            to: entry(to.0, to.1),
        };
        answered(self.nfs.rename(&args).await?.outcome).map(|_| ())
    }

    async fn stat(&self, handle: &FileHandle) -> Answered<Fattr3> {
        Ok(flat(self.nfs.getattr(handle).await)?.obj_attributes)
    }
}

/// Takes leave of the server, so that no session and no mount of it is left.
async fn leave(client: Client) {
    // A server that is away takes a session of NFSv4 down by itself.
    let _later = tokio::time::timeout(DOCTOR_CLEAN_UP_MAX, client.unmount()).await;
}

/// What a CREATE made.
struct Made {
    handle: FileHandle,
    attributes: Option<Fattr3>,
    dir_wcc: nfs3::WccData,
}

/// CREATE, with a LOOKUP where the server does not tell the handle.
async fn create(nfs: &Nfs, dir: &FileHandle, name: &[u8], how: CreateHow) -> Answered<Made> {
    let args = CreateArgs {
        where_: entry(dir, name),
        how,
    };
    let made = answered(nfs.create(&args).await?.outcome)?;
    let handle = match made.obj {
        Some(handle) => handle,
        None => flat(nfs.lookup(dir, name).await)?.object,
    };
    Ok(Made {
        handle,
        attributes: made.obj_attributes,
        dir_wcc: made.dir_wcc,
    })
}

fn mode(bits: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(bits),
        ..Sattr3::default()
    }
}

/// NULL of a program.
async fn null(connection: &Connection, program: u32, version: u32) -> Answered<()> {
    let null = crate::connection::Procedure {
        program,
        version,
        number: 0,
    };
    connection.call(null, &Identity::none(), &()).await?;
    Ok(())
}

/// How long `count` calls take one after the other, or as many as [`DOCTOR_MEASURE_MAX`] has room for. A
/// call that fails ends the measurement, and is not in it.
async fn times(count: usize, mut call: impl AsyncFnMut() -> Answered<()>) -> Times {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(count);
    while times.len() < count && begun.elapsed() < DOCTOR_MEASURE_MAX {
        match timed(&mut call).await {
            (Ok(()), took) => times.push(took),
            (Err(_), _) => break,
        }
    }
    Times::from(times)
}

/// What a call answered, and how long that took.
async fn timed<T>(call: impl AsyncFnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let answer = call().await;
    (answer, begun.elapsed())
}

/// Both layers of a procedure's answer as one.
fn flat<T, F>(outcome: Outcome<T, F>) -> Answered<T> {
    answered(outcome?)
}

fn answered<T, F>(outcome: Result<T, Failure<F>>) -> Answered<T> {
    outcome.map_err(|failure| Refusal::Status(failure.status))
}
