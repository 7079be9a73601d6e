//! Transfers over NFSv4 in whose middle the server is killed and started again.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use support::copy::noise;
use support::penstock;
use support::server::Served;

const MIB: u64 = 1 << 20;
const LEN: u64 = 96 * MIB;

/// Waits until `path` is at least `len` bytes long; false if the process ends before.
fn reaches(path: &Path, len: u64, child: &mut Child) -> bool {
    while fs::metadata(path).map_or(0, |metadata| metadata.len()) < len {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn a_copy_goes_on_where_the_server_was_killed() {
    let mut server = Served::serving(&["4.1", "4.2"]);
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("source");
    let content = noise(3, usize::try_from(LEN).unwrap());
    fs::write(&source, &content).unwrap();
    for version in ["4.1", "4.2"] {
        let name = format!("file{version}");
        let url = format!("{}?version={version}", server.url(&name));
        let down = here.path().join(&name);
        let ways = [
            (source.as_os_str(), url.as_ref(), server.path(&name)),
            (url.as_ref(), down.as_os_str(), down.clone()),
        ];
        for (from, to, result) in ways {
            let mut command = penstock();
            // Slow enough for both kills to fall into it.
            command.args(["cp", "--limit=48MiB"]).arg(from).arg(to);
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            let mut kills = 0;
            for at in [LEN / 4, LEN / 2] {
                if reaches(&result, at, &mut child) {
                    server.kill_and_restart();
                    kills += 1;
                }
            }
            let ended = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(0), "{from:?}: {errors}");
            assert_eq!(kills, 2, "the copy was over too soon");
            assert!(fs::read(&result).unwrap() == content, "{to:?}");
        }
    }
    let held = server.ctl(&["clients", "nfs4", "--json"]);
    assert!(held.contains("\"total\":0"), "{held}");
}
