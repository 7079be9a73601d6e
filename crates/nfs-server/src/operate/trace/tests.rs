use std::net::{IpAddr, Ipv4Addr};
use std::time::UNIX_EPOCH;

use super::*;
use crate::exports::ExportTable;
use crate::exports::config::{Config, ExportConfig, ServerConfig};
use crate::limits;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

fn call(xid: u32) -> CallId {
    CallId::new(xid, (CLIENT, 703), Instant::now())
}

/// The export of a handle that [`handle`] made.
fn export_of(handle: &[u8]) -> Option<u32> {
    let id = handle.get(4..8)?.try_into().ok()?;
    Some(u32::from_be_bytes(id))
}

/// A handle that says it is of the export `pseudo`.
fn handle(pseudo: &str) -> Vec<u8> {
    let mut bytes = vec![1, 1, 0, 0];
    bytes.extend_from_slice(&crate::exports::export_id(pseudo).to_be_bytes());
    bytes
}

fn trace() -> Arc<Trace> {
    let trace = Trace::new(export_of);
    let exports = ["/a", "/b"].map(|pseudo| ExportConfig::new("/srv", pseudo));
    let config = Config::from_flags(ServerConfig::default(), exports.to_vec());
    let table = ExportTable::new(&config).unwrap();
    trace.set_exports(table.exports().iter().map(AsRef::as_ref));
    trace
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn follow(trace: &Arc<Trace>, events: &[&str]) -> Follower {
    let request = FollowRequest {
        events: words(events),
        ..FollowRequest::default()
    };
    trace
        .follow(&request)
        .map_err(|error| panic!("{error}"))
        .unwrap()
}

/// All lines that wait for a follower now.
fn lines(follower: &mut Follower) -> Vec<TraceLine> {
    std::iter::from_fn(|| follower.at_once()).collect()
}

fn event(line: &TraceLine) -> &TraceEvent {
    match line {
        TraceLine::Event(event) => event,
        TraceLine::Lost { lost } => panic!("{lost} lost"),
    }
}

#[test]
fn an_event_says_what_the_kernel_says_and_who_called() {
    let trace = trace();
    let mut follower = follow(&trace, &["all"]);
    let (call, file) = (call(0x1234), handle("/b"));
    let about = About {
        call: &call,
        file: &file,
    };
    trace.start(Event::WriteStart, about, 47_008, 100);
    trace.segment(
        Io::Write,
        about,
        (47_008, 90),
        Mode::Buffered,
        Some(Reason::NoAlignedMiddle),
    );
    trace.error(Event::WriteErr, about, 47_008, "NFS3ERR_IO");
    trace.done(Event::WriteDone, about, 47_008, 0);
    let lines = lines(&mut follower);
    let shown: Vec<String> = lines
        .iter()
        .map(|line| line.to_string().split_once(' ').unwrap().1.to_owned())
        .collect();
    let fh_hash = event(&lines[0]).fh_hash.clone();
    let same = format!("xid=0x00001234 fh_hash={fh_hash} offset=47008");
    let from = "client=10.0.0.7:703 export=/b";
    let took = event(&lines[3]).took_us.unwrap();
    assert_eq!(
        shown,
        [
            format!("write_start   {same} len=100 {from}"),
            format!("write_vector  {same} len=90 mode=buffered fallback=no-aligned-middle {from}"),
            format!("write_err     {same} status=NFS3ERR_IO {from}"),
            format!("write_done    {same} len=0 took_us={took} {from}"),
        ]
    );
    let json = serde_json::to_value(&lines[1]).unwrap();
    assert_eq!(
        (&json["event"], &json["len"]),
        (&"write_vector".into(), &90.into())
    );
    assert!(json.get("status").is_none(), "{json}");
    let back: TraceLine = serde_json::from_value(json).unwrap();
    assert_eq!(back, lines[1]);
}

#[test]
fn what_nobody_listens_to_is_off() {
    let trace = trace();
    let on = |trace: &Trace| -> Vec<&str> {
        let all = Event::ALL.iter().filter(|event| trace.on(**event));
        all.map(|event| event.word()).collect()
    };
    assert!(on(&trace).is_empty());
    let first = follow(&trace, &["read_done", "write_done"]);
    let second = follow(&trace, &["write_done", "commit_done"]);
    assert_eq!(on(&trace), ["read_done", "write_done", "commit_done"]);
    drop(first);
    assert_eq!(on(&trace), ["write_done", "commit_done"]);
    trace.log_on(&words(&["read_start"])).unwrap();
    drop(second);
    assert_eq!(on(&trace), ["read_start"]);
    let status = trace.log_on(&words(&["read_err"])).unwrap();
    let logged = status.events.iter().filter(|event| event.log);
    assert_eq!(logged.count(), 2);
    trace.log_off(&words(&["read_start"])).unwrap();
    assert_eq!(on(&trace), ["read_err"]);
    trace.log_off(&[]).unwrap();
    assert!(on(&trace).is_empty());
}

#[test]
fn an_unknown_name_is_answered_with_the_right_ones() {
    let trace = trace();
    let refused = trace
        .log_on(&words(&["read_done", "read_dona"]))
        .unwrap_err();
    assert!(refused.starts_with("\"read_dona\" is no trace event; there are: read_start, "));
    assert!(refused.ends_with("commit_done, or all"), "{refused}");
    assert!(
        !trace.on(Event::ReadDone),
        "half of a wrong request was done"
    );
    assert_eq!(check_event("write_direct").unwrap(), "write_direct");
    assert_eq!(
        check_event("").unwrap_err().to_string(),
        refused.replace("read_dona", "")
    );
}

#[test]
fn only_calls_of_that_export_and_client_are_followed() {
    let trace = trace();
    let mut ours = trace
        .follow(&FollowRequest {
            events: words(&["read_done"]),
            export: Some("/a".to_owned()),
            // As a socket that takes both families names it.
            client: Some("::ffff:10.0.0.7".parse().unwrap()),
        })
        .map_err(|error| panic!("{error}"))
        .unwrap();
    let mut stranger = trace
        .follow(&FollowRequest {
            events: words(&["all"]),
            client: Some("10.0.0.8".parse().unwrap()),
            ..FollowRequest::default()
        })
        .map_err(|error| panic!("{error}"))
        .unwrap();
    for (xid, pseudo) in [(1, "/a"), (2, "/b")] {
        let (call, file) = (call(xid), handle(pseudo));
        let about = About {
            call: &call,
            file: &file,
        };
        trace.done(Event::ReadDone, about, 0, 1);
        trace.done(Event::WriteDone, about, 0, 1);
    }
    let seen = lines(&mut ours);
    assert_eq!(seen.len(), 1);
    assert_eq!(event(&seen[0]).xid, "0x00000001");
    assert!(lines(&mut stranger).is_empty());
    let refused = trace.follow(&FollowRequest {
        export: Some("/c".to_owned()),
        ..FollowRequest::default()
    });
    assert_eq!(
        refused.err().unwrap(),
        "no export is \"/c\"; served are: /a /b"
    );
}

#[test]
fn a_slow_reader_loses_events_and_is_told_where() {
    let trace = trace();
    let mut follower = follow(&trace, &["read_done"]);
    let file = handle("/a");
    let send = |xid| {
        let call = call(xid);
        let about = About {
            call: &call,
            file: &file,
        };
        trace.done(Event::ReadDone, about, 0, 1);
    };
    let room = limits::TRACE_QUEUE_EVENTS_MAX as u32;
    (0..room + 5).for_each(send);
    let first = follower.at_once().unwrap();
    assert_eq!(event(&first).xid, "0x00000000");
    send(room + 5);
    let lines = lines(&mut follower);
    assert_eq!(lines.len(), room as usize + 1);
    let (last, before) = lines.split_last().unwrap();
    assert_eq!(event(last).xid, format!("{:#010x}", room + 5));
    let (lost, before) = before.split_last().unwrap();
    assert_eq!(*lost, TraceLine::Lost { lost: 5 });
    assert_eq!(
        lost.to_string(),
        "5 events lost: they came faster than they were read"
    );
    for line in before {
        assert_eq!(event(line).event, "read_done");
    }
    assert_eq!((trace.lost(), trace.status().lost), (5, 5));
    // A loss after which nothing comes is told too.
    (0..room + 2).for_each(send);
    assert_eq!(
        self::lines(&mut follower).last(),
        Some(&TraceLine::Lost { lost: 2 })
    );
}

#[test]
fn followers_are_few() {
    let trace = trace();
    let followers: Vec<Follower> = (0..limits::TRACE_FOLLOWERS_MAX)
        .map(|_| follow(&trace, &["all"]))
        .collect();
    trace.log_on(&words(&["read_err"])).unwrap();
    let refused = trace.follow(&FollowRequest::default()).err().unwrap();
    assert!(refused.contains("end one of them"), "{refused}");
    drop(followers);
    drop(follow(&trace, &["all"]));
}

#[test]
fn the_log_thread_ends_with_the_log() {
    let trace = trace();
    trace.log_on(&words(&["all"])).unwrap();
    let queue_ends = {
        let listeners = trace.listeners.load();
        Arc::downgrade(&listeners[0])
    };
    trace.log_off(&words(&["all"])).unwrap();
    assert_eq!(
        queue_ends.strong_count(),
        0,
        "somebody still holds the queue"
    );
}

#[test]
fn the_end_waits_for_the_log_to_have_everything() {
    let trace = trace();
    trace.close();
    trace.log_on(&words(&["read_done"])).unwrap();
    let (call, file) = (call(1), handle("/a"));
    let about = About {
        call: &call,
        file: &file,
    };
    trace.done(Event::ReadDone, about, 0, 1);
    trace.close();
    assert!(!trace.on(Event::ReadDone));
    assert!(trace.status().events.iter().all(|event| !event.log));
}

/// A shard allocates nothing for an event, heard or not: what it hands on is plain data of a fixed size.
const _: () = {
    const fn is_plain<T: Copy + 'static>() {}
    is_plain::<Record>();
    assert!(size_of::<Record>() <= 192);
    assert!(align_of::<Wanted>() == 128);
};

#[test]
fn names_are_those_of_the_kernel() {
    let names: Vec<&str> = Event::ALL.iter().map(|event| event.word()).collect();
    // Ours are those of what only this server does, and `commit_err`.
    let kernel = "read_start read_vector read_direct read_splice read_ahead read_from_ahead read_io_done read_err read_done \
                  write_start write_opened write_direct write_vector write_io_done write_err write_done mode_change \
                  mode_would_change commit_start commit_err commit_done";
    assert_eq!(names.join(" "), kernel);
    for (number, event) in Event::ALL.iter().enumerate() {
        assert_eq!(*event as usize, number);
        assert!(Events::ALL.has(*event));
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    let cases = [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (951_868_799, "2000-02-29T23:59:59.000000Z"),
        (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
        (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
        (4_102_444_800, "2100-01-01T00:00:00.000000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
    ];
    for (seconds, expected) in cases {
        assert_eq!(
            line::time(UNIX_EPOCH + Duration::from_secs(seconds)),
            expected
        );
    }
    let before = UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(line::time(before), "1970-01-01T00:00:00.000000Z");
}

#[test]
fn handles_are_hashed_as_others_hash_them() {
    // The check value of this CRC.
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(b""), 0);
}
