use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::sync::Mutex;

use super::*;
use crate::config::{Config, ExportConfig, ServerConfig};
use crate::exports::ExportTable;

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
        clients: Box::new(|| {
            vec![ClientStatus {
                calls: 3,
                ..ClientStatus::default()
            }]
        }),
        reload: Box::new(|| Err(ReloadError::Apply("p.toml:3: wrong; mend it".to_owned()))),
        drain: Box::new(move || note(&drained, "drain".to_owned())),
        log_level: Box::new(move |level| note(&levelled, format!("{level:?}"))),
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
        trace: Box::new(move |change| {
            note(&traced, format!("{change:?}"));
            Ok(TraceStatus::default())
        }),
        follow: Box::new(|_| Err("too many; end one".to_owned())),
    }
}

/// Runs `ask` on another thread against a served socket below `directory`.
async fn with_server<T: Send + 'static>(
    path: PathBuf,
    told: &Told,
    ask: impl FnOnce(PathBuf) -> T + Send + 'static,
) -> T {
    let socket = ControlSocket::bind(&path).unwrap();
    let server = tokio::spawn(socket.serve(Arc::new(controls(told))));
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
        let refused = request::<ReloadReport>(&path, Command::Reload).unwrap_err();
        assert_eq!(refused.to_string(), "p.toml:3: wrong; mend it");
        request::<()>(&path, Command::LogLevel(LogLevel::Debug)).unwrap();
        let change = TraceChange::On(vec!["all".to_owned()]);
        request::<TraceStatus>(&path, Command::Trace(change)).unwrap();
        let nothing = |_| std::ops::ControlFlow::<()>::Continue(());
        let refused = follow(&path, FollowRequest::default(), || panic!("begun"), nothing);
        assert_eq!(refused.unwrap_err().to_string(), "too many; end one");
        request::<()>(&path, Command::Drain).unwrap();
    })
    .await;
    assert_eq!(*told.lock().unwrap(), ["Debug", "On([\"all\"])", "drain"]);
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
            order("auto", &[])
                .unwrap_err()
                .contains("write: I/O mode \"auto\" comes later")
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
