use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream as BlockingStream;
use std::sync::Mutex;

use super::*;
use crate::exports::ExportTable;
use crate::exports::config::{Config, ExportConfig, ServerConfig};
use crate::operate::metrics::{Builder, EXPORTS};
use crate::operate::trace::{About, CallId, Event, Trace};

/// What the controls were told.
type Told = Arc<Mutex<Vec<String>>>;

fn controls(told: &Told) -> Controls {
    let note = |told: &Told, what: String| told.lock().unwrap().push(what);
    let [drained, levelled, changed, traced] = [(); 4].map(|()| Arc::clone(told));
    Controls {
        status: Box::new(|| Status {
            pid: 42,
            exports: 1,
            ..Status::default()
        }),
        metrics: Box::new(|| {
            let mut builder = Builder::default();
            builder.number(&EXPORTS, &[], 1);
            builder.build()
        }),
        exports: Box::new(|| {
            let exports = vec![ExportConfig::new("/srv", "/a")];
            let config = Config::from_flags(ServerConfig::default(), exports);
            let table = ExportTable::new(&config).unwrap();
            table
                .exports()
                .iter()
                .map(|export| ExportStatus::of(export))
                .collect()
        }),
        exports_add: Box::new(|order, asker| Err(format!("{} by {asker}", order.path.display()))),
        exports_remove: Box::new(|pseudo, _| {
            Ok(ExportsChanged {
                pseudo: pseudo.clone(),
                ..ExportsChanged::default()
            })
        }),
        clients: Box::new(|| {
            vec![ClientStatus {
                calls: 3,
                ..ClientStatus::default()
            }]
        }),
        block: Box::new(|order, _| {
            let net = order.net.clone();
            Ok(vec![BlockStatus {
                net,
                seconds_left: order.minutes.map(|minutes| minutes * 60),
                refused: 0,
            }])
        }),
        unblock: Box::new(|net, _| Err(format!("{net} is not blocked"))),
        disconnect: Box::new(|peer, _| Ok(peer.len())),
        held: Box::new(|query, _| match query {
            HeldQuery::Opens(page) => Ok(HeldAnswer::Opens(Listed {
                total: page.skip + 1,
                rows: vec![OpenRow {
                    file: "/a".to_owned(),
                    ..OpenRow::default()
                }],
            })),
            HeldQuery::Expire(whom) => Err(format!("no NFSv4 client has the id or name {whom}")),
            _ => Ok(HeldAnswer::Grace(GraceReport {
                waiting: 7,
                ..GraceReport::default()
            })),
        }),
        cache: Box::new(|query, asker| match query {
            CacheQuery::List(page) => Ok(CacheAnswer::Listed(Listed {
                total: page.skip + 1,
                rows: vec![CacheRow::default()],
            })),
            CacheQuery::Drop { target, .. } => Err(format!("{target:?} by {asker}")),
        }),
        verifier: Box::new(|order, _| {
            Ok(VerifierStatus {
                verifier: "00ff".to_owned(),
                changes: order.change.into(),
            })
        }),
        reload: Box::new(|| Err(ReloadError::Apply("p.toml:3: wrong; mend it".to_owned()))),
        drain: Box::new(move || note(&drained, "drain".to_owned())),
        log_level: Box::new(move |level| {
            note(&levelled, format!("{level:?}"));
            level.unwrap_or(LogLevel::Info)
        }),
        io: Box::new(|query, _| {
            let name = query.export.clone().ok_or("there are several")?;
            Ok(vec![IoState {
                export: name,
                ..IoState::default()
            }])
        }),
        io_set: Box::new(move |order, asker| {
            order.change()?;
            note(&changed, format!("{order:?} by {asker}"));
            Ok(IoChanged::default())
        }),
        io_why: Box::new(|query, _| {
            Ok(Why {
                op: query.op.clone(),
                ..Why::default()
            })
        }),
        trace: Box::new(move |change, _| {
            note(&traced, format!("{change:?}"));
            Ok(TraceStatus::default())
        }),
        follow_calls: Box::new(|_, _| Err("no calls here".to_owned())),
        record_calls: Box::new(|_, _| Err("no calls here".to_owned())),
        recorder: Box::new(|level, _| Ok(level.unwrap_or_default())),
        follow: Box::new(|_, _| Err("too many; end one".to_owned())),
        follow_audit: Box::new(|| Err("no export is audited".to_owned())),
    }
}

/// Runs `ask` on another thread against a served socket below `directory`.
async fn with_server<T: Send + 'static>(
    path: PathBuf,
    told: &Told,
    ask: impl FnOnce(PathBuf) -> T + Send + 'static,
) -> T {
    with_controls(path, controls(told), ask).await
}

/// Runs `ask` on another thread against a socket below `path` that is served with the test's own `controls`.
async fn with_controls<T: Send + 'static>(
    path: PathBuf,
    controls: Controls,
    ask: impl FnOnce(PathBuf) -> T + Send + 'static,
) -> T {
    let socket = ControlSocket::bind(&path).unwrap();
    let server = tokio::spawn(socket.serve(Arc::new(controls)));
    let answer = tokio::task::spawn_blocking(move || ask(path))
        .await
        .unwrap();
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    answer
}

#[tokio::test]
async fn every_command_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let told = Told::default();
    let path = directory.path().join("control.sock");
    with_server(path.clone(), &told, |path| {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let status: Status = request(&path, Command::Status).unwrap();
        assert_eq!((status.pid, status.state), (42, Listening::Serving));
        let exports: Vec<ExportStatus> = request(&path, Command::Exports).unwrap();
        assert_eq!(
            (exports[0].pseudo.as_str(), exports[0].rules.len()),
            ("/a", 2)
        );
        assert_eq!(exports[0].rules[0].squash, "root");
        let clients: Vec<ClientStatus> = request(&path, Command::Clients).unwrap();
        assert_eq!(clients[0].calls, 3);
        let order = BlockOrder {
            net: "10.0.0.1".to_owned(),
            minutes: Some(2),
        };
        let blocked: Vec<BlockStatus> = request(&path, Command::Block(order)).unwrap();
        assert_eq!(blocked[0].seconds_left, Some(120));
        let unblock = Command::Unblock("10.0.0.1".to_owned());
        let refused = request::<Vec<BlockStatus>>(&path, unblock).unwrap_err();
        assert!(refused.to_string().contains("10.0.0.1 is not blocked"));
        let disconnect = Command::Disconnect("::1".to_owned());
        assert_eq!(request::<usize>(&path, disconnect).unwrap(), 3);
        let held = |query| Command::Held(query);
        let grace: GraceReport = request(&path, held(HeldQuery::Grace)).unwrap();
        assert_eq!(grace.waiting, 7);
        let page = Page {
            skip: 4,
            ..Page::default()
        };
        let opens: Listed<OpenRow> = request(&path, held(HeldQuery::Opens(page))).unwrap();
        assert_eq!((opens.total, opens.rows[0].file.as_str()), (5, "/a"));
        let expire = held(HeldQuery::Expire("x".to_owned()));
        let refused = request::<Expired>(&path, expire).unwrap_err();
        assert!(refused.to_string().contains("name x"), "{refused}");
        let refused = request::<ReloadReport>(&path, Command::Reload).unwrap_err();
        assert_eq!(refused.to_string(), "p.toml:3: wrong; mend it");
        let change = Command::LogLevel(Some(LogLevel::Debug));
        let level: LogLevel = request(&path, change).unwrap();
        assert_eq!(level, LogLevel::Debug);
        let change = TraceChange::On(vec!["all".to_owned()]);
        request::<TraceStatus>(&path, Command::Trace(change)).unwrap();
        let nothing = |_| std::ops::ControlFlow::<()>::Continue(());
        let refused = follow(&path, FollowRequest::default(), || panic!("begun"), nothing);
        assert_eq!(refused.unwrap_err().to_string(), "too many; end one");
        request::<()>(&path, Command::Drain).unwrap();
    })
    .await;
    assert_eq!(
        *told.lock().unwrap(),
        ["Some(Debug)", "On([\"all\"])", "drain"]
    );
    assert!(!path.exists(), "the socket's file outlived the server");
}

#[tokio::test]
async fn how_bytes_travel_is_shown_changed_and_explained() {
    let directory = tempfile::tempdir().unwrap();
    let told = Told::default();
    with_server(directory.path().join("control.sock"), &told, |path| {
        let query = |export: Option<&str>| {
            let export = export.map(str::to_owned);
            request::<Vec<IoState>>(&path, Command::Io(IoQuery { export }))
        };
        assert_eq!(query(Some("/a")).unwrap()[0].export, "/a");
        assert_eq!(query(None).unwrap_err().to_string(), "there are several");
        let order = |write: &str, rules: &[&str]| {
            let order = IoOrder {
                write: Some(write.to_owned()),
                rules: Some(rules.iter().map(|rule| (*rule).to_owned()).collect()),
                ..IoOrder::default()
            };
            let changed = request::<IoChanged>(&path, Command::IoSet(order));
            changed.map_err(|error| error.to_string())
        };
        assert!(
            order("fast", &[])
                .unwrap_err()
                .contains("write: \"fast\" is no I/O mode")
        );
        assert!(
            order("2", &["mode=3"])
                .unwrap_err()
                .contains("add op = \"write\"")
        );
        let many = ["mode=direct"; limits::IO_RULES_PER_EXPORT_MAX + 1];
        assert!(order("2", &many).unwrap_err().contains("join some"));
        assert!(order("3", &["mode=direct"]).is_ok());
        let why = WhyQuery {
            file: "/a".to_owned(),
            op: "write".to_owned(),
            offset: 0,
            size: None,
            client: None,
            stable: "unstable".to_owned(),
            open: Some("read".to_owned()),
            deny: None,
        };
        let why: Why = request(&path, Command::IoWhy(why)).unwrap();
        assert_eq!(why.op, "write");
    })
    .await;
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "what was refused changed nothing: {told:?}");
    let by = format!(
        "by user {}, process {}",
        rustix::process::getuid().as_raw(),
        std::process::id()
    );
    assert!(told[0].ends_with(&by), "{told:?}");
}

#[tokio::test]
async fn a_path_longer_than_a_socket_address_works() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("x".repeat(100)).join("y".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let ask = |path: PathBuf| request::<Status>(&path, Command::Status).unwrap().pid;
    assert_eq!(
        with_server(deep.join("control.sock"), &Told::default(), ask).await,
        42
    );
}

/// Sends `bytes` and returns all that comes until the server closes.
fn say(path: &Path, bytes: &[u8]) -> String {
    let mut stream = BlockingStream::connect(path).unwrap();
    // The server may have closed already; what it said before is there to read all the same.
    let _ = stream.write_all(bytes);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn what_is_no_request_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    with_server(path, &Told::default(), |path| {
        let cases: [(&[u8], &str); 6] = [
            (
                b"{\"v\":1,\"command\":\"dance\"}\n",
                "unknown variant `dance`",
            ),
            (
                b"{\"v\":2,\"command\":\"status\"}\n",
                "speaks control protocol 1, not 2",
            ),
            (
                b"{\"v\":1,\"command\":{\"log-level\":\"loud\"}}\n",
                "is not a choice",
            ),
            (
                b"{\"v\":1,\"command\":\"status\",\"x\":1}\n",
                "unknown field `x`",
            ),
            (b"\xff\xfe\n", "not a request"),
            (b"{\"v\":1", "its line does not end"),
        ];
        for (bytes, expected) in cases {
            let answer = say(&path, bytes);
            assert!(answer.contains(expected), "{answer}");
            assert!(
                answer.starts_with("{\"error\":") || answer.contains("\"v\":1"),
                "{answer}"
            );
        }
        // Two requests on one connection, and none.
        let twice = b"{\"v\":1,\"command\":\"status\"}\n".repeat(2);
        assert_eq!(say(&path, &twice).lines().count(), 2);
        assert_eq!(say(&path, b""), "");
    })
    .await;
}

#[tokio::test]
async fn a_line_without_end_is_cut_off_at_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    with_server(path, &Told::default(), |path| {
        let mut stream = BlockingStream::connect(&path).unwrap();
        stream
            .write_all(&vec![b' '; limits::CONTROL_REQUEST_BYTES_MAX])
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("too long"), "{answer}");
    })
    .await;
}

#[test]
fn nobody_there_is_said_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let error = request::<Status>(&path, Command::Status).unwrap_err();
    assert!(matches!(error, ControlError::Connect { .. }));
    assert!(error.to_string().contains("is it running"));
}

/// Controls over a trace of its own; asking which events are on also makes some happen.
fn traced(trace: &Arc<Trace>, events: usize) -> Controls {
    let (changed, followed) = (Arc::clone(trace), Arc::clone(trace));
    Controls {
        trace: Box::new(move |_, _| {
            let call = CallId::new(7, ([10, 0, 0, 7].into(), 703), std::time::Instant::now());
            let about = About {
                call: &call,
                file: &[1],
            };
            for _ in 0..events {
                changed.done(Event::ReadDone, about, 4096, 100);
            }
            Ok(changed.status())
        }),
        follow: Box::new(move |request, _| followed.follow(request)),
        ..controls(&Told::default())
    }
}

fn followers(path: &Path) -> u64 {
    let status: TraceStatus = request(path, Command::Trace(TraceChange::List)).unwrap();
    status.events.iter().map(|event| event.followers).sum()
}

/// Asks until nobody follows any more: that a connection has ended is seen a moment after.
fn until_nobody_follows(path: &Path) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while followers(path) > 0 {
        assert!(std::time::Instant::now() < deadline, "events stay on");
    }
}

fn read_done() -> FollowRequest {
    FollowRequest {
        events: vec!["read_done".to_owned()],
        ..FollowRequest::default()
    }
}

#[tokio::test]
async fn a_follower_gets_events_until_it_has_enough() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let trace = Trace::new(|_| None);
    with_controls(path, traced(&trace, 1), |path| {
        let asking = path.clone();
        let begun = || assert_eq!(followers(&asking), 1);
        let got = follow(&path, read_done(), begun, ControlFlow::Break);
        let Some(TraceLine::Event(event)) = got.unwrap() else {
            panic!("no event");
        };
        assert_eq!(
            (event.event.as_str(), event.xid.as_str()),
            ("read_done", "0x00000007")
        );
        assert_eq!((event.offset, event.len), (4096, Some(100)));
        until_nobody_follows(&path);
    })
    .await;
    assert!(!trace.on(Event::ReadDone));
}

#[tokio::test]
async fn a_follower_that_goes_without_a_word_or_speaks_again_is_followed_by_silence() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let trace = Trace::new(|_| None);
    with_controls(path, traced(&trace, 1), |path| {
        let follow = b"{\"v\":1,\"command\":{\"trace-follow\":{\"events\":[\"read_done\"]}}}\n";
        let begin = || {
            let mut stream = BlockingStream::connect(&path).unwrap();
            stream.write_all(follow).unwrap();
            let mut answer = [0; 18];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"{\"v\":1,\"ok\":null}\n");
            assert_eq!(followers(&path), 1);
            stream
        };
        drop(begin());
        until_nobody_follows(&path);
        begin().write_all(b"\n").unwrap();
        until_nobody_follows(&path);
        let half = begin();
        half.shutdown(std::net::Shutdown::Write).unwrap();
        until_nobody_follows(&path);
    })
    .await;
}

#[tokio::test]
async fn a_follower_that_does_not_read_holds_nobody_up_and_loses_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let trace = Trace::new(|_| None);
    with_controls(path, traced(&trace, 1000), |path| {
        let asking = path.clone();
        // While nothing is read: more than the queue and both sockets' buffers hold.
        let begun = || {
            let mut lost = 0;
            while lost < 100 {
                let status: TraceStatus =
                    request(&asking, Command::Trace(TraceChange::List)).unwrap();
                lost = status.lost;
            }
        };
        let until_lost = |line| match line {
            TraceLine::Lost { lost } => ControlFlow::Break(lost),
            TraceLine::Event(_) => ControlFlow::Continue(()),
        };
        let lost = follow(&path, read_done(), begun, until_lost).unwrap();
        assert!(lost.unwrap() >= 100);
    })
    .await;
    assert!(trace.lost() >= 100);
}

#[test]
fn the_end_of_the_server_ends_a_follower() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let socket = {
        let _on_it = runtime.enter();
        ControlSocket::bind(&path).unwrap()
    };
    let server = std::thread::spawn(move || {
        let controls = Arc::new(traced(&Trace::new(|_| None), 1));
        runtime.block_on(async {
            let serving = tokio::spawn(socket.serve(controls));
            ended.await.unwrap();
            serving.abort();
        });
    });
    let begun = || end.send(()).unwrap();
    let outcome = follow(&path, read_done(), begun, |_| ControlFlow::Break(()));
    assert!(outcome.unwrap().is_none());
    server.join().unwrap();
}

/// Runs `ask` on another thread against a status socket below `path`.
async fn with_status_socket<T: Send + 'static>(
    path: PathBuf,
    group: Option<u32>,
    told: &Told,
    ask: impl FnOnce(PathBuf) -> T + Send + 'static,
) -> T {
    let socket = ControlSocket::bind_status(&path, group).unwrap();
    let server = tokio::spawn(socket.serve(Arc::new(controls(told))));
    let answer = tokio::task::spawn_blocking(move || ask(path))
        .await
        .unwrap();
    server.abort();
    answer
}

/// One command of each kind.
fn all_commands() -> Vec<Command> {
    let held = |query| Command::Held(query);
    let text = || "10.0.0.1".to_owned();
    vec![
        Command::Status,
        Command::Metrics,
        Command::Exports,
        Command::Clients,
        Command::Block(BlockOrder {
            net: text(),
            minutes: None,
        }),
        Command::Blocked,
        Command::Unblock(text()),
        Command::Disconnect(text()),
        held(HeldQuery::Grace),
        held(HeldQuery::EndGrace),
        held(HeldQuery::Clients(Page::default())),
        held(HeldQuery::Opens(Page::default())),
        held(HeldQuery::Locks(Page::default())),
        held(HeldQuery::Expire(text())),
        Command::Cache(CacheQuery::List(CachePage::default())),
        Command::Cache(CacheQuery::Drop {
            target: CacheTarget::Path(text()),
            pages: false,
        }),
        Command::Verifier(VerifierOrder { change: false }),
        Command::Verifier(VerifierOrder { change: true }),
        Command::Reload,
        Command::Drain,
        Command::LogLevel(Some(LogLevel::Debug)),
        Command::Io(IoQuery {
            export: Some(text()),
        }),
        Command::IoSet(IoOrder::default()),
        Command::IoWhy(WhyQuery {
            file: text(),
            op: "read".to_owned(),
            offset: 0,
            size: None,
            client: None,
            stable: "unstable".to_owned(),
            open: None,
            deny: None,
        }),
        Command::Trace(TraceChange::On(vec!["all".to_owned()])),
        Command::Trace(TraceChange::Off(Vec::new())),
        Command::Trace(TraceChange::List),
        Command::Recorder(Some(RecorderLevel::Off)),
        Command::TraceFollow(FollowRequest::default()),
        Command::CallsFollow(CallQuery::default()),
        Command::CallsRecord(RecordingQuery::default()),
        Command::AuditFollow,
    ]
}

#[tokio::test]
async fn the_status_socket_shows_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let told = Told::default();
    let path = directory.path().join("status.sock");
    with_status_socket(path, None, &told, |path| {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let (mut shown, mut refused) = (0, 0);
        for command in all_commands() {
            let looks = command.only_looks();
            match request::<serde_json::Value>(&path, command.clone()) {
                Err(ControlError::ReadOnly(_)) if !looks => refused += 1,
                Ok(_) if looks => shown += 1,
                other => panic!("{command:?}: {other:?}"),
            }
        }
        assert_eq!((shown, refused), (10, 22));
    })
    .await;
    let told: Vec<String> = told.lock().unwrap().clone();
    let listed = format!("{:?}", TraceChange::List);
    assert_eq!(told, [listed], "nothing else reached the controls");
}

#[tokio::test]
async fn the_status_socket_is_for_its_group() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("status.sock");
    let group = rustix::process::getegid().as_raw();
    let socket = ControlSocket::bind_status(&path, Some(group)).unwrap();
    let metadata = path.metadata().unwrap();
    let gid = std::os::unix::fs::MetadataExt::gid(&metadata);
    assert_eq!((metadata.permissions().mode() & 0o777, gid), (0o660, group));
    drop(socket);
    assert!(!path.exists());
}
