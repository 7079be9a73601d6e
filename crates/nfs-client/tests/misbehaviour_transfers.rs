//! Copies to and from a server that misbehaves: what was said to be copied is there, whole and on stable
//! storage; else there was an error.
//!
//! All runs of a test go at once, in real time, so that their pauses cost little. A failure names the
//! seed of its run.

mod double;

use std::path::Path;
use std::time::Duration;

use nfs_client::transfer::{self, Figures, Options, Place, TransferError, Watch};
use nfs_client::{MountOptions, transfer::Existing};
use tokio::task::JoinSet;
use tokio::time::timeout;

use double::Double;
use double::chance::Chance;
use double::faults::{Fault, HARMFUL, HARMLESS, Profile};

/// Longer than any of these copies can take, on a busy machine too.
const HANG: Duration = Duration::from_secs(900);

/// The number of runs, each with a seed of its own.
const RUNS: u64 = 40;

/// What became of all runs of a test.
#[derive(Default)]
struct Sum {
    good: u32,
    failed: u32,
}

async fn for_seeds<F>(first: u64, run: impl Fn(u64) -> F) -> Sum
where
    F: Future<Output = Result<Figures, TransferError>> + Send + 'static,
{
    let mut runs = JoinSet::new();
    for seed in first..first + RUNS {
        let run = run(seed);
        runs.spawn(async move {
            timeout(HANG, run)
                .await
                .unwrap_or_else(|_| panic!("seed {seed} hangs"))
        });
    }
    let mut sum = Sum::default();
    while let Some(ended) = runs.join_next().await {
        match ended.unwrap() {
            Ok(figures) if figures.failed == 0 => sum.good += 1,
            _ => sum.failed += 1,
        }
    }
    sum
}

/// Faults without those whose pauses take long in real time.
fn profile(chance: &mut Chance, faults: &[Fault]) -> Profile {
    let mut profile = Profile::mixed(chance, faults);
    for (fault, often) in &mut profile.faults {
        // Trees make many calls; and what is said about nothing costs seconds each time.
        *often *= if matches!(fault, Fault::Jukebox | Fault::NoReply) {
            10
        } else {
            3
        };
    }
    profile
}

async fn remote(double: &Double, path: &str) -> Place {
    let mut options = MountOptions::default();
    options.connect.retry_after = Duration::from_millis(500);
    // Not what ends a call where forty copies share a busy processor.
    options.connect.call_timeout = Duration::from_secs(600);
    options.windows.memory_bytes_max = 200_000;
    Place::mount(&double.url(path), &options).await.unwrap()
}

async fn copy(seed: u64, from: &Place, to: &Place) -> Result<Figures, TransferError> {
    let options = Options {
        recursive: true,
        jobs: 4,
        existing: if seed.is_multiple_of(3) {
            Existing::Resume
        } else {
            Existing::Replace
        },
        ..Options::default()
    };
    transfer::copy(std::slice::from_ref(from), to, &options, &Watch::default()).await
}

/// Small files, large ones, an empty one, directories.
fn make_tree(root: &Path, chance: &mut Chance) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for dir in ["", "a", "a/b", "empty"] {
        std::fs::create_dir_all(root.join("tree").join(dir)).unwrap();
    }
    for number in 0..12 {
        let dir = ["", "a/", "a/b/"][number % 3];
        let len = [0, 100, 8192, 60_000][number % 4] + chance.below(50);
        let bytes = chance.bytes(if number == 0 { 0 } else { len });
        let name = format!("tree/{dir}file{number}");
        std::fs::write(root.join(&name), &bytes).unwrap();
        files.push((name, bytes));
    }
    files
}

fn assert_same(seed: u64, name: &str, got: Option<Vec<u8>>, expected: &[u8]) {
    let got = got.unwrap_or_else(|| panic!("seed {seed}: {name} is missing"));
    let at = got.iter().zip(expected).position(|(a, b)| a != b);
    let (len, wanted) = (got.len(), expected.len());
    assert!(
        got == expected,
        "seed {seed}: {name}: {len} bytes of {wanted}, first other {at:?}"
    );
}

/// Up: all of a tree, or an error.
async fn upload(seed: u64, faults: Vec<Fault>) -> Result<Figures, TransferError> {
    let scratch = tempfile::tempdir().unwrap();
    let mut chance = Chance::new(seed);
    let files = make_tree(scratch.path(), &mut chance);
    let double = Double::start(seed).await;
    let to = remote(&double, "").await;
    double.misbehave(profile(&mut chance, &faults));
    let figures = copy(seed, &Place::local(scratch.path().join("tree")), &to).await?;
    if figures.failed == 0 {
        for (name, bytes) in &files {
            assert_same(seed, name, double.stable(name), bytes);
        }
        assert!(
            double.with(|store| store.at("tree/empty").is_some()),
            "seed {seed}"
        );
    }
    Ok(figures)
}

/// Down again, what came up well.
async fn download(seed: u64, faults: Vec<Fault>) -> Result<Figures, TransferError> {
    let scratch = tempfile::tempdir().unwrap();
    let mut chance = Chance::new(seed);
    let files = make_tree(scratch.path(), &mut chance);
    let double = Double::start(seed).await;
    let up = copy(
        1,
        &Place::local(scratch.path().join("tree")),
        &remote(&double, "").await,
    )
    .await?;
    assert_eq!(up.failed, 0, "seed {seed}: a server that behaves");
    let from = remote(&double, "tree").await;
    let down = scratch.path().join("down");
    std::fs::create_dir(&down).unwrap();
    let mut profile = profile(&mut chance, &faults);
    // Of the harmful faults STALE alone can happen to a READ: every other run has it, and often, so that
    // a test that wants failures does not wait for luck.
    if faults.contains(&Fault::Stale) && seed.is_multiple_of(2) {
        profile.faults.push((Fault::Stale, 10));
    }
    double.misbehave(profile);
    let figures = copy(seed, &from, &Place::local(&down)).await?;
    if figures.failed == 0 {
        for (name, bytes) in &files {
            assert_same(seed, name, std::fs::read(down.join(name)).ok(), bytes);
        }
        assert!(down.join("tree/empty").is_dir(), "seed {seed}");
    }
    Ok(figures)
}

/// From one bad server to another.
async fn across(seed: u64, faults: Vec<Fault>) -> Result<Figures, TransferError> {
    let scratch = tempfile::tempdir().unwrap();
    let mut chance = Chance::new(seed);
    let files = make_tree(scratch.path(), &mut chance);
    let (from, to) = (Double::start(seed).await, Double::start(seed + 1).await);
    let local = Place::local(scratch.path().join("tree"));
    copy(1, &local, &remote(&from, "").await).await?;
    let (source, target) = (remote(&from, "tree").await, remote(&to, "").await);
    from.misbehave(profile(&mut chance, &faults));
    to.misbehave(profile(&mut chance, &faults));
    let figures = copy(seed, &source, &target).await?;
    if figures.failed == 0 {
        for (name, bytes) in &files {
            assert_same(seed, name, to.stable(name), bytes);
        }
    }
    Ok(figures)
}

fn all_faults() -> Vec<Fault> {
    [&HARMLESS[..], &HARMFUL[..]].concat()
}

#[tokio::test]
async fn up_and_down_over_harmless_faults() {
    let up = for_seeds(0, |seed| upload(seed, HARMLESS.to_vec())).await;
    let down = for_seeds(100, |seed| download(seed, HARMLESS.to_vec())).await;
    assert_eq!((up.failed, down.failed), (0, 0), "harmless faults did harm");
}

#[tokio::test]
async fn up_and_down_over_all_faults() {
    let up = for_seeds(200, |seed| upload(seed, all_faults())).await;
    let down = for_seeds(300, |seed| download(seed, all_faults())).await;
    assert!(
        up.good > 0 && up.failed > 0,
        "{} good, {} failed",
        up.good,
        up.failed
    );
    assert!(
        down.good > 0 && down.failed > 0,
        "{} good, {} failed",
        down.good,
        down.failed
    );
}

#[tokio::test]
async fn between_two_bad_servers() {
    let sum = for_seeds(400, |seed| across(seed, all_faults())).await;
    assert!(
        sum.good > 0 && sum.failed > 0,
        "{} good, {} failed",
        sum.good,
        sum.failed
    );
}

/// Two servers number their files alike; each file has two names.
#[tokio::test]
async fn files_of_two_servers_are_no_links_of_each_other() {
    let here = tempfile::tempdir().unwrap();
    let mut sources = Vec::new();
    for (seed, content) in [(1, "of the first server"), (2, "of the second")] {
        let double = Double::start(seed).await;
        let url = double.url("");
        let (client, _) = nfs_client::Client::mount(&url).await.unwrap();
        let dir = format!("server{seed}");
        client.mkdir(dir.as_bytes(), 0o755).await.unwrap();
        let path = |name: &str| format!("{dir}/{name}").into_bytes();
        let file = client.create_new(&path("a"), 0o644).await.unwrap();
        file.write_at(0, content).await.unwrap();
        file.close().await.unwrap();
        client.link(&path("a"), &path("b")).await.unwrap();
        let source = Place::mount(&double.url(&dir), &MountOptions::default()).await;
        sources.push(source.unwrap());
    }
    let options = Options {
        recursive: true,
        preserve: transfer::Preserve::ALL,
        ..Options::default()
    };
    let to = Place::local(here.path());
    let copied = transfer::copy(&sources, &to, &options, &Watch::default()).await;
    assert_eq!(copied.unwrap().failed, 0);
    let read = |path: &str| std::fs::read_to_string(here.path().join(path)).unwrap();
    for (dir, content) in [
        ("server1", "of the first server"),
        ("server2", "of the second"),
    ] {
        for name in ["a", "b"] {
            assert_eq!(read(&format!("{dir}/{name}")), content, "{dir}/{name}");
        }
        let name = here.path().join(dir).join("a");
        let links = std::os::unix::fs::MetadataExt::nlink(&std::fs::metadata(name).unwrap());
        assert_eq!(links, 2, "{dir}");
    }
}
