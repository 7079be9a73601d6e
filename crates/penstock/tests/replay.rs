//! Recordings and their replays: a replayed recording makes the same calls, in the same order for each file.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bytes::Bytes;
use nfs_client::nfs_wire::nfs3::StableHow;
use nfs_client::{Client, Nfs3, NfsUrl};
use nfs_load::recording::{Call, End, Entry, Header, Kind, Reader, Writer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::server::Served;
use support::{penstock, text};

/// A `penstock trace record` that has begun.
struct Recorder(Child, PathBuf);

impl Recorder {
    fn begin(server: &Served, file: &Path) -> Self {
        let mut command = penstock();
        command.args(["trace", "record", "--json", "--state-dir"]);
        command.arg(server.path("../state")).arg(file);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        lines.read_line(&mut said).unwrap();
        assert_eq!(said, "recording; interrupt to end\n");
        Self(child, file.to_owned())
    }

    /// Ends it as Ctrl-C does; the calls that it has.
    fn end(self) -> Vec<Call> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::INT).unwrap();
        let ended = self.0.wait_with_output().unwrap();
        assert!(ended.status.success());
        let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let calls = calls(&self.1);
        assert_eq!(
            (&told["calls"], &told["lost"]),
            (&calls.len().into(), &0.into())
        );
        calls
    }
}

fn calls(file: &Path) -> Vec<Call> {
    let mut reader = Reader::new(File::open(file).unwrap()).unwrap();
    let mut calls = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        match entry {
            Entry::Call(call) => calls.push(call),
            Entry::Lost(lost) => panic!("{lost} calls lost"),
        }
    }
    calls.sort_by_key(|call| call.at_ns);
    calls
}

/// What one call of a file was: procedure, range, stable_how, bytes moved.
type Told = (&'static str, Option<(u64, u64)>, Option<u32>, Option<u64>);

/// The calls on files with data, for each file in their order.
fn by_file(calls: &[Call]) -> Vec<Vec<Told>> {
    let mut files: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
    for call in calls {
        let is_told = matches!(
            call.kind(),
            Kind::Read | Kind::Write | Kind::Commit | Kind::Getattr | Kind::Setattr | Kind::Access
        );
        if is_told && let Some(file) = call.on {
            let told = (call.name(), call.range, call.how, call.moved);
            files.entry(file).or_default().push(told);
        }
    }
    let mut files: Vec<Vec<Told>> = files.into_values().collect();
    files.retain(|told| told.iter().any(|(name, ..)| *name == "READ"));
    files.sort();
    files
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Two clients at work on three files: one that is there already, one that each makes.
async fn load(server: &Served) {
    let url: NfsUrl = server.url("").parse().unwrap();
    let (one, _) = Client::mount(&url).await.unwrap();
    let (other, _) = Client::mount(&url).await.unwrap();
    let root = one.resolve("/").await.unwrap().handle;
    let (nfs, beside) = (one.nfs().v3().unwrap(), other.nfs().v3().unwrap());
    let old = nfs.lookup(&root, b"old").await.unwrap().unwrap().object;
    tokio::join!(
        work(nfs, &root, b"first", 1),
        work(beside, &root, b"second", 2)
    );
    for place in [7_u64, 3, 90] {
        nfs.read(&old, place * 1000, 4096).await.unwrap().unwrap();
        beside.read(&old, place * 500, 100).await.unwrap().unwrap();
    }
    names(&one, &root).await;
    let missing = nfs.lookup(&root, b"nowhere").await.unwrap();
    assert!(missing.is_err());
    other.unmount().await.unwrap();
    one.unmount().await.unwrap();
}

/// The most bytes of a part of the listing, by which its calls are known.
const LISTED_BYTES: u32 = 2048;

/// Links that are made, read, given names more and removed, and a directory that is listed in parts.
async fn names(client: &Client, root: &nfs_client::nfs_wire::nfs3::FileHandle) {
    let none = nfs_client::nfs_wire::nfs3::Sattr3::default();
    let many = client.mkdir_in(root, b"many", &none).await.unwrap().handle;
    let mut first = None;
    for number in 0..40 {
        let how = nfs_client::nfs_wire::nfs3::CreateHow::Guarded(none);
        let name = format!("file-{number}");
        let made = client
            .create_in(&many, name.as_bytes(), &how)
            .await
            .unwrap();
        first.get_or_insert(made.handle);
    }
    let link = client
        .symlink_in(&many, b"link", b"file-0", &none)
        .await
        .unwrap();
    client.readlink(&link.handle).await.unwrap();
    client
        .link_in(&first.unwrap(), root, b"other")
        .await
        .unwrap();
    client.remove_in(root, b"other").await.unwrap();
    let nfs = client.nfs().v3().unwrap();
    let (mut cookie, mut verifier) = (0, [0; 8]);
    loop {
        let listed = nfs.readdirplus(&many, cookie, verifier, LISTED_BYTES, LISTED_BYTES);
        let listed = listed.await.unwrap().unwrap();
        (cookie, verifier) = (listed.entries.last().unwrap().cookie, listed.cookieverf);
        if listed.eof {
            break;
        }
    }
}

/// Of each directory that was listed in parts the cookies that were asked with.
fn listings(calls: &[Call]) -> Vec<Vec<u64>> {
    let mut listings: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.kind() == Kind::Readdir) {
        if let Some((cookie, most)) = call.range
            && most == u64::from(LISTED_BYTES)
        {
            listings.entry(call.on.unwrap()).or_default().push(cookie);
        }
    }
    listings.into_values().collect()
}

fn links(calls: &[Call]) -> [usize; 3] {
    let count = |kind| calls.iter().filter(|call| call.kind() == kind).count();
    [Kind::Symlink, Kind::Readlink, Kind::Link].map(count)
}

async fn work(nfs: &Nfs3, root: &nfs_client::nfs_wire::nfs3::FileHandle, name: &[u8], seed: u64) {
    let how = nfs_client::nfs_wire::nfs3::CreateHow::Unchecked(Default::default());
    let made = nfs.create(root, name, &how).await.unwrap().unwrap();
    let file = made.obj.unwrap();
    let hows = [
        StableHow::Unstable,
        StableHow::FileSync,
        StableHow::DataSync,
    ];
    for (number, how) in (0_u64..).zip(hows.into_iter().cycle().take(9)) {
        let data = Bytes::from(vec![7; 4096 + usize::try_from(number * seed).unwrap()]);
        let offset = number * 8192 * seed;
        nfs.write(&file, offset, how, data).await.unwrap().unwrap();
        nfs.read(&file, offset, 1000).await.unwrap().unwrap();
    }
    nfs.commit(&file, 8192, 4096).await.unwrap().unwrap();
    nfs.getattr(&file).await.unwrap().unwrap();
    nfs.read(&file, 0, 65536).await.unwrap().unwrap();
}

#[test]
fn a_replayed_recording_makes_the_same_calls_in_the_same_order_for_each_file() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("load.rec");
    let server = Served::serving(&["3"]);
    fs::write(server.path("old"), vec![9; 100_000]).unwrap();
    let recorder = Recorder::begin(&server, &file);
    runtime().block_on(load(&server));
    let recorded = recorder.end();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(by_file(&recorded).len(), 3);
    assert_eq!(links(&recorded), [1; 3]);
    let parts = listings(&recorded)[0].len();
    assert!(parts > 2, "{parts}");
    let connections: BTreeSet<u32> = recorded.iter().map(|call| call.connection).collect();
    assert_eq!(connections.len(), 2);
    for speed in ["1", "max"] {
        let target = Served::serving(&["3"]);
        let again = scratch.path().join(format!("again-{speed}.rec"));
        let mut command = penstock();
        command.args([
            "bench",
            "replay",
            "--json",
            "--repetitions=1",
            "--speed",
            speed,
        ]);
        command.args(["--server", &target.url("")]).arg(&file);
        let recorder = Recorder::begin(&target, &again);
        let ended = command.output().unwrap();
        let replayed = recorder.end();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        // What makes the files comes before, with WRITEs that the recording does not have; and all of it comes twice, as
        // the first time is thrown away.
        let mut expected: Vec<_> = by_file(&recorded);
        expected.extend(by_file(&recorded));
        expected.sort();
        let mut played = by_file(&replayed);
        for calls in &mut played {
            let is_made =
                |call: &Told| *call == ("WRITE", Some((0, 94_096)), Some(0), Some(94_096));
            if calls.first().is_some_and(is_made) {
                calls.drain(..2);
            }
        }
        played.sort();
        assert_eq!(played, expected, "at speed {speed}");
        assert_eq!(links(&replayed), [2; 3]);
        let listed = listings(&replayed);
        assert_eq!(listed.len(), 2);
        for cookies in listed {
            let different: BTreeSet<_> = cookies.iter().collect();
            assert_eq!((cookies[0], different.len()), (0, parts), "{cookies:?}");
        }
        let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(report["replay"]["left_out"], serde_json::json!({}));
        let rows = report["rows"].as_array().unwrap();
        let all = rows.iter().filter(|row| row["step"] == "all calls");
        let calls: Vec<_> = all.map(|row| &row["samples"][0]["calls"]).collect();
        assert_eq!(calls[0], calls[1], "as many as recorded");
        assert_eq!(report["replay"]["refused"], serde_json::json!({}));
        assert_eq!(fs::read_dir(target.path("")).unwrap().count(), 0);
    }
}

#[test]
fn a_load_of_nfsv4_is_replayed_in_our_modes_with_a_report() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("load.rec");
    let server = Served::serving(&["4.2"]);
    let recorder = Recorder::begin(&server, &file);
    let source = scratch.path().join("source");
    fs::write(&source, vec![5; 300_000]).unwrap();
    let url = |path: &str| server.url_with(path, "version=4.2");
    for arguments in [
        vec!["cp", source.to_str().unwrap(), &url("copy")],
        vec!["stat", &url("copy")],
        vec!["cat", &url("copy")],
        vec!["mv", &url("copy"), &url("moved")],
        vec!["rm", &url("moved")],
    ] {
        let ended = penstock().args(arguments).output().unwrap();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
    }
    recorder.end();
    let mut command = penstock();
    command.args([
        "bench",
        "replay",
        "--self=buffered,direct",
        "--repetitions=1",
    ]);
    command.arg("--directory").arg(scratch.path());
    let out = scratch.path().join("report");
    command.arg("--report").arg(&out).arg(&file);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let shown = text(&ended.stdout);
    assert!(
        shown.contains("with penstock direct") && shown.contains("as recorded"),
        "{shown}"
    );
    assert!(!shown.contains("Refused"), "{shown}");
    assert!(
        !shown.contains("Not measured") && shown.contains("of the generator's"),
        "{shown}"
    );
    for name in ["report.html", "report.md", "report.json"] {
        let page = fs::read_to_string(out.join(name)).unwrap();
        assert!(page.contains("penstock direct"), "{name}");
    }
    let report = fs::read(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let ceiling = report["ceiling"].as_array().unwrap();
    let steps: Vec<_> = ceiling
        .iter()
        .map(|one| one["step"].as_str().unwrap())
        .collect();
    assert_eq!(
        steps,
        ["all calls", "READ", "WRITE", "names and attributes"]
    );
    // The generator makes the same calls against the responder, and they move as much.
    for ceiling in ceiling {
        let rows = report["rows"].as_array().unwrap().iter();
        let mut of_direct =
            rows.filter(|row| row["target"] == "penstock direct" && row["step"] == ceiling["step"]);
        let sample = &of_direct.next().unwrap()["samples"][0];
        for figure in ["calls", "bytes"] {
            assert_eq!(sample[figure], ceiling["sample"][figure], "{ceiling}");
        }
    }
}

#[test]
fn a_recording_cannot_fill_a_server() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("load.rec");
    let header = Header {
        began_ns: 0,
        server: "0".to_owned(),
    };
    let mut writer = Writer::begin(File::create(&file).unwrap(), &header, u64::MAX).unwrap();
    let far = Call {
        version: 3,
        number: 6,
        on: Some(1),
        range: Some((15 << 40, 4096)),
        moved: Some(4096),
        ..Call::default()
    };
    assert!(writer.call(&far).unwrap());
    writer.end(End::Asked).unwrap();
    let server = Served::serving(&["3"]);
    let mut command = penstock();
    command.args(["bench", "replay", "--server", &server.url("")]);
    let ended = command.arg(&file).output().unwrap();
    assert!(!ended.status.success());
    let said = text(&ended.stderr);
    assert!(said.contains("the server has room for"), "{said}");
    assert_eq!(fs::read_dir(server.path("")).unwrap().count(), 0);
}

#[test]
fn what_is_no_recording_or_no_target_is_refused_with_the_cure() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "not a recording at all").unwrap();
    let refused = |arguments: &[&str]| {
        let ended = penstock()
            .args(["bench", "replay"])
            .args(arguments)
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(2));
        text(&ended.stderr)
    };
    assert!(refused(&[]).contains("`penstock trace record`"));
    assert!(refused(&["--speed=0"]).contains("give 1 for"));
    let server = Served::serving(&["3"]);
    fs::remove_file(&file).unwrap();
    let recorder = Recorder::begin(&server, &file);
    let ended = penstock().args(["ls", &server.url("")]).output().unwrap();
    assert!(ended.status.success());
    recorder.end();
    assert!(refused(&["--local"]).contains("--self, --peer or --server"));
    let again = penstock()
        .args(["trace", "record", "--for=1s", "--state-dir"])
        .arg(server.path("../state"))
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(2), "a file that is there stays");
    assert!(text(&again.stderr).contains("--force"));
}
