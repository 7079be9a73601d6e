//! The window of READs ahead, against a responder that counts what it is asked and answers late, out of
//! order, short or not at all: each byte is asked for once, and nothing that nobody wants.

mod answers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs_client::ClientError;
use nfs_client::mount3::Mount3;
use nfs_client::nfs3::{Fattr3, FsinfoOk, Ftype3, LookupOk, Nfsstat3, PostOpAttr};
use nfs_client::{
    Client, ConnectOptions, Connection, Depth, File, Hint, Identity, Nfs3, RawConnection, Windows,
};
use nfs_wire::Decoder;
use nfs_wire::nfs3::{Call, Procedure, ReadArgs, ReadOk};
use nfs_wire::rpc::CallHeader;
use tokio::net::TcpListener;
use tokio::time::timeout;

use answers::{HANG, attributes, fail, fsinfo, good, handle, ok};

const TRANSFER: u64 = 16 << 10;

/// What the responder makes of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Right,
    /// At most so many bytes of it.
    Short(usize),
    Fail(Nfsstat3),
}

type Judge = Box<dyn FnMut(u64, u64) -> Answer + Send>;

/// The responder's file and memory.
struct Served {
    content: Vec<u8>,
    /// Offset and length of each READ.
    asked: Vec<(u64, u64)>,
    judge: Judge,
    /// READs are held until so many wait; then they are answered, the last one first.
    together: usize,
    /// What each READ costs, whatever its size.
    call: Duration,
}

struct Server(Arc<Mutex<Served>>);

impl Server {
    fn with<T>(&self, use_it: impl FnOnce(&mut Served) -> T) -> T {
        use_it(&mut self.0.lock().unwrap())
    }

    fn asked(&self) -> Vec<(u64, u64)> {
        self.with(|served| served.asked.clone())
    }

    fn judge(&self, judge: impl FnMut(u64, u64) -> Answer + Send + 'static) {
        self.with(|served| served.judge = Box::new(judge));
    }

    /// Waits until `READ`s asked so far satisfy `holds`.
    async fn until(&self, what: &str, holds: impl Fn(&[(u64, u64)]) -> bool) {
        until(what, || self.with(|served| holds(&served.asked))).await;
    }

    /// Each byte of the file was asked for exactly once, and none beyond.
    fn assert_each_byte_once(&self) {
        let mut asked = self.asked();
        asked.sort_unstable();
        let mut next = 0;
        for (offset, len) in asked {
            assert_eq!(offset, next, "{len} bytes");
            next += len;
        }
        assert_eq!(next, self.with(|served| served.content.len()) as u64);
    }
}

/// Waits for what other tasks bring about.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            // SLEEP: a poll rests between two looks.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(HANG, wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

fn content(len: u64) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 16).to_le_bytes()[0])
        .collect()
}

fn reg(size: u64) -> Fattr3 {
    Fattr3 {
        size,
        ..attributes(Ftype3::Reg)
    }
}

/// A file of `len` bytes on a responder, open on a client with `windows`.
async fn served(len: u64, windows: Windows) -> (Server, File) {
    let (server, client) = served_client(len, windows).await;
    let file = client.open(b"file").await.unwrap();
    (server, file)
}

/// A responder with one file of `len` bytes, `file`, and a client of it with `windows`.
async fn served_client(len: u64, windows: Windows) -> (Server, Client) {
    let served = Arc::new(Mutex::new(Served {
        content: content(len),
        asked: Vec::new(),
        judge: Box::new(|_, _| Answer::Right),
        together: 1,
        call: Duration::ZERO,
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().into();
    tokio::spawn(respond(listener, served.clone()));
    let connection = Connection::connect(target, ConnectOptions::default());
    let connection = connection.await.unwrap();
    let nfs = Nfs3::new(connection.clone(), Identity::none());
    let mount = Mount3::new(connection, Identity::none());
    let client = Client::from_root(nfs, mount, handle(b"root")).await;
    (Server(served), client.unwrap().with_windows(windows))
}

fn fixed(depth: u32) -> Windows {
    Windows {
        read: Depth::Fixed(depth),
        ..Windows::default()
    }
}

async fn respond(listener: TcpListener, served: Arc<Mutex<Served>>) {
    let mut peer = RawConnection::from_stream(listener.accept().await.unwrap().0);
    let mut held: Vec<(u32, ReadArgs)> = Vec::new();
    while let Ok(Some(record)) = peer.receive_record().await {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let procedure = Procedure::try_from(header.procedure).unwrap();
        let replies = match Call::decode(procedure, &mut d).unwrap() {
            Call::Read(args) => {
                let mut served = served.lock().unwrap();
                served.asked.push((args.offset, u64::from(args.count)));
                held.push((header.xid, args));
                if held.len() < served.together {
                    continue;
                }
                let replies = held.drain(..).rev();
                replies
                    .map(|(xid, args)| (xid, read(&mut served, &args)))
                    .collect()
            }
            call => vec![(header.xid, other(&served.lock().unwrap(), &call))],
        };
        for (xid, results) in replies {
            let call = served.lock().unwrap().call;
            if !call.is_zero() {
                // SLEEP: it is what a call costs.
                tokio::time::sleep(call).await;
            }
            let head = [xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
            if peer.send_record(&[head, results].concat()).await.is_err() {
                return;
            }
        }
    }
}

fn read(served: &mut Served, args: &ReadArgs) -> Vec<u8> {
    let most = match (served.judge)(args.offset, u64::from(args.count)) {
        Answer::Right => usize::MAX,
        Answer::Short(most) => most,
        Answer::Fail(status) => return fail(status, &PostOpAttr::None),
    };
    let size = served.content.len();
    let start = usize::try_from(args.offset).unwrap().min(size);
    let len = usize::try_from(args.count)
        .unwrap()
        .min(most)
        .min(size - start);
    let data = &served.content[start..start + len];
    ok(&ReadOk {
        file_attributes: Some(reg(size as u64)),
        count: u32::try_from(len).unwrap(),
        eof: start + len == size,
        data,
    })
}

fn other(served: &Served, call: &Call<'_>) -> Vec<u8> {
    match call {
        Call::Fsinfo(_) => ok(&FsinfoOk {
            rtpref: u32::try_from(TRANSFER).unwrap(),
            ..fsinfo()
        }),
        Call::Lookup(_) => ok(&LookupOk {
            object: handle(b"file"),
            obj_attributes: Some(reg(served.content.len() as u64)),
            dir_attributes: None,
        }),
        call => good(call.procedure()),
    }
}

/// Reads `len` bytes at `offset`, which must be there and right.
async fn read_right(file: &File, server: &Server, offset: u64, len: usize) {
    let read = timeout(HANG, file.read_at(offset, len)).await;
    let read = read.expect("the read hangs").unwrap();
    let start = usize::try_from(offset).unwrap();
    let right = server.with(|served| {
        let end = served.content.len().min(start + len);
        assert_eq!(read.eof, end == served.content.len(), "at {offset}");
        read.data[..] == served.content[start..end]
    });
    assert!(right, "{len} bytes at {offset} differ");
}

/// Everything from `offset` on, as the stream gives it, until it ends or fails.
async fn drain(file: &File, offset: u64) -> (Vec<u8>, Option<ClientError>) {
    let mut all = Vec::new();
    let mut stream = file.stream(offset);
    loop {
        match timeout(HANG, stream.next())
            .await
            .expect("the stream hangs")
        {
            Ok(Some(data)) => all.extend_from_slice(&data),
            Ok(None) => return (all, None),
            Err(error) => {
                assert!(matches!(stream.next().await, Ok(None)), "over after it");
                return (all, Some(error));
            }
        }
    }
}

#[tokio::test]
async fn a_stream_asks_each_byte_once_and_nothing_beyond_the_end() {
    for depth in [Depth::Fixed(1), Depth::Fixed(7), Depth::Measured] {
        for len in [1, TRANSFER - 1, TRANSFER, TRANSFER + 1, 100 * TRANSFER + 5] {
            let windows = Windows {
                read: depth,
                ..Windows::default()
            };
            let (server, file) = served(len, windows).await;
            let (all, error) = drain(&file, 0).await;
            assert!(error.is_none() && all == content(len), "{depth:?} {len}");
            server.assert_each_byte_once();
            let reads = server.asked().len() as u64;
            let most = len.div_ceil(TRANSFER);
            // Larger ones may be tried where that is measured.
            let right = reads == most || depth == Depth::Measured && reads < most;
            assert!(right, "{depth:?} {len}: {reads}, not {most}");
        }
    }
}

/// The server prefers 16 KiB and takes 1 MiB, and what a READ costs it has nothing to do with its size. On a clock of
/// its own: what the machine does besides would be measured too.
#[tokio::test(start_paused = true)]
async fn reads_grow_where_calls_cost_much() {
    const TRANSFERS: u64 = 1500;
    let (server, file) = served(TRANSFERS * TRANSFER, Windows::default()).await;
    server.with(|served| served.call = Duration::from_millis(2));
    let (all, error) = drain(&file, 0).await;
    assert!(error.is_none() && all == content(TRANSFERS * TRANSFER));
    server.assert_each_byte_once();
    let asked = server.asked();
    let most = asked.iter().map(|(_, len)| *len).max().unwrap();
    assert!(most >= 4 * TRANSFER, "{most}");
    assert!(asked.len() as u64 <= TRANSFERS / 2, "{}", asked.len());
    // They begin at multiples of their size.
    let aligned = |(at, len): &(u64, u64)| at % len.next_power_of_two() == 0;
    let odd = asked.iter().filter(|asked| !aligned(asked)).count();
    assert!(odd <= 8, "{odd} of {}", asked.len());
}

#[tokio::test]
async fn an_empty_file_is_asked_for_once() {
    let (server, file) = served(0, Windows::default()).await;
    assert_eq!(drain(&file, 0).await.0, b"");
    let read = file.read_at(0, 10).await.unwrap();
    assert_eq!((&read.data[..], read.eof), (&b""[..], true));
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn sequential_reads_of_any_size_ask_each_byte_once() {
    for step in [1000, 4096, 15_000, TRANSFER, TRANSFER + 1, 5 * TRANSFER] {
        let (server, file) = served(40 * TRANSFER + 17, fixed(4)).await;
        let mut at = 0;
        while at < 40 * TRANSFER + 17 {
            read_right(&file, &server, at, usize::try_from(step).unwrap()).await;
            at += step;
        }
        server.assert_each_byte_once();
        let asked = server.asked();
        assert!(asked.iter().all(|(_, len)| *len <= TRANSFER));
        // The window is at work: most READs are whole transfers.
        let whole = asked.iter().filter(|(_, len)| *len == TRANSFER).count();
        assert!(whole >= 36, "step {step}: {whole} of {}", asked.len());
    }
}

#[tokio::test]
async fn readers_at_once_and_out_of_order_ask_each_byte_once() {
    // As a kernel cuts a large read: parts of it at once, and the answers come in any order.
    let (server, file) = served(64 * TRANSFER, fixed(4)).await;
    let server = &server;
    for group in 0..64 {
        let parts = [0, 1, 2, 3].map(|part| {
            let offset = group * TRANSFER + part * TRANSFER / 4;
            read_right(
                &file,
                server,
                offset,
                usize::try_from(TRANSFER / 4).unwrap(),
            )
        });
        let [a, b, c, d] = parts;
        tokio::join!(a, b, c, d);
    }
    server.assert_each_byte_once();
}

#[tokio::test]
async fn random_reads_ask_exactly_what_is_wanted() {
    let (server, file) = served(400 * TRANSFER, Windows::default()).await;
    let mut wanted = Vec::new();
    let mut number = 88_172_645_463_325_252_u64;
    for _ in 0..300 {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        let offset = number % (400 * TRANSFER / 4096) * 4096;
        read_right(&file, &server, offset, 4096).await;
        wanted.push((offset, 4096));
    }
    assert_eq!(server.asked(), wanted);
}

#[tokio::test]
async fn strided_reads_are_asked_ahead_and_each_once() {
    let (server, file) = served(400 * TRANSFER, fixed(3)).await;
    let stride = 3 * TRANSFER;
    for read in 0..40 {
        read_right(&file, &server, 100 + read * stride, 512).await;
    }
    server.until("three ahead", |asked| asked.len() == 43).await;
    let wanted: Vec<_> = (0..43).map(|read| (100 + read * stride, 512)).collect();
    let mut asked = server.asked();
    asked.sort_unstable();
    assert_eq!(asked, wanted);
}

/// READs asked for so far, in the order of the file.
fn in_order(server: &Server) -> Vec<(u64, u64)> {
    let mut asked = server.asked();
    asked.sort_unstable();
    asked
}

/// So many READs of a transfer each, from the one with this number on.
fn row(first: u64, count: u64) -> Vec<(u64, u64)> {
    let transfers = first..first + count;
    transfers.map(|n| (n * TRANSFER, TRANSFER)).collect()
}

#[tokio::test]
async fn who_says_sequential_has_the_full_window_with_the_first_read() {
    let (server, file) = served(100 * TRANSFER, fixed(4)).await;
    file.advise(Hint::Sequential);
    read_right(&file, &server, 50 * TRANSFER, 4096).await;
    server.until("the window", |asked| asked.len() == 4).await;
    assert_eq!(in_order(&server), row(50, 4));
    // Another open of the file was told nothing.
    let (server, client) = served_client(100 * TRANSFER, fixed(4)).await;
    let told = client.open(b"file").await.unwrap();
    told.advise(Hint::Sequential);
    let other = client.open(b"file").await.unwrap();
    read_right(&other, &server, 50 * TRANSFER, 4096).await;
    assert_eq!(server.asked(), [(50 * TRANSFER, 4096)]);
    // A clone is the same open.
    read_right(&told.clone(), &server, 10 * TRANSFER, 4096).await;
    server.until("the window", |asked| asked.len() == 5).await;
    assert_eq!(in_order(&server)[..4], row(10, 4));
}

#[tokio::test]
async fn who_says_random_is_read_nothing_ahead() {
    let (server, file) = served(100 * TRANSFER, fixed(4)).await;
    file.advise(Hint::Random);
    let mut wanted = Vec::new();
    for n in 0..40 {
        read_right(&file, &server, n * 4096, 4096).await;
        wanted.push((n * 4096, 4096));
    }
    // Reads of several transfers have what they ask for on its way at once, and no more.
    read_right(&file, &server, 50 * TRANSFER, 3 * TRANSFER as usize).await;
    wanted.extend(row(50, 3));
    assert_eq!(in_order(&server), wanted);
    // Nor a stream.
    let mut stream = file.stream(60 * TRANSFER);
    stream.next().await.unwrap();
    wanted.extend(row(60, 1));
    assert_eq!(in_order(&server), wanted);
    file.advise(Hint::Normal);
    stream.next().await.unwrap();
    server
        .until("a window", |asked| asked.len() > wanted.len() + 1)
        .await;
}

#[tokio::test]
async fn who_says_noreuse_leaves_nothing_behind() {
    for (hint, times) in [(Hint::Normal, 1), (Hint::NoReuse, 2)] {
        let (server, file) = served(100 * TRANSFER, fixed(4)).await;
        file.advise(hint);
        for offset in [0, 4096] {
            read_right(&file, &server, offset, 4096).await;
        }
        // What lies between was read ahead, and is passed over.
        read_right(&file, &server, 2 * TRANSFER, 4096).await;
        read_right(&file, &server, TRANSFER, 4096).await;
        let asked = server.asked();
        let again = asked.iter().filter(|(offset, _)| *offset == TRANSFER);
        assert_eq!(again.count(), times, "{hint}: {asked:?}");
    }
}

#[tokio::test]
async fn what_will_be_needed_is_asked_for_at_once_and_each_once() {
    let (server, file) = served(100 * TRANSFER, fixed(8)).await;
    file.advise(Hint::WillNeed {
        offset: 10 * TRANSFER,
        len: 2 * TRANSFER + 100,
    });
    let wanted = [row(10, 2), vec![(12 * TRANSFER, 100)]].concat();
    server.until("all of it", |asked| asked.len() == 3).await;
    assert_eq!(in_order(&server), wanted);
    let len = 2 * TRANSFER as usize + 100;
    read_right(&file, &server, 10 * TRANSFER, len).await;
    assert_eq!(in_order(&server), wanted, "it was here");
    // No more than the window has room for, and nothing beyond the end of the file.
    let (server, file) = served(5 * TRANSFER, fixed(3)).await;
    file.advise(Hint::WILL_NEED_ALL);
    server.until("a window", |asked| asked.len() == 3).await;
    assert_eq!(in_order(&server), row(0, 3));
    file.advise(Hint::WillNeed {
        offset: u64::MAX,
        len: u64::MAX,
    });
    read_right(&file, &server, 0, 5 * TRANSFER as usize).await;
    server.assert_each_byte_once();
}

#[tokio::test]
async fn a_reader_that_stops_leaves_one_window() {
    let (server, file) = served(100 * TRANSFER, fixed(5)).await;
    let mut stream = file.stream(0);
    for _ in 0..3 {
        stream.next().await.unwrap();
    }
    let ahead: Vec<_> = (0..8).map(|n| (n * TRANSFER, TRANSFER)).collect();
    server.until("its window", |asked| asked.len() >= 8).await;
    // Other calls go and come: nothing more is asked for.
    for _ in 0..20 {
        file.stat().await.unwrap();
    }
    assert_eq!(server.asked(), ahead);
}

#[tokio::test]
async fn what_nobody_comes_for_is_forgotten() {
    let (server, file) = served(100 * TRANSFER, fixed(2)).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let mut stream = file.stream(0);
    stream.next().await.unwrap();
    // The task that forgets ends when there is nothing left.
    assert!(tasks() > before);
    until("the window is forgotten", || tasks() == before).await;
    // What is wanted after all is asked for again.
    assert_eq!(
        stream.next().await.unwrap().unwrap()[..],
        content(2 * TRANSFER)[16_384..]
    );
    let asked = server.asked();
    let again = asked.iter().filter(|(offset, _)| *offset == TRANSFER);
    assert_eq!(again.count(), 2);
}

#[tokio::test]
async fn dropping_a_file_ends_its_reads() {
    let (server, client) = served_client(100 * TRANSFER, fixed(8)).await;
    let file = client.open(b"file").await.unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    server.with(|served| served.together = usize::MAX);
    let mut stream = file.stream(0);
    let waiting = timeout(Duration::from_millis(1), stream.next()).await;
    assert!(waiting.is_err());
    server
        .until("8 on their way", |asked| asked.len() == 8)
        .await;
    drop((file, stream));
    until("no task is left", || tasks() == before).await;
    drop(client);
}

#[tokio::test]
async fn late_and_unordered_replies_are_put_in_order() {
    let (server, file) = served(40 * TRANSFER, fixed(4)).await;
    server.with(|served| served.together = 4);
    let (all, error) = drain(&file, 0).await;
    assert!(error.is_none() && all == content(40 * TRANSFER));
    server.assert_each_byte_once();
}

#[tokio::test]
async fn short_replies_are_continued() {
    let (server, file) = served(10 * TRANSFER + 3, fixed(3)).await;
    server.judge(|_, _| Answer::Short(3000));
    let (all, error) = drain(&file, 0).await;
    assert!(error.is_none() && all == content(10 * TRANSFER + 3));
    read_right(&file, &server, 5, 50_000).await;
}

#[tokio::test]
async fn an_error_is_told_where_it_is() {
    const BAD: u64 = 10 * TRANSFER + 100;
    let (server, client) = served_client(20 * TRANSFER, fixed(4)).await;
    let file = client.open(b"file").await.unwrap();
    // What is before the bad byte can be read, by READs that do not begin behind it.
    server.judge(|offset, count| match offset {
        _ if offset > BAD || offset + count <= BAD => Answer::Right,
        BAD => Answer::Fail(Nfsstat3::Io),
        _ => Answer::Short(usize::try_from(BAD - offset).unwrap()),
    });
    let (all, error) = drain(&file, 0).await;
    assert!(all[..] == content(BAD)[..], "{} bytes", all.len());
    let error = error.expect("an error");
    assert_eq!(error.status(), Some(Nfsstat3::Io), "{error}");
    assert_eq!(error.to_string().split(':').next(), Some("file"));
    // Small reads around it fail only where it is.
    let file = client.open(b"file").await.unwrap();
    for at in (0..20 * TRANSFER).step_by(4096) {
        let read = timeout(HANG, file.read_at(at, 4096)).await.unwrap();
        if (at..at + 4096).contains(&BAD) {
            assert_eq!(read.unwrap_err().status(), Some(Nfsstat3::Io));
        } else {
            assert_eq!(read.unwrap().data.len(), 4096, "at {at}");
        }
    }
}

#[tokio::test]
async fn a_server_that_refuses_large_reads_over_a_bad_place_gives_the_good_ones() {
    const BAD: u64 = 10 * TRANSFER + 9000;
    let (server, file) = served(20 * TRANSFER, fixed(4)).await;
    server.judge(|offset, count| {
        if (offset..offset + count).contains(&BAD) {
            Answer::Fail(Nfsstat3::Io)
        } else {
            Answer::Right
        }
    });
    for at in (0..20 * TRANSFER).step_by(4096) {
        let read = timeout(HANG, file.read_at(at, 4096)).await.unwrap();
        assert_eq!(read.is_err(), (at..at + 4096).contains(&BAD), "at {at}");
    }
}

#[tokio::test]
async fn a_failure_ahead_that_is_over_when_it_matters_is_never_told() {
    let (server, file) = served(20 * TRANSFER, fixed(4)).await;
    let mut stream = file.stream(0);
    assert!(stream.next().await.unwrap().is_some());
    // The READs on their way now, of transfers 5 to 8, fail; the stream waits for none of them.
    server.judge(|offset, _| match offset / TRANSFER {
        5.. => Answer::Fail(Nfsstat3::Serverfault),
        _ => Answer::Right,
    });
    for _ in 1..5 {
        assert!(stream.next().await.unwrap().is_some());
    }
    server.until("all ahead", |asked| asked.len() >= 9).await;
    // A call that comes back after them: their replies are here.
    file.stat().await.unwrap();
    server.judge(|_, _| Answer::Right);
    let mut all = Vec::new();
    while let Some(data) = stream.next().await.unwrap() {
        all.extend_from_slice(&data);
    }
    assert!(all[..] == content(20 * TRANSFER)[usize::try_from(5 * TRANSFER).unwrap()..]);
}

#[tokio::test]
async fn files_that_grow_and_shrink_are_read_as_they_are() {
    let (server, file) = served(10 * TRANSFER, fixed(4)).await;
    read_right(&file, &server, 9 * TRANSFER, 1 << 20).await;
    // Grown: what was its end is none any more.
    server.with(|served| served.content = content(12 * TRANSFER));
    read_right(&file, &server, 9 * TRANSFER, 1 << 20).await;
    assert!(drain(&file, 0).await.0 == content(12 * TRANSFER));
    // Shrunk under a stream: it ends where the file ends.
    let mut stream = file.stream(0);
    stream.next().await.unwrap();
    server
        .until("the window", |asked| {
            asked.iter().filter(|(at, _)| *at == 4 * TRANSFER).count() >= 2
        })
        .await;
    server.with(|served| {
        served
            .content
            .truncate(usize::try_from(6 * TRANSFER + 9).unwrap())
    });
    let mut all = Vec::new();
    while let Some(data) = stream.next().await.unwrap() {
        all.extend_from_slice(&data);
    }
    assert!(all[..] == content(6 * TRANSFER + 9)[usize::try_from(TRANSFER).unwrap()..]);
}

#[tokio::test]
async fn memory_bounds_the_windows_and_stops_nobody() {
    let windows = Windows {
        read: Depth::Fixed(64),
        memory_bytes_max: 4 * TRANSFER,
        ..Windows::default()
    };
    let (server, client) = served_client(60 * TRANSFER, windows).await;
    let file = client.open(b"file").await.unwrap();
    let (server, file) = (&server, &file);
    let readers = [0, 1, 2, 3, 4, 5].map(|reader| async move {
        let start = reader * TRANSFER;
        let (all, error) = drain(file, start).await;
        let wanted =
            server.with(|served| served.content[usize::try_from(start).unwrap()..].to_vec());
        assert!(error.is_none() && all == wanted, "reader {reader}");
    });
    let [a, b, c, d, e, f] = readers;
    tokio::join!(a, b, c, d, e, f);
    let (peak, _) = client.window_bytes();
    assert!(peak <= 4 * TRANSFER, "{peak}");
    // Who keeps all that it gets holds no reader up, not even itself.
    let mut kept = Vec::new();
    let mut stream = file.stream(0);
    while let Some(data) = timeout(HANG, stream.next()).await.unwrap().unwrap() {
        kept.push(data);
    }
    assert_eq!(
        kept.iter().map(bytes::Bytes::len).sum::<usize>() as u64,
        60 * TRANSFER
    );
    let many = (0..20).map(|n| file.read_at(n * TRANSFER, 16_384));
    for read in many {
        kept.push(timeout(HANG, read).await.unwrap().unwrap().data);
    }
}

#[tokio::test]
async fn interleaved_readers_have_windows_of_their_own() {
    let (server, file) = served(120 * TRANSFER, fixed(3)).await;
    for step in 0..120 {
        for reader in [0, 40, 80] {
            let offset = reader * TRANSFER + step * 4096;
            read_right(&file, &server, offset, 4096).await;
        }
    }
    let mut asked = server.asked();
    asked.sort_unstable();
    let apart = asked
        .windows(2)
        .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
    assert!(apart, "{asked:?}");
    // 30 transfers read by each, and its window.
    let bytes: u64 = asked.iter().map(|(_, len)| len).sum();
    assert!(bytes <= 3 * 33 * TRANSFER, "{bytes}");
    assert!(asked.len() < 3 * 50, "{}", asked.len());
}
