//! Calls of the server to NFSv4 clients: who waits for a lock is told when it may be had, and who does not answer
//! costs nobody anything.

mod support;

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use nfs_io::fs::{self, OfdLock};
use nfs_server::exports::Versions;
use nfs_server::operate::control::{Asker, HeldQuery, Page};
use nfs_wire::encode_to_vec;
use nfs_wire::nfs4::ops::{
    BackchannelCtlArgs, CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CallbackSecParms4,
    ChannelDirFromClient4, ChannelDirFromServer4, CloseArgs, OPEN4_RESULT_MAY_NOTIFY_LOCK,
    SEQ4_STATUS_CB_PATH_DOWN, SEQ4_STATUS_CB_PATH_DOWN_SESSION,
};
use nfs_wire::nfs4::{ArgOp, CbResOp, FileHandle, LockType4, Nfsstat4, Stateid4};
use nfs_wire::rpc::{AcceptStat, ReplyHeader};
use support::called::{Call, Called, as_root, taken};
use support::v4::putfh;
use support::wire::until;
use support::{Served, block_on};

const DOWN: u32 = SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_CB_PATH_DOWN_SESSION;

/// Serves one file in all versions, to clients that may be silent for a minute.
fn serve() -> Served {
    serve_with_lease(60)
}

fn serve_with_lease(seconds: u32) -> Served {
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.server.lease_seconds = seconds;
    });
    std::fs::write(served.path().join("f"), "text").unwrap();
    served
}

/// [`serve`], with each address of this machine as a host of its own.
fn serve_each_address() -> Served {
    Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    })
}

/// Opens the file: its handle, the stateid, and the flags of the answer.
async fn open(client: &mut Called) -> ((FileHandle, Stateid4), u32) {
    client.open(b"f").await
}

/// A client that has the lock, with its stateid, and one that waits for it. Both have the file open.
struct Bed {
    holder: Called,
    held: Stateid4,
    of_holder: (FileHandle, Stateid4),
    waiter: Called,
    of_waiter: (FileHandle, Stateid4),
}

impl Bed {
    async fn new(served: &Served) -> Self {
        let mut holder = Called::new(served, b"holder").await;
        let mut waiter = Called::new(served, b"waiter").await;
        let (of_holder, _) = open(&mut holder).await;
        let (of_waiter, flags) = open(&mut waiter).await;
        assert_ne!(flags & OPEN4_RESULT_MAY_NOTIFY_LOCK, 0);
        let held = holder.lock(of_holder, b"of the holder").await.unwrap();
        let mut bed = Self {
            holder,
            held,
            of_holder,
            waiter,
            of_waiter,
        };
        assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
        bed
    }

    async fn ask(&mut self) -> Result<Stateid4, Nfsstat4> {
        self.waiter.lock(self.of_waiter, b"of the waiter").await
    }

    async fn unlock(&mut self) {
        self.holder.unlock(self.of_holder.0, self.held).await;
    }

    /// The holder has the lock again, and the waiter waits again.
    async fn again(&mut self) {
        let taken = self.ask().await.expect("promised, or free");
        self.waiter.unlock(self.of_waiter.0, taken).await;
        let held = self.holder.lock(self.of_holder, b"of the holder").await;
        self.held = held.expect("free");
        assert_eq!(self.ask().await, Err(Nfsstat4::Denied));
    }

    fn check(&self, call: &Call) {
        assert_eq!(call.file, self.of_waiter.0);
        assert_eq!(call.owner, b"of the waiter");
        assert_eq!(call.sequence.sessionid, self.waiter.session);
        assert_eq!((call.uid, call.sequence.slotid), (0, 0));
    }
}

/// The operator ends the client of this name.
async fn expire(served: &Served, name: &str) {
    let (server, name) = (Arc::clone(&served.server), name.to_owned());
    let ended = tokio::task::spawn_blocking(move || {
        let asker = Asker { uid: 0, pid: None };
        let clients = server.held(&HeldQuery::Clients(Page::default()), asker);
        let clients = serde_json::to_value(clients.unwrap()).unwrap();
        let rows = clients["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["name"] == name.as_str())
            .unwrap();
        let id = row["id"].as_str().unwrap().to_owned();
        server.held(&HeldQuery::Expire(id), asker).map(drop)
    });
    ended.await.unwrap().unwrap();
}

#[test]
fn who_waits_is_told_when_the_lock_goes() {
    for how in ["LOCKU", "CLOSE", "expiry", "the end of the lease"] {
        let served = match how {
            "the end of the lease" => serve_with_lease(5),
            _ => serve(),
        };
        block_on(async {
            let mut bed = Bed::new(&served).await;
            assert!(bed.waiter.was_not_called());
            match how {
                "LOCKU" => bed.unlock().await,
                "CLOSE" => {
                    let close = ArgOp::Close(CloseArgs {
                        seqid: 0,
                        open_stateid: bed.of_holder.1,
                    });
                    let ops = vec![putfh(&bed.of_holder.0), close];
                    assert_eq!(bed.holder.status(ops).await, Nfsstat4::Ok);
                }
                "expiry" => expire(&served, "holder").await,
                // The waiter calls as clients do that wait, and its own lease goes on.
                _ => {
                    until("the holder is expired", || {
                        served.counter("nfs4_clients_expired") > 0
                    })
                    .await;
                }
            }
            let call = bed.waiter.next_call().await;
            bed.check(&call);
            assert_eq!(call.sequence.sequenceid, 1, "{how}");
            bed.waiter.carry_out(&call).await;
            bed.ask().await.expect("it is promised");
            assert_eq!(bed.waiter.flags, 0);
            assert_eq!(served.counter("nfs4_callbacks"), 1);
            assert_eq!(served.counter("nfs4_callbacks_failed"), 0);
            assert_eq!(served.counter("stray_replies"), 0);
        });
    }
}

#[test]
fn calls_are_numbered_and_each_is_one_hint() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        for number in 1..=5 {
            bed.unlock().await;
            let call = bed.waiter.next_call().await;
            bed.check(&call);
            assert_eq!(call.sequence.sequenceid, number);
            // A client that knows no such operation has seen the call all the same.
            let results = match number {
                3 => vec![taken(&call), CbResOp::NotifyLock(Err(Nfsstat4::Notsupp))],
                _ => vec![taken(&call), CbResOp::NotifyLock(Ok(()))],
            };
            let status = [Nfsstat4::Ok, Nfsstat4::Notsupp][usize::from(number == 3)];
            bed.waiter.answer(&call, results, status).await;
            bed.again().await;
        }
        assert!(bed.waiter.was_not_called());
    });
}

#[test]
fn a_client_without_a_way_back_waits_by_itself() {
    let served = serve();
    block_on(async {
        let flag = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        let none: Vec<CallbackSecParms4<'_>> = vec![];
        let (mut unable, granted) = Called::with(&served, b"unable", flag, none).await;
        assert_eq!(granted, 0, "it accepts no credential");
        let dir = unable.bind(ChannelDirFromClient4::BackOrBoth).await;
        assert_eq!(dir, Err(Nfsstat4::Inval));
        let dir = unable.bind(ChannelDirFromClient4::ForeOrBoth).await;
        assert_eq!(dir, Ok(ChannelDirFromServer4::Fore));
        let (_, flags) = open(&mut unable).await;
        assert_eq!(flags & OPEN4_RESULT_MAY_NOTIFY_LOCK, 0);
        let (mut later, granted) = Called::with(&served, b"later", 0, vec![as_root()]).await;
        assert_eq!(granted, 0, "it did not ask");
        let (_, flags) = open(&mut later).await;
        assert_eq!(flags & OPEN4_RESULT_MAY_NOTIFY_LOCK, 0);
        assert_eq!(later.flags, 0, "nothing that was there is missing");
        let dir = later.bind(ChannelDirFromClient4::ForeOrBoth).await;
        assert_eq!(dir, Ok(ChannelDirFromServer4::Both));
        let (_, flags) = open(&mut later).await;
        assert_ne!(flags & OPEN4_RESULT_MAY_NOTIFY_LOCK, 0);
    });
}

#[test]
fn who_does_not_answer_is_told_that_the_way_is_gone_and_holds_up_nobody() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let mut third = Called::new(&served, b"third").await;
        let (of_third, _) = open(&mut third).await;
        let denied = third.lock(of_third, b"of the third").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        bed.unlock().await;
        let silent = bed.waiter.next_call().await;
        // The next in the queue is told though the first does not answer, and the connection's other work goes on.
        let call = third.next_call().await;
        assert_eq!(call.owner, b"of the third");
        third.carry_out(&call).await;
        let held = third.lock(of_third, b"of the third").await.unwrap();
        assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
        until("it is late", || {
            served.counter("nfs4_callbacks_failed") == 1
        })
        .await;
        while bed.waiter.flags != DOWN {
            assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
        }
        bed.waiter.carry_out(&silent).await;
        assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
        assert_eq!(served.counter("stray_replies"), 1, "too late");
        third.unlock(of_third.0, held).await;
        assert_eq!(third.flags, 0, "its own way is there");
        // Nobody is called over a way that is down.
        until("it cannot be told", || {
            served.counter("nfs4_waiters_untold") >= 1
        })
        .await;
        assert_eq!(served.counter("nfs4_callbacks"), 2);
        bed.again().await;
        let dir = bed.waiter.bind(ChannelDirFromClient4::ForeOrBoth).await;
        assert_eq!(dir, Ok(ChannelDirFromServer4::Both));
        assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
        assert_eq!(bed.waiter.flags, 0);
        bed.unlock().await;
        // The server does not know whether its first call was seen, and is told.
        let again = bed.waiter.next_call().await;
        assert_eq!(again.sequence.sequenceid, 1);
        let seen = vec![CbResOp::Sequence(Err(Nfsstat4::RetryUncachedRep))];
        let status = Nfsstat4::RetryUncachedRep;
        bed.waiter.answer(&again, seen, status).await;
        let next = bed.waiter.next_call().await;
        assert_eq!(next.sequence.sequenceid, 2);
        bed.check(&next);
        bed.waiter.carry_out(&next).await;
        bed.ask().await.expect("it is promised");
    });
}

#[test]
fn what_is_no_answer_ends_the_way_back_and_nothing_else() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        for round in 0..6 {
            bed.unlock().await;
            let call = bed.waiter.next_call().await;
            match round {
                0 => bed.waiter.answer_raw(&call, b"garbage").await,
                1 => bed.waiter.answer_raw(&call, &[0; 100_000]).await,
                2 => {
                    let of_another = Call {
                        sequence: nfs_wire::nfs4::CbSequenceArgs {
                            sequenceid: 77,
                            ..call.sequence.clone()
                        },
                        ..call.clone()
                    };
                    bed.waiter
                        .carry_out(&Call {
                            xid: call.xid,
                            ..of_another
                        })
                        .await;
                }
                3 => {
                    let refused = ReplyHeader::accepted(call.xid, AcceptStat::ProgUnavail);
                    bed.waiter.send(&encode_to_vec(&refused)).await;
                }
                4 => {
                    let status = Nfsstat4::Badsession;
                    let results = vec![CbResOp::Sequence(Err(status))];
                    bed.waiter.answer(&call, results, status).await;
                }
                _ => bed.waiter.answer_raw(&call, b"").await,
            }
            let failed = round + 1;
            until("it failed", || {
                served.counter("nfs4_callbacks_failed") == failed
            })
            .await;
            bed.again().await;
            while bed.waiter.flags != DOWN {
                assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
            }
            let dir = bed.waiter.bind(ChannelDirFromClient4::ForeOrBoth).await;
            assert_eq!(dir, Ok(ChannelDirFromServer4::Both));
            assert_eq!(bed.ask().await, Err(Nfsstat4::Denied));
            assert_eq!(bed.waiter.flags, 0);
        }
        assert_eq!(served.counter("stray_replies"), 0);
        assert_eq!(served.counter("nfs4_callbacks"), 6);
    });
}

#[test]
fn a_call_whose_connection_dies_goes_over_another_one() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let mut second = Called::connect(&served, bed.waiter.session).await;
        let dir = second.bind(ChannelDirFromClient4::BackOrBoth).await;
        assert_eq!(dir, Ok(ChannelDirFromServer4::Both));
        bed.unlock().await;
        let lost = second.next_call().await;
        drop(second);
        let call = bed.waiter.next_call().await;
        bed.check(&call);
        assert_eq!(call.sequence.sequenceid, lost.sequence.sequenceid);
        bed.waiter.carry_out(&call).await;
        bed.ask().await.expect("promised, or free");
        assert_eq!(bed.waiter.flags, 0);
        assert_eq!(served.counter("nfs4_callbacks"), 2);
    });
}

#[test]
fn who_waits_for_a_local_program_is_told_too() {
    let served = serve();
    let path = served.path().join("f");
    let local = File::options().read(true).write(true).open(path).unwrap();
    let set = |lock| fs::set_ofd_lock(local.as_fd(), lock, (0, 0)).unwrap();
    set(Some(OfdLock::Write));
    block_on(async {
        let mut waiter = Called::new(&served, b"waiter").await;
        let (opened, _) = open(&mut waiter).await;
        let denied = waiter.lock(opened, b"of the waiter").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        assert_eq!(served.counter("nfs4_callbacks"), 0);
        set(None);
        let call = waiter.next_call().await;
        assert_eq!(call.owner, b"of the waiter");
        // Before it asks, another program has it again: it keeps its place.
        set(Some(OfdLock::Write));
        waiter.carry_out(&call).await;
        let denied = waiter.lock(opened, b"of the waiter").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        set(None);
        let call = waiter.next_call().await;
        waiter.carry_out(&call).await;
        waiter.lock(opened, b"of the waiter").await.expect("free");
    });
}

/// A session was freed under a call of the server (CVE-2026-89708).
#[test]
fn who_answers_when_its_session_has_ended_answers_nobody() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let mut third = Called::new(&served, b"third").await;
        let (of_third, _) = open(&mut third).await;
        let denied = third.lock(of_third, b"of the third").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        bed.unlock().await;
        let call = bed.waiter.next_call().await;
        expire(&served, "waiter").await;
        // What was promised to it is the next one's.
        let next = third.next_call().await;
        assert_eq!(next.owner, b"of the third");
        bed.waiter.carry_out(&call).await;
        third.carry_out(&next).await;
        third
            .lock(of_third, b"of the third")
            .await
            .expect("promised");
        let dir = bed.waiter.bind(ChannelDirFromClient4::ForeOrBoth).await;
        assert_eq!(dir, Err(Nfsstat4::Badsession));
        assert_eq!(served.counter("nfs4_callbacks"), 2);
    });
}

/// A program of the server's host that has locked all of some files.
struct Local(Vec<File>);

impl Local {
    fn lock(served: &Served, files: impl Iterator<Item = String>) -> Self {
        let lock = |name| {
            let file = File::create(served.path().join(name)).unwrap();
            fs::set_ofd_lock(file.as_fd(), Some(OfdLock::Write), (0, 0)).unwrap();
            file
        };
        Self(files.map(lock).collect())
    }

    fn unlock(&self) {
        for file in &self.0 {
            fs::set_ofd_lock(file.as_fd(), None, (0, 0)).unwrap();
        }
    }
}

/// What a client waits for that a local program has.
async fn wait_for(client: &mut Called, name: &str) {
    let (opened, _) = client.open(name.as_bytes()).await;
    let denied = client.lock(opened, name.as_bytes()).await;
    assert_eq!(denied, Err(Nfsstat4::Denied));
}

#[test]
fn who_waits_in_very_many_files_leaves_others_to_be_looked_at() {
    /// What one host has of the files that are looked at, where it is alone.
    const SHARE: usize = 128;
    let served = serve_each_address();
    let greedy = Local::lock(&served, (0..300).map(|n| format!("greedy {n}")));
    let others = Local::lock(&served, (0..3).map(|n| format!("other {n}")));
    block_on(async {
        let host = |n| Ipv4Addr::new(127, 0, 0, n);
        let mut waiter = Called::at(host(2), &served, b"greedy").await;
        let mut other = Called::at(host(3), &served, b"other").await;
        for n in 0..300 {
            wait_for(&mut waiter, &format!("greedy {n}")).await;
            if n % 100 == 0 {
                assert_eq!(other.status(vec![]).await, Nfsstat4::Ok);
            }
        }
        greedy.unlock();
        // Beside what the other does: who leaves a call of the server unanswered for long is not called again.
        let all_told = async {
            for _ in 0..SHARE {
                let call = waiter.next_call().await;
                waiter.carry_out(&call).await;
            }
        };
        let mut others = others.0.iter().enumerate();
        let mut next_other = async || {
            let (n, file) = others.next().unwrap();
            wait_for(&mut other, &format!("other {n}")).await;
            fs::set_ofd_lock(file.as_fd(), None, (0, 0)).unwrap();
            let call = other.next_call().await;
            assert_eq!(call.owner, format!("other {n}").as_bytes());
            other.carry_out(&call).await;
        };
        tokio::join!(all_told, next_other());
        // The server looks at all of them between two such notices.
        for _ in 0..2 {
            next_other().await;
        }
        assert_eq!(waiter.status(vec![]).await, Nfsstat4::Ok);
        assert!(waiter.was_not_called());
    });
}

#[test]
fn a_local_user_with_many_addresses_has_one_share_of_what_is_looked_at() {
    const SHARE: usize = 128;
    let served = serve();
    let names = |from: usize, count: usize| (from..from + count).map(|n| format!("file {n}"));
    let first = Local::lock(&served, names(0, SHARE - 1));
    let last = Local::lock(&served, names(SHARE - 1, 1));
    let second = Local::lock(&served, names(SHARE, 20));
    block_on(async {
        let host = |n| Ipv4Addr::new(127, 0, 0, n);
        let mut one = Called::at(host(2), &served, b"one").await;
        let mut more = Called::at(host(3), &served, b"more").await;
        for name in names(0, SHARE) {
            wait_for(&mut one, &name).await;
        }
        for name in names(SHARE, 20) {
            wait_for(&mut more, &name).await;
        }
        first.unlock();
        second.unlock();
        for _ in 1..SHARE {
            let call = one.next_call().await;
            one.carry_out(&call).await;
        }
        // The server looks at all of them between this and the last notice.
        last.unlock();
        let call = one.next_call().await;
        one.carry_out(&call).await;
        assert_eq!(more.status(vec![]).await, Nfsstat4::Ok);
        assert!(more.was_not_called());
    });
}

#[test]
fn the_first_who_wait_for_a_local_program_are_looked_at() {
    /// So many of those who wait in a file are looked at.
    const LOOKED_AT: i64 = 8;
    let served = serve();
    let [first, second] = ["first", "second"].map(|name| {
        let file = File::create(served.path().join(name)).unwrap();
        for n in 0..LOOKED_AT + 2 {
            fs::set_ofd_lock(file.as_fd(), Some(OfdLock::Write), (n * 10, 10)).unwrap();
        }
        file
    });
    let unlock = |file: &File, n: i64| fs::set_ofd_lock(file.as_fd(), None, (n * 10, 10)).unwrap();
    block_on(async {
        let mut waiter = Called::new(&served, b"waiter").await;
        let of_second = waiter.open(b"second").await.0;
        let of_first = waiter.open(b"first").await.0;
        for n in 0..LOOKED_AT + 2 {
            let name = format!("first {n}");
            let kind = LockType4::WriteWaits;
            let denied = waiter.lock_at(n as u64 * 10, kind, of_first, name.as_bytes());
            assert_eq!(denied.await, Err(Nfsstat4::Denied));
        }
        // The ninth is free, and nobody looks at it in two rounds, in which the other file is looked at.
        unlock(&first, LOOKED_AT);
        for n in 0..2 {
            let name = format!("second {n}");
            let kind = LockType4::WriteWaits;
            let denied = waiter.lock_at(n as u64 * 10, kind, of_second, name.as_bytes());
            assert_eq!(denied.await, Err(Nfsstat4::Denied));
            unlock(&second, n);
            let call = waiter.next_call().await;
            assert_eq!(call.owner, name.as_bytes());
            waiter.carry_out(&call).await;
        }
        // Who asks by itself has it, and who is among the first is told.
        let kind = LockType4::WriteWaits;
        let asked = waiter.lock_at(LOOKED_AT as u64 * 10, kind, of_first, b"first 8");
        asked.await.expect("free");
        unlock(&first, LOOKED_AT - 1);
        let call = waiter.next_call().await;
        assert_eq!(call.owner, b"first 7");
        waiter.carry_out(&call).await;
    });
}

/// One who holds files that many wait for.
struct Crowd {
    holder: Called,
    held: Vec<(FileHandle, Stateid4)>,
}

impl Crowd {
    async fn new(served: &Served, files: usize) -> Self {
        let mut holder = Called::new(served, b"holder").await;
        let mut held = Vec::new();
        for n in 0..files {
            std::fs::write(served.path().join(n.to_string()), "text").unwrap();
            let opened = holder.open(n.to_string().as_bytes()).await.0;
            let stateid = holder.lock(opened, b"holder").await.unwrap();
            held.push((opened.0, stateid));
        }
        Self { holder, held }
    }

    /// As many as can wait in this file do, for reading, so that all of them may try at once.
    async fn wait(waiter: &mut Called, file: usize) {
        let opened = waiter.open(file.to_string().as_bytes()).await.0;
        for n in 0..nfs_state::limits::WAITERS_PER_FILE_MAX {
            let name = n.to_string();
            let kind = LockType4::ReadWaits;
            let denied = waiter.lock_as(kind, opened, name.as_bytes()).await;
            assert_eq!(denied, Err(Nfsstat4::Denied));
        }
    }

    async fn let_go(&mut self) {
        for (file, stateid) in self.held.drain(..) {
            self.holder.unlock(file, stateid).await;
        }
    }
}

#[test]
fn a_session_has_so_many_who_are_to_be_told() {
    const OF_SESSION: u64 = 256;
    let served = serve();
    block_on(async {
        let mut crowd = Crowd::new(&served, 2).await;
        let mut waiter = Called::new(&served, b"waiter").await;
        for file in 0..2 {
            Crowd::wait(&mut waiter, file).await;
        }
        // Nothing is answered before all of them are to be told.
        crowd.let_go().await;
        for _ in 0..OF_SESSION {
            let call = waiter.next_call().await;
            waiter.carry_out(&call).await;
        }
        assert_eq!(waiter.status(vec![]).await, Nfsstat4::Ok);
        assert!(waiter.was_not_called());
        assert_eq!(served.counter("nfs4_callbacks"), OF_SESSION);
        let left = 2 * nfs_state::limits::WAITERS_PER_FILE_MAX as u64 - OF_SESSION;
        assert_eq!(served.counter("nfs4_waiters_untold"), left);
        assert_eq!(served.counter("nfs4_callbacks_failed"), 0);
    });
}

#[test]
fn a_host_has_so_many_who_are_to_be_told() {
    const OF_SESSION: usize = 256;
    const OF_HOST: usize = 2048;
    /// Sessions of the greedy host, one of which finds no room.
    const SESSIONS: usize = OF_HOST / OF_SESSION + 1;
    let served = serve_each_address();
    block_on(async {
        let mut crowd = Crowd::new(&served, SESSIONS + 1).await;
        let mut greedy = Vec::new();
        for n in 0..SESSIONS {
            let name = format!("greedy {n}");
            let host = Ipv4Addr::new(127, 0, 0, 2);
            let mut waiter = Called::at(host, &served, name.as_bytes()).await;
            Crowd::wait(&mut waiter, n).await;
            greedy.push(waiter);
        }
        let mut other = Called::at(Ipv4Addr::new(127, 0, 0, 3), &served, b"other").await;
        let of_other = other.open(SESSIONS.to_string().as_bytes()).await.0;
        let denied = other.lock(of_other, b"of the other").await;
        assert_eq!(denied, Err(Nfsstat4::Denied));
        crowd.let_go().await;
        let call = other.next_call().await;
        assert_eq!(call.owner, b"of the other");
        other.carry_out(&call).await;
        let (mut told, last) = (0, greedy.pop());
        while told < OF_HOST {
            for waiter in &mut greedy {
                let call = waiter.next_call().await;
                waiter.carry_out(&call).await;
                told += 1;
            }
        }
        for waiter in greedy
            .iter_mut()
            .chain(&mut last.into_iter().collect::<Vec<_>>())
        {
            assert_eq!(waiter.status(vec![]).await, Nfsstat4::Ok);
            assert!(waiter.was_not_called());
        }
        assert_eq!(served.counter("nfs4_callbacks") as usize, OF_HOST + 1);
        assert_eq!(served.counter("nfs4_waiters_untold") as usize, OF_SESSION);
        assert_eq!(served.counter("nfs4_callbacks_failed"), 0);
    });
}

#[test]
fn a_client_says_by_what_program_it_is_called() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let change = |cb_program, sec_parms| {
            ArgOp::BackchannelCtl(BackchannelCtlArgs {
                cb_program,
                sec_parms,
            })
        };
        let unusable = bed.waiter.status(vec![change(9, vec![])]).await;
        assert_eq!(unusable, Nfsstat4::Inval);
        let CallbackSecParms4::Sys(root) = as_root() else {
            panic!("it is AUTH_SYS")
        };
        let other = CallbackSecParms4::Sys(nfs_wire::auth::AuthSys { uid: 5, ..root });
        let changed = change(support::called::PROGRAM, vec![other]);
        assert_eq!(bed.waiter.status(vec![changed]).await, Nfsstat4::Ok);
        bed.unlock().await;
        assert_eq!(bed.waiter.next_call().await.uid, 5);
    });
}

#[test]
fn very_many_who_wait_have_an_end() {
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let places = nfs_state::limits::WAITERS_PER_FILE_MAX as u64;
        // Who waits is forgotten after a while, so that there are not many times as many.
        let asked = 3 * places;
        for n in 1..asked {
            let owner = format!("waiter {n}");
            if n % places == 0 {
                // Its lease goes on.
                assert_eq!(bed.holder.status(vec![]).await, Nfsstat4::Ok);
            }
            let denied = bed.waiter.lock(bed.of_waiter, owner.as_bytes()).await;
            assert_eq!(denied, Err(Nfsstat4::Denied));
        }
        assert_eq!(served.counter("nfs4_waiters_refused"), asked - places);
        bed.unlock().await;
        let first = bed.waiter.next_call().await;
        bed.check(&first);
        bed.waiter.carry_out(&first).await;
        let held = bed.ask().await.expect("it is promised");
        assert_eq!(served.counter("nfs4_callbacks"), 1, "one at a time");
        bed.waiter.unlock(bed.of_waiter.0, held).await;
        let second = bed.waiter.next_call().await;
        assert_eq!(second.owner, b"waiter 1");
        bed.waiter.carry_out(&second).await;
    });
}

#[test]
fn a_host_that_does_not_answer_has_so_many_calls_under_way() {
    /// What the server has in flight to one host.
    const MOST: usize = 64;
    let served = serve();
    block_on(async {
        let mut bed = Bed::new(&served).await;
        let taken = bed.ask().await;
        assert_eq!(taken, Err(Nfsstat4::Denied));
        let mut readers = Vec::new();
        for n in 0..MOST + 6 {
            let name = format!("reader {n}");
            let mut reader = Called::new(&served, name.as_bytes()).await;
            let (opened, _) = open(&mut reader).await;
            let kind = LockType4::ReadWaits;
            let denied = reader.lock_as(kind, opened, b"reader").await;
            assert_eq!(denied, Err(Nfsstat4::Denied));
            readers.push(reader);
        }
        // All of them may try at once, when the one that wants to write gives up before them.
        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: bed.of_waiter.1,
        });
        let ops = vec![putfh(&bed.of_waiter.0), close];
        assert_eq!(bed.waiter.status(ops).await, Nfsstat4::Ok);
        bed.unlock().await;
        let sent = || served.counter("nfs4_callbacks") as usize;
        until("many are called", || sent() >= MOST).await;
        for reader in &mut readers {
            assert_eq!(reader.status(vec![]).await, Nfsstat4::Ok);
        }
        assert_eq!(sent(), MOST);
        let called = readers.iter_mut().find(|it| !it.was_not_called());
        let called = called.expect("most were");
        let call = called.next_call().await;
        called.carry_out(&call).await;
        until("the next is called", || sent() == MOST + 1).await;
    });
}
