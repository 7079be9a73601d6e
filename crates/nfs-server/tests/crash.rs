//! A panic on the thread of a shard leaves a file that says which call it was, and what the calls before it were.

mod support;

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use nfs_client::Identity;
use support::process::{Starting, as_server, copy_of_this_program};
use support::{block_on, connect, mount, ok, scratch};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A log that breaks at what the server says of the first use of an export: nothing that a client sends makes a server
/// panic, so that it has to be done from inside.
struct BrokenLog;

impl Subscriber for BrokenLog {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Breaks);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Breaks;

impl Visit for Breaks {
    fn record_debug(&mut self, _field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        assert!(!text.starts_with("first use of /"), "the log is broken");
    }
}

#[test]
fn be_the_server() {
    support::process::be_the_server(
        |_export| {},
        |server| {
            server.write_calls_at_crash().unwrap();
            tracing::subscriber::set_global_default(BrokenLog).unwrap();
        },
    );
}

#[test]
fn a_panic_on_a_shard_leaves_a_file_with_the_call_that_failed() {
    let (files, state) = (scratch(0o755), scratch(0o700));
    let (_of_program, program) = copy_of_this_program();
    let mut command = Command::new(program);
    let starting = Starting::new(as_server(&mut command, files.path(), state.path()));
    let (process, addr, _) = starting.until_it_listens();
    block_on(async {
        let client = connect(addr, Identity::current()).await;
        let root = mount(&client, b"/").await.unwrap();
        // A program built for tests goes on without the call, and answers it when it comes again over a new connection;
        // one that is installed ends (`panic = "abort"`).
        ok(client.getattr(&root).await);
        let mut told = None;
        support::wire::until("the file of the crash", || {
            told = crash_file(state.path());
            told.is_some()
        })
        .await;
        let told = told.unwrap();
        let (failed, others) = told.split_once("0 calls under way:").unwrap();
        let (why, failed) = failed.split_once("The call that failed:").unwrap();
        assert!(why.contains("the log is broken"), "{told}");
        assert!(failed.contains("NFSv3 GETATTR xid=0x"), "{told}");
        assert!(
            failed.contains("export=/ ") && failed.contains("wait_turn()"),
            "{told}"
        );
        assert!(others.contains("1 calls over, the latest first:"), "{told}");
        assert!(others.contains("MOUNT MNT xid=0x"), "{told}");
    });
    drop(process);
}

/// What the file of a crash says, once it is whole.
fn crash_file(state: &std::path::Path) -> Option<String> {
    let paths = std::fs::read_dir(state).unwrap();
    let paths: Vec<PathBuf> = paths.map(|entry| entry.unwrap().path()).collect();
    let is_it = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("crash-"))
    };
    let told = std::fs::read_to_string(paths.iter().find(is_it)?).unwrap();
    told.contains("calls over, the latest first")
        .then_some(told)
}
