use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A cache and what asks of it.
struct Bench {
    cache: Arc<ReplyCache>,
    origin: Arc<Origin>,
}

impl Bench {
    fn new() -> Self {
        let cache = Arc::new(ReplyCache::new(Arc::new(CallNotes::nowhere())));
        let origin = cache.origin();
        Self { cache, origin }
    }

    fn ask(&self, origin: &Arc<Origin>, head: &[u8]) -> Seen {
        let asked = asked(HERE, 1, origin, head);
        self.cache.begin(&asked, Instant::now())
    }

    fn run(&self, head: &[u8], reply: &[u8]) {
        self.run_as(HERE, 1, head, reply);
    }

    fn run_as(&self, addr: IpAddr, client: u64, head: &[u8], reply: &[u8]) {
        let asked = asked(addr, client, &self.origin, head);
        new(self.cache.begin(&asked, Instant::now())).done(reply, true);
    }

    fn knows(&self, addr: IpAddr, client: u64, head: &[u8]) -> bool {
        let asked = asked(addr, client, &self.origin, head);
        matches!(self.cache.begin(&asked, Instant::now()), Seen::Done(_))
    }
}

fn asked<'a>(addr: IpAddr, client: u64, origin: &'a Arc<Origin>, head: &'a [u8]) -> Asked<'a> {
    Asked {
        standing: Standing::Distant,
        is_write: false,
        addr,
        client: ClientId::of_number(client),
        origin,
        crowded: false,
        head,
    }
}

#[track_caller]
fn new(seen: Seen) -> Ticket {
    match seen {
        Seen::New(ticket) => ticket,
        Seen::InProgress | Seen::Awaited(_) => panic!("it runs"),
        Seen::Done(_) => panic!("it ran"),
    }
}

#[track_caller]
fn done(seen: Seen) -> Vec<u8> {
    match seen {
        Seen::Done(reply) => reply,
        Seen::New(_) => panic!("it is new"),
        Seen::InProgress | Seen::Awaited(_) => panic!("it runs"),
    }
}

#[track_caller]
fn awaited(seen: Seen) -> oneshot::Receiver<Vec<u8>> {
    match seen {
        Seen::Awaited(reply) => reply,
        Seen::New(_) => panic!("it is new"),
        Seen::InProgress => panic!("it is dropped"),
        Seen::Done(_) => panic!("it ran"),
    }
}

#[test]
fn a_repetition_gets_the_first_reply() {
    let bench = Bench::new();
    let ticket = new(bench.ask(&bench.origin, b"call"));
    let again = bench.ask(&bench.origin, b"call");
    assert!(matches!(again, Seen::InProgress));
    ticket.done(b"reply", true);
    assert_eq!(done(bench.ask(&bench.origin, b"call")), b"reply");
    let fill = bench.cache.fill();
    let Fill { replies, bytes, .. } = fill[0].1;
    assert_eq!((replies, bytes), (1, b"reply".len() as u64));
    assert_eq!(fill[1].1.replies, 0, "it is no WRITE");
    new(bench.ask(&bench.origin, b"another call"));
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    assert!(!bench.knows(elsewhere, 1, b"call"));
}

#[test]
fn an_abandoned_call_runs_again() {
    let bench = Bench::new();
    drop(new(bench.ask(&bench.origin, b"call")));
    new(bench.ask(&bench.origin, b"call"));
}

#[test]
fn a_call_that_was_refused_leaves_nothing() {
    let bench = Bench::new();
    new(bench.ask(&bench.origin, b"call")).done(b"no", false);
    assert_eq!(bench.cache.names.lock().len(), (0, 0));
    new(bench.ask(&bench.origin, b"call"));
}

#[test]
fn who_asks_over_another_connection_waits_for_the_reply_and_the_latest_gets_it() {
    let bench = Bench::new();
    let others = [bench.cache.origin(), bench.cache.origin()];
    let ticket = new(bench.ask(&bench.origin, b"call"));
    let mut first = awaited(bench.ask(&others[0], b"call"));
    let again = bench.ask(&others[0], b"call");
    assert!(matches!(again, Seen::InProgress), "once is enough");
    let mut second = awaited(bench.ask(&others[1], b"call"));
    assert!(first.try_recv().is_err());
    ticket.done(b"reply", true);
    assert_eq!(second.try_recv().unwrap(), b"reply");
    // It went over the second connection: that one's end tells whether the client has it.
    assert!(bench.cache.ended_in_order(&bench.origin).is_some());
    assert_eq!(done(bench.ask(&bench.cache.origin(), b"call")), b"reply");
}

#[test]
fn where_there_is_a_crowd_nobody_waits() {
    let bench = Bench::new();
    let ticket = new(bench.ask(&bench.origin, b"call"));
    let other = bench.cache.origin();
    let asked = Asked {
        crowded: true,
        ..asked(HERE, 1, &other, b"call")
    };
    let again = bench.cache.begin(&asked, Instant::now());
    assert!(matches!(again, Seen::InProgress));
    ticket.done(b"reply", true);
    assert_eq!(done(bench.ask(&other, b"call")), b"reply");
}

#[test]
fn who_waits_for_a_call_that_is_given_up_waits_no_more() {
    let bench = Bench::new();
    let ticket = new(bench.ask(&bench.origin, b"call"));
    let mut waits = awaited(bench.ask(&bench.cache.origin(), b"call"));
    drop(ticket);
    assert_eq!(
        waits.try_recv(),
        Err(oneshot::error::TryRecvError::Closed),
        "the client asks again"
    );
}

#[test]
fn after_an_end_in_order_there_are_newcomers_only() {
    let bench = Bench::new();
    bench.run(b"call", b"reply");
    let beside = bench.cache.origin();
    assert_eq!(done(bench.ask(&beside, b"call")), b"reply");
    assert_eq!(done(bench.ask(&bench.origin, b"call")), b"reply");
    assert!(bench.cache.ended_in_order(&bench.origin).is_some());
    // The client's other connection was there before.
    let newcomer = bench.cache.origin();
    new(bench.ask(&newcomer, b"call")).done(b"newcomer's", true);
    assert_eq!(done(bench.ask(&newcomer, b"call")), b"newcomer's");
    assert_eq!(done(bench.ask(&beside, b"call")), b"newcomer's");
}

#[test]
fn a_connection_that_was_there_before_the_end_is_no_newcomer() {
    let bench = Bench::new();
    bench.run(b"call", b"reply");
    let beside = bench.cache.origin();
    assert!(bench.cache.ended_in_order(&bench.origin).is_some());
    assert_eq!(done(bench.ask(&beside, b"call")), b"reply");
}

#[test]
fn a_reply_is_forgotten_after_its_time() {
    let bench = Bench::new();
    bench.run(b"call", b"reply");
    bench.run(b"other", b"reply");
    let later = Instant::now() + LIFE;
    let asked = asked(HERE, 1, &bench.origin, b"call");
    let ticket = new(bench.cache.begin(&asked, later));
    bench.cache.expire(later);
    assert_eq!(bench.cache.names.lock().len(), (1, 0), "the one that runs");
    ticket.done(b"new", true);
    bench.cache.expire(Instant::now());
    assert_eq!(done(bench.ask(&bench.origin, b"call")), b"new");
}

/// The heads of `count` calls, no two of them alike.
fn heads(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| format!("call {number}").into_bytes())
}

#[test]
fn a_flood_of_one_address_leaves_another_its_share() {
    let bench = Bench::new();
    let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    for head in heads(100) {
        bench.run_as(other, 2, &head, b"reply");
    }
    for head in heads(limits::REPLY_CACHE_NAMES_MAX * 2) {
        bench.run(&head, b"reply");
    }
    for head in heads(100) {
        assert!(bench.knows(other, 2, &head));
    }
    // And it gets its share of what is full when it wants more.
    for head in heads(limits::REPLY_CACHE_NAMES_MAX) {
        bench.run_as(other, 2, &[&b"more "[..], &head].concat(), b"reply");
    }
    let shelf = bench.cache.names.lock();
    assert_eq!(shelf.len().1, limits::REPLY_CACHE_NAMES_MAX);
    assert_eq!(shelf.held_by(other), limits::REPLY_CACHE_NAMES_MAX / 2);
    let fill = shelf.fill();
    assert_eq!((fill.replies, fill.bytes), shelf.counted());
    let all = 100 + 3 * limits::REPLY_CACHE_NAMES_MAX as u64;
    assert_eq!(fill.replies, fill.replies_max, "it is full");
    assert_eq!(fill.evicted, all - fill.replies);
}

#[test]
fn a_flood_of_one_client_leaves_others_of_its_address_their_share() {
    let bench = Bench::new();
    for head in heads(100) {
        bench.run_as(HERE, 2, &head, b"reply");
    }
    for head in heads(limits::REPLY_CACHE_NAMES_MAX * 2) {
        bench.run(&[&b"flood "[..], &head].concat(), b"reply");
    }
    for head in heads(100) {
        assert!(bench.knows(HERE, 2, &head));
    }
}

#[test]
fn many_made_up_clients_of_one_address_push_nobody_elsewhere_out() {
    let bench = Bench::new();
    let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    for head in heads(100) {
        bench.run_as(other, 1, &head, b"reply");
    }
    for (client, head) in (2..).zip(heads(limits::REPLY_CACHE_NAMES_MAX * 2)) {
        bench.run_as(HERE, client, &[&b"flood "[..], &head].concat(), b"reply");
    }
    for head in heads(100) {
        assert!(bench.knows(other, 1, &head));
    }
    let shelf = bench.cache.names.lock();
    let most = limits::REPLY_CACHE_CLIENTS_PER_ADDRESS_MAX;
    assert_eq!(shelf.held_by(HERE), most, "one of each of the latest");
    let fill = shelf.fill();
    assert_eq!((fill.replies, fill.bytes), shelf.counted());
    let all = 100 + 2 * limits::REPLY_CACHE_NAMES_MAX as u64;
    assert_eq!(fill.evicted, all - fill.replies);
}

#[test]
fn addresses_that_a_host_can_choose_share() {
    let bench = Bench::new();
    let of = |host: u64| {
        let net = u128::from(0x2001_0db8_0000_0001_u64) << 64;
        IpAddr::V6(Ipv6Addr::from_bits(net | u128::from(host)))
    };
    for (host, head) in (0..).zip(heads(1000)) {
        bench.run_as(of(host), 1, &head, b"reply");
    }
    assert_eq!(bench.cache.names.lock().held_by(of(77)), 1000);
}

#[test]
fn writes_do_not_push_out_names() {
    let bench = Bench::new();
    bench.run(b"mkdir", b"reply");
    for head in heads(limits::REPLY_CACHE_WRITES_MAX * 2) {
        let asked = Asked {
            is_write: true,
            ..asked(HERE, 1, &bench.origin, &head)
        };
        new(bench.cache.begin(&asked, Instant::now())).done(b"written", true);
    }
    assert!(bench.knows(HERE, 1, b"mkdir"));
    assert_eq!(
        bench.cache.writes.lock().len(),
        (
            limits::REPLY_CACHE_WRITES_MAX,
            limits::REPLY_CACHE_WRITES_MAX
        )
    );
}

/// The longest reply of a call that is remembered is CREATE's.
#[test]
fn every_reply_is_short_enough_to_be_kept() {
    use nfs_wire::nfs3::{
        CreateOk, Failure, Fattr3, FileHandle, Ftype3, Nfstime3, Specdata3, WccAttr, WccData,
    };
    use nfs_wire::rpc::{AcceptStat, ReplyHeader};
    use nfs_wire::{Encode, Encoder};
    let time = Nfstime3::default();
    let attributes = Fattr3 {
        ftype: Ftype3::Reg,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        rdev: Specdata3::default(),
        fsid: 0,
        fileid: 0,
        atime: time,
        mtime: time,
        ctime: time,
    };
    let made = Ok::<_, Failure<WccData>>(CreateOk {
        obj: Some(FileHandle::new(&[7; 64]).unwrap()),
        obj_attributes: Some(attributes),
        dir_wcc: WccData {
            before: Some(WccAttr {
                size: 0,
                mtime: time,
                ctime: time,
            }),
            after: Some(attributes),
        },
    });
    // The record mark goes before it.
    let mut reply = vec![0; 4];
    let mut encoder = Encoder::new(&mut reply);
    ReplyHeader::accepted(1, AcceptStat::Success).encode(&mut encoder);
    made.encode(&mut encoder);
    assert_eq!(reply.len(), 308);
    assert!(reply.len() <= limits::REPLY_CACHE_REPLY_BYTES_MAX);
}

/// What docs/threat-model.md says of the memory that both kinds take when they are full.
#[test]
fn a_full_cache_takes_no_more_memory_than_is_said() {
    let bench = Bench::new();
    // A WRITE's reply has 164 bytes.
    for (is_write, count, reply) in [
        (false, limits::REPLY_CACHE_NAMES_MAX, vec![0; 308]),
        (true, limits::REPLY_CACHE_WRITES_MAX, vec![0; 164]),
    ] {
        for head in heads(count + count / 2) {
            let asked = Asked {
                is_write,
                ..asked(HERE, 1, &bench.origin, &head)
            };
            new(bench.cache.begin(&asked, Instant::now())).done(&reply, true);
        }
    }
    let names = bench.cache.names.lock().bytes();
    let writes = bench.cache.writes.lock().bytes();
    assert!(names <= 16 << 20, "{names} bytes");
    assert!(writes <= 27 << 20, "{writes} bytes");
}
