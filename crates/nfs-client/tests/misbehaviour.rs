//! The client against a server that misbehaves: nothing hangs, nothing is lost silently.
//!
//! Each run has a seed, which a failure names; `DOUBLE_SEED=N` in the environment runs that one alone and
//! tells each call. The clock of most runs stands still and jumps when nothing else is left to do, so that pauses and time
//! limits cost nothing, and a hang is found at once.

mod double;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use nfs_client::ClientError;
use nfs_client::file::{Depth, File, Windows};
use nfs_client::{Client, ConnectOptions, Hint, MountOptions};
use nfs_wire::nfs3::Procedure;
use tokio::time::timeout;

use double::Double;
use double::chance::Chance;
use double::faults::{Fault, HARMFUL, HARMLESS, Profile};

/// More than all time limits of the client together. Where the clock jumps, it costs nothing.
const HANG: Duration = Duration::from_secs(1000 * 3600);

/// How long a call may take. A server that answers only some calls, and closes connections, leaves one of some thousand
/// unanswered for the five minutes that are usual: which one is up to how the threads of the kernel take turns.
const CALL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Largest file of the runs, bytes.
const FILE_BYTES: usize = 100_000;

/// Runs `run` for each seed, on a runtime of its own whose clock jumps.
fn for_seeds<F>(seeds: std::ops::Range<u64>, run: impl Fn(u64) -> F)
where
    F: Future<Output = ()>,
{
    let only = std::env::var("DOUBLE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in only.map_or(seeds, |seed: u64| seed..seed + 1) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let named = Named(seed);
        runtime.block_on(async {
            timeout(HANG, run(seed)).await.expect("the client hangs");
        });
        std::mem::forget(named);
    }
}

/// Names the seed when a run panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        eprintln!("this was DOUBLE_SEED={}", self.0);
    }
}

async fn mounted(double: &Double, chance: &mut Chance) -> Client {
    let depth = |chance: &mut Chance| match chance.below(3) {
        0 => Depth::Measured,
        1 => Depth::Fixed(1),
        _ => Depth::Fixed(4),
    };
    let windows = Windows {
        read: depth(chance),
        write: depth(chance),
        transfer_bytes_max: [1000, 4096, 8192][chance.below(3)],
        memory_bytes_max: [0, 50_000, 1 << 20][chance.below(3)],
    };
    let (_, hint) = Hint::WORDS[chance.below(Hint::WORDS.len())];
    let connect = ConnectOptions {
        call_timeout: CALL_TIMEOUT,
        ..ConnectOptions::default()
    };
    let options = MountOptions {
        connect,
        windows,
        hint,
        ..MountOptions::default()
    };
    let mounted = Client::mount_with(&double.url(""), &options).await;
    mounted.unwrap().0
}

/// What a file has to hold, and what was ever written to it.
struct Model {
    bytes: Vec<u8>,
    written: Vec<(usize, Vec<u8>)>,
    /// Where data may end that the client has accepted and the server may not have (yet, or no more): at
    /// an edge of a WRITE (its end; or its beginning, where it was to replace the end of older data and
    /// failed) or, after a short WRITE, at a size that the file had then; bytes.
    edges: BTreeSet<usize>,
    /// How many of the sizes that the file had at the server are among `edges`.
    sizes_seen: usize,
    /// The client ends each WRITE at the next multiple of this, bytes.
    transfer: usize,
}

impl Model {
    /// The model of a new file that `client` has made.
    fn new(client: &Client) -> Self {
        let transfer = client.transfer_sizes().write;
        let transfer = transfer.min(client.windows().transfer_bytes_max);
        Self {
            bytes: Vec::new(),
            written: Vec::new(),
            edges: BTreeSet::new(),
            sizes_seen: 0,
            transfer: usize::try_from(transfer).unwrap(),
        }
    }

    /// Any part of `data` may come to the server at its place, whether or not the call that writes it
    /// fails.
    fn may_take(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        let transfers = (0..end).step_by(self.transfer);
        self.edges
            .extend(transfers.filter(|&edge| edge > offset).chain([offset, end]));
        self.written.push((offset, data.to_vec()));
    }

    /// Takes note of all `sizes` that the file had at the server so far.
    fn saw(&mut self, sizes: &[usize]) {
        self.edges.extend(&sizes[self.sizes_seen..]);
        self.sizes_seen = sizes.len();
    }

    /// Nothing that the client has accepted is beyond `end` and not at the server.
    fn ends_by(&mut self, end: usize) {
        self.edges.split_off(&(end + 1));
    }

    /// Where an append may begin: at the end of the file. `sizes` are those that the file had at the
    /// server while it was under way, in order.
    ///
    /// An append comes after all that the server has, which it would overwrite otherwise, and after all
    /// that was written before it, whether or not the server has that. Where WRITEs fail, only the client
    /// knows how much it has accepted and not given up, so that each end that this can have is allowed.
    /// Sizes that grew meanwhile are none of them: only accepted data makes the file grow, be it that of
    /// the append itself. Those that a loss at the server left are: what was the end is gone.
    fn ends(&self, sizes: &[usize]) -> BTreeSet<usize> {
        let least = *sizes.iter().min().unwrap();
        let accepted = self.edges.range(least..).copied();
        let pairs = sizes.iter().zip(&sizes[1..]);
        let left = pairs.filter_map(|(old, new)| (new < old).then_some(*new));
        accepted.chain([sizes[0]]).chain(left).collect()
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if !data.is_empty() && self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if !data.is_empty() {
            self.bytes[offset..end].copy_from_slice(data);
        }
    }

    /// Each byte is zero, or was written there at some time.
    fn assert_written(&self, what: &str, offset: usize, data: &[u8]) {
        let foreign = |(at, byte): &(usize, &u8)| {
            let written = |(start, written): &(usize, Vec<u8>)| {
                at.checked_sub(*start).and_then(|index| written.get(index)) == Some(*byte)
            };
            **byte != 0 && !self.written.iter().rev().any(written)
        };
        let first = (offset..).zip(data).find(foreign);
        assert!(
            first.is_none(),
            "{what}: bytes that nobody wrote, first {first:?}"
        );
    }
}

/// Random operations on one file; returns the errors that were told.
///
/// `sure`: nothing is given up on the way, so that reads have to give what the model has, also after a
/// restart that lost it on the server. Where a server fails to write, what was accepted is only known to
/// be there after a sync: a read before it may give what the server has left.
async fn operations(
    double: &Double,
    client: &Client,
    chance: &mut Chance,
    sure: bool,
) -> Vec<(&'static str, ClientError)> {
    let mut errors = Vec::new();
    let mut model = Model::new(client);
    // The same file opened again is the same file, but each learns of its failures for itself.
    let created = match chance.one_in(2) {
        true => client.create_new(b"file", 0o644).await,
        false => client.create(b"file", 0o644).await,
    };
    let mut files = match created {
        Ok(file) => vec![file],
        Err(error) => return vec![("create", error)],
    };
    for _ in 0..30 {
        let sure = sure && errors.is_empty();
        match operation(double, &files, chance, &mut model, sure).await {
            Ok(()) => {}
            Err(error) => {
                double::trace(|| format!("the operation gives {error:?}"));
                errors.push(error);
            }
        }
        if chance.one_in(20) {
            match client.open(b"file").await {
                Ok(again) => files.push(again),
                Err(error) => errors.push(("open", error)),
            }
        }
    }
    let mut closed = true;
    for file in files {
        if let Err(error) = file.close().await {
            closed = false;
            errors.push(("close", error));
        }
    }
    let stable = double.stable("file").unwrap();
    if closed {
        same("close", &stable, &model.bytes);
    } else {
        model.assert_written("on the server", 0, &stable);
    }
    errors
}

/// One operation on one of the handles of the file.
async fn operation(
    double: &Double,
    files: &[File],
    chance: &mut Chance,
    model: &mut Model,
    sure: bool,
) -> Result<(), (&'static str, ClientError)> {
    let file = &files[chance.below(files.len())];
    let offset = chance.below(FILE_BYTES);
    let len = match chance.below(3) {
        0 => chance.below(200),
        1 => chance.below(9000),
        _ => chance.below(40_000),
    };
    let what = chance.below(100);
    double::trace(|| format!("operation {what}, {len} bytes at {offset}"));
    match what {
        0..45 => {
            let data = chance.bytes(len);
            model.may_take(offset, &data);
            let wrote = file.write_at(offset as u64, data.clone()).await;
            wrote.map_err(|error| ("write_at", error))?;
            model.write(offset, &data);
        }
        45..57 => {
            let data = chance.bytes(len / 4);
            append(double, file, data, model, sure).await?;
        }
        57..72 => {
            let read = file.read_at(offset as u64, len).await;
            let read = read.map_err(|error| ("read_at", error))?;
            if sure {
                let start = offset.min(model.bytes.len());
                let end = (offset + len).min(model.bytes.len()).max(start);
                same_unless_told(file, "read_at", &read.data, &model.bytes[start..end]).await?;
            } else {
                model.assert_written("read_at", offset, &read.data);
            }
        }
        72..80 => {
            let mut stream = file.stream(offset as u64);
            let mut all = Vec::new();
            while let Some(data) = stream.next().await.map_err(|error| ("stream", error))? {
                all.extend_from_slice(&data);
            }
            if sure {
                let start = offset.min(model.bytes.len());
                same_unless_told(file, "stream", &all, &model.bytes[start..]).await?;
            } else {
                model.assert_written("stream", offset, &all);
            }
        }
        80..85 => {
            let set = file.set_len(offset as u64).await;
            let sizes = double.sizes("file");
            model.saw(&sizes);
            // A SETATTR whose reply was lost is sent again, and may be refused then: it fails and was
            // executed all the same.
            if set.is_ok() || sizes.last() == Some(&offset) {
                model.bytes.resize(offset, 0);
            }
            set.map_err(|error| ("set_len", error))?;
            model.ends_by(offset);
        }
        85..95 => {
            for file in files {
                file.sync().await.map_err(|error| ("sync", error))?;
            }
            same("sync", &double.stable("file").unwrap(), &model.bytes);
            model.saw(&double.sizes("file"));
            model.edges.clear();
        }
        _ => {
            let size = file.stat().await.map_err(|error| ("stat", error))?.size;
            if sure {
                assert_eq!(size, model.bytes.len() as u64, "stat knows another size");
            }
        }
    }
    Ok(())
}

/// Appends `data`. When that fails, some of it may have been taken all the same.
async fn append(
    double: &Double,
    file: &File,
    data: Vec<u8>,
    model: &mut Model,
    sure: bool,
) -> Result<(), (&'static str, ClientError)> {
    let before = double.sizes("file");
    model.saw(&before);
    let appended = file.append(data.clone()).await;
    let sizes = double.sizes("file");
    let ends = model.ends(&sizes[before.len() - 1..]);
    model.saw(&sizes);
    match appended {
        Ok(end) => {
            let end = usize::try_from(end).unwrap();
            let is_end = ends.contains(&end) && (!sure || end == model.bytes.len());
            assert!(is_end, "append at {end}, elsewhere than at the end");
            model.ends_by(end);
            model.may_take(end, &data);
            model.write(end, &data);
            Ok(())
        }
        Err(error) => {
            ends.iter().for_each(|&end| model.may_take(end, &data));
            Err(("append", error))
        }
    }
}

/// What was read is what was accepted, or some of that was given up (a server that restarts again and
/// again) and the next sync says so.
async fn same_unless_told(
    file: &File,
    what: &'static str,
    got: &[u8],
    expected: &[u8],
) -> Result<(), (&'static str, ClientError)> {
    if got != expected {
        file.sync().await.map_err(|error| (what, error))?;
    }
    same(what, got, expected);
    Ok(())
}

/// Says where two contents part, not all of them.
fn same(what: &str, got: &[u8], expected: &[u8]) {
    if got != expected {
        let at = got.iter().zip(expected).position(|(a, b)| a != b);
        let (got, expected) = (got.len(), expected.len());
        panic!("after {what}: {got} bytes, expected {expected}, the first other one at {at:?}");
    }
}

fn is_server_that_restarts_for_ever(errors: &[(&'static str, ClientError)]) -> bool {
    errors
        .iter()
        .all(|(_, error)| matches!(error, ClientError::VerifierKeepsChanging { .. }))
}

#[test]
fn what_a_url_says_of_files_is_said_of_each_as_it_is_opened() {
    for_seeds(1..2, async |seed| {
        let double = Double::start(seed).await;
        let (client, _) = Client::mount(&double.url("")).await.unwrap();
        let file = client.create(b"file", 0o644).await.unwrap();
        file.write_at(0, vec![7; FILE_BYTES]).await.unwrap();
        file.close().await.unwrap();
        let reads = || double.calls(Procedure::Read);
        assert_eq!(reads(), 0);
        let said = double.url("?hint=willneed");
        let (client, _) = Client::mount(&said).await.unwrap();
        let opened = client.open(b"file").await.unwrap();
        while reads() == 0 {
            // SLEEP: a poll rests between two looks.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let read = opened.read_at(0, FILE_BYTES).await.unwrap();
        assert!(read.data[..] == [7; FILE_BYTES]);
    });
}

#[test]
fn a_server_that_behaves() {
    for_seeds(0..60, async |seed| {
        let double = Double::start(seed).await;
        let mut chance = Chance::new(seed);
        let client = mounted(&double, &mut chance).await;
        let errors = operations(&double, &client, &mut chance, true).await;
        assert!(errors.is_empty(), "{errors:?}");
    });
}

/// Each harmless fault alone, often: the client gets over it without a word.
#[test]
fn one_harmless_fault_at_a_time() {
    for fault in HARMLESS {
        let happened = std::cell::Cell::new(0);
        for_seeds(100..112, async |seed| {
            let double = Double::start(seed).await;
            let mut chance = Chance::new(seed);
            let client = mounted(&double, &mut chance).await;
            let profile = Profile::only(fault, 12);
            let sure = !profile.loses();
            double.misbehave(profile);
            let errors = operations(&double, &client, &mut chance, sure).await;
            assert!(
                is_server_that_restarts_for_ever(&errors),
                "{fault:?}: {errors:?}"
            );
            happened.set(happened.get() + double.count(fault));
        });
        assert!(happened.get() > 0, "{fault:?} never happened");
    }
}

/// Each harmful fault alone: what close calls good is good, and errors are told.
#[test]
fn one_harmful_fault_at_a_time() {
    for fault in HARMFUL {
        let (happened, told) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        for_seeds(200..220, async |seed| {
            let double = Double::start(seed).await;
            let mut chance = Chance::new(seed);
            let client = mounted(&double, &mut chance).await;
            // Few calls are about names: the first of each run has to meet it in some run, by its seed.
            let often = if fault == Fault::NamesIo { 3 } else { 20 };
            double.misbehave(Profile::only(fault, often));
            let errors = operations(&double, &client, &mut chance, false).await;
            happened.set(happened.get() + double.count(fault));
            told.set(told.get() + errors.len());
        });
        assert!(happened.get() > 0, "{fault:?} never happened");
        assert!(told.get() > 0, "{fault:?} happened and was never told");
    }
}

#[test]
fn harmless_faults_together() {
    for_seeds(1000..1100, async |seed| {
        let double = Double::start(seed).await;
        let mut chance = Chance::new(seed);
        let client = mounted(&double, &mut chance).await;
        let profile = Profile::mixed(&mut chance, &HARMLESS);
        double.misbehave(profile.clone());
        let errors = operations(&double, &client, &mut chance, !profile.loses()).await;
        assert!(
            is_server_that_restarts_for_ever(&errors),
            "{profile:?}: {errors:?}"
        );
    });
}

#[test]
fn all_faults_together() {
    let all = [&HARMLESS[..], &HARMFUL[..]].concat();
    for_seeds(2000..2100, async |seed| {
        let double = Double::start(seed).await;
        let mut chance = Chance::new(seed);
        let client = mounted(&double, &mut chance).await;
        double.misbehave(Profile::mixed(&mut chance, &all));
        operations(&double, &client, &mut chance, false).await;
    });
}

/// Names made, found, renamed and removed: what was said to be done is done, once.
#[test]
fn names_under_harmless_faults() {
    for_seeds(3000..3060, async |seed| {
        let double = Double::start(seed).await;
        let mut chance = Chance::new(seed);
        let client = mounted(&double, &mut chance).await;
        double.misbehave(Profile::mixed(&mut chance, &HARMLESS));
        let result = names(&client).await;
        assert!(result.is_ok(), "{result:?}");
        let listed = double.with(|store| {
            let root = store.dir(double::store::ROOT).unwrap();
            root.keys()
                .map(|name| String::from_utf8(name.clone()).unwrap())
                .collect::<Vec<_>>()
        });
        assert_eq!(listed, ["dir", "renamed"]);
        assert!(double.with(|store| store.at("dir/link").is_some()));
    });
}

async fn names(client: &Client) -> Result<(), ClientError> {
    client.mkdir(b"dir", 0o755).await?;
    for number in 0..20 {
        let name = format!("dir/file{number}").into_bytes();
        client.create_new(&name, 0o644).await?.close().await?;
    }
    client.symlink(b"dir/link", b"file3").await?;
    client.link(b"dir/file1", b"again").await?;
    client.rename(b"again", b"renamed").await?;
    client.mkdir(b"gone", 0o755).await?;
    client.rmdir(b"gone").await?;
    let dir = client.resolve(b"dir").await?.handle;
    let listed = client.read_dir(&dir, true).await?;
    assert_eq!(listed.len(), 21, "a listing misses or repeats names");
    assert!(listed.iter().all(|entry| entry.attributes.is_some()));
    for number in 0..20 {
        client
            .remove(format!("dir/file{number}").as_bytes())
            .await?;
    }
    assert!(client.stat(b"dir/file1").await.is_err());
    Ok(())
}
