//! Times that 32 signed bits cannot say, and times that NFSv3 cannot: set, shown, compared and copied.

mod support;

use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::server::Served;

/// Seconds from 1970 to 2040-01-01 00:00:00 UTC, beyond what 31 bits hold.
const YEAR_2040: u64 = 2_208_988_800;
/// The last second that NFSv3 can tell, counted from 1970: 2106-02-07 06:28:15 UTC.
const LAST: u64 = u32::MAX as u64;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn make(path: &Path, changed: SystemTime) {
    let times = FileTimes::new().set_accessed(changed).set_modified(changed);
    File::create(path).unwrap().set_times(times).unwrap();
}

fn mtime(path: &Path) -> i64 {
    std::fs::metadata(path).unwrap().mtime()
}

#[test]
fn times_after_2038_are_set_and_shown() {
    let server = Served::new();
    server.lines(&["touch", "-d", "2040-01-01", "@far"]);
    assert_eq!(mtime(&server.path("far")), YEAR_2040.cast_signed());
    server.lines(&["touch", "-d", "2106-02-07T06:28:15", "@last"]);
    assert_eq!(mtime(&server.path("last")), LAST.cast_signed());
    server.lines(&["touch", "-d", "2039-01-01", "@near"]);
    let long = server.lines(&["ls", "-l", "@far"]);
    assert!(long[0].contains("2040-01-01 00:00"), "{long:?}");
    let stat = server.json(&["stat", "--json", "@last"]);
    assert_eq!(stat[0]["mtime"], "2106-02-07T06:28:15.000000000Z");
    let newer = server.lines(&["find", "@", "--type", "f", "--newer", &server.url("near")]);
    assert_eq!(newer, [server.url("far"), server.url("last")]);
    server.fails(&["touch", "-d", "2106-02-07T06:28:16", "@far"], 2, "2106");
    server.fails(&["touch", "-d", "1969-12-31", "@far"], 2, "1970");
}

/// What a server's own programs have set: shown as the nearest time, and no other one.
#[test]
fn times_that_nfs_cannot_say_are_shown_as_the_nearest() {
    let server = Served::new();
    make(&server.path("before"), UNIX_EPOCH - Duration::from_secs(1));
    make(&server.path("after"), at(LAST + 2));
    make(&server.path("now"), at(1_800_000_000));
    let shown = |name: &str| server.json(&["stat", "--json", name])[0]["mtime"].clone();
    assert_eq!(shown("@before"), "1970-01-01T00:00:00.000000000Z");
    assert_eq!(shown("@after"), "2106-02-07T06:28:15.999999999Z");
    let newer = server.lines(&["find", "@", "--type", "f", "--newer", &server.url("now")]);
    assert_eq!(newer, [server.url("after")]);
}

#[test]
fn copies_keep_the_times_that_can_be_kept_and_say_what_cannot() {
    let server = Served::new();
    let here = tempfile::tempdir().unwrap();
    let (up, down) = (here.path().join("up"), here.path().join("down"));
    std::fs::create_dir(&up).unwrap();
    make(&up.join("far"), at(YEAR_2040));
    make(&up.join("epoch"), UNIX_EPOCH);
    let (from, to) = (up.to_str().unwrap(), down.to_str().unwrap());
    let ran = server.run(&["cp", "-a", from, "@up"]);
    assert_eq!((ran.code(), ran.errors().as_str()), (0, ""));
    server.lines(&["cp", "-a", "@up", to]);
    for name in ["far", "epoch"] {
        let expected = mtime(&up.join(name));
        assert_eq!(mtime(&server.path("up").join(name)), expected, "{name}");
        assert_eq!(mtime(&down.join(name)), expected, "{name}");
    }

    make(&up.join("before"), UNIX_EPOCH - Duration::from_secs(5));
    make(&up.join("after"), at(LAST + 5));
    let ran = server.run(&["cp", "-a", "--resume", from, "@again"]);
    assert_eq!(ran.code(), 0, "{}", ran.errors());
    let said = "the times of 2 files are before 1970 or after 2106";
    assert!(ran.errors().contains(said), "{}", ran.errors());
    assert_eq!(mtime(&server.path("again/before")), 0);
    assert_eq!(mtime(&server.path("again/after")), LAST.cast_signed());
    // Where times are not kept, nobody has to know.
    let ran = server.run(&["cp", "-r", from, "@plain"]);
    assert_eq!((ran.code(), ran.errors().as_str()), (0, ""));
    // To the copy that goes on, the nearest time is the source's.
    let done = server.json(&["cp", "-a", "-T", "--resume", "--json", from, "@again"]);
    let complete = done.iter().filter(|line| line["done"] == "complete");
    assert_eq!(complete.count(), 4, "{done:?}");
    let summary = done.iter().find_map(|line| line.get("summary")).unwrap();
    assert_eq!(summary["times_not_kept"], 2);
}
