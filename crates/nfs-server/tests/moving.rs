//! Connections that go from one shard's thread to another's: for their clients nothing happens.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use nfs_server::exports::Versions;
use nfs_wire::nfs3::Procedure;
use nfs_wire::nfs4::Nfsstat4;
use nfs_wire::nfs4::ops::SEQ4_STATUS_CB_PATH_DOWN;
use support::called::Called;
use support::wire::{DEADLINE, record};
use support::{Served, block_on};

/// Bytes of the reply to NULL, mark and all.
const REPLY_BYTES: usize = 28;
/// Calls that a flood sends at once.
const TOGETHER: u32 = 64;

/// Serves on two shards. Connections come to them in turn.
fn serve() -> Served {
    Served::with(|config| {
        config.server.shards = Some(2);
        config.server.versions = Versions::ALL;
    })
}

fn call(xid: u32) -> Vec<u8> {
    record(xid, Procedure::Null, &())
}

/// The xid of the next reply, which is to a NULL.
fn reply(stream: &mut TcpStream) -> u32 {
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply).expect("a reply");
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

/// A connection over which NULL is called as fast as the server answers.
struct Flood {
    stop: Arc<AtomicBool>,
    /// How many calls were sent.
    sends: JoinHandle<u32>,
    reads: JoinHandle<()>,
}

impl Flood {
    fn start(to: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(to).unwrap();
        // It has its place before others come.
        stream.write_all(&call(u32::MAX)).unwrap();
        assert_eq!(reply(&mut stream), u32::MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut sender) = (Arc::clone(&stop), stream.try_clone().unwrap());
        let sends = std::thread::spawn(move || {
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                let calls: Vec<u8> = (sent..sent + TOGETHER).flat_map(call).collect();
                sender.write_all(&calls).unwrap();
                sent += TOGETHER;
            }
            sender.write_all(&call(u32::MAX)).unwrap();
            sent
        });
        let reads = std::thread::spawn(move || {
            let mut replies = std::io::BufReader::new(&mut stream);
            let mut reply = [0; REPLY_BYTES];
            let mut next = 0;
            loop {
                replies
                    .read_exact(&mut reply)
                    .expect("every call is answered");
                match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
                    u32::MAX => break,
                    xid => assert_eq!(xid, next, "each once, in order"),
                }
                next += 1;
            }
        });
        Self { stop, sends, reads }
    }

    /// Ends it; each of its calls was answered.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.sends.join().expect("the server does not close") > 0);
        self.reads.join().expect("answered in order");
    }
}

fn has_moved(served: &Served) -> bool {
    served.counter("connections_moved") > 0
}

/// Whether none has moved yet; a failure where that takes too long.
fn has_yet_to_move(served: &Served, begun: Instant) -> bool {
    assert!(begun.elapsed() < DEADLINE, "no connection has moved");
    !has_moved(served)
}

#[test]
fn small_calls_go_away_from_a_flood() {
    let served = serve();
    let flood = Flood::start(served.addr);
    // The one in the middle is on the shard of the flood.
    let mut others = [(); 3].map(|()| TcpStream::connect(served.addr).unwrap());
    let mut xid = 0;
    let mut ask_all = || {
        for stream in &mut others {
            xid += 1;
            stream.write_all(&call(xid)).unwrap();
            assert_eq!(reply(stream), xid);
        }
    };
    let begun = Instant::now();
    while has_yet_to_move(&served, begun) {
        ask_all();
    }
    ask_all();
    assert_eq!(served.server.status().connections, 4);
    flood.end();
    ask_all();
    drop(others);
    let gone = || served.server.status().connections == 0;
    block_on(support::wire::until("all have ended", gone));
}

#[test]
fn of_two_floods_one_goes_and_no_call_is_lost() {
    let served = serve();
    let one = Flood::start(served.addr);
    let between = TcpStream::connect(served.addr).unwrap();
    let two = Flood::start(served.addr);
    // They go on until one has gone; a look every now and then is no load of its own.
    let moved = || has_moved(&served);
    block_on(support::wire::until("one has gone", moved));
    one.end();
    two.end();
    drop(between);
}

#[test]
fn a_client_of_nfsv4_is_called_where_its_connection_has_gone() {
    let served = serve();
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut waiter = Called::new(&served, b"waiter").await;
        let mut holder = Called::new(&served, b"holder").await;
        let flood = Flood::start(served.addr);
        let of_holder = holder.open(b"f").await.0;
        let of_waiter = waiter.open(b"f").await.0;
        let held = holder.lock(of_holder, b"of the holder").await.unwrap();
        let begun = Instant::now();
        while has_yet_to_move(&served, begun) {
            assert_eq!(waiter.status(vec![]).await, Nfsstat4::Ok);
        }
        let asked = waiter.lock(of_waiter, b"of the waiter").await;
        assert_eq!(asked, Err(Nfsstat4::Denied));
        holder.unlock(of_holder.0, held).await;
        let told = waiter.next_call().await;
        assert_eq!(told.owner, b"of the waiter");
        waiter.carry_out(&told).await;
        let taken = waiter.lock(of_waiter, b"of the waiter").await;
        taken.expect("it is promised");
        assert_eq!(served.counter("nfs4_callbacks_failed"), 0);
        // The session has no way back once the connection has ended, on whichever thread it was.
        let mut other = Called::connect(&served, waiter.session).await;
        other.sequence = waiter.sequence;
        drop(waiter);
        let begun = Instant::now();
        while other.flags & SEQ4_STATUS_CB_PATH_DOWN == 0 {
            assert!(
                begun.elapsed() < DEADLINE,
                "the way back is told to be there"
            );
            assert_eq!(other.status(vec![]).await, Nfsstat4::Ok);
        }
        flood.end();
    });
}
