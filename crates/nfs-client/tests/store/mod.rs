//! A server of one file, with a disk and a cache that it loses when it restarts; each call is answered as
//! the test wants: at once or when told, in parts, or not at all.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::{Arc, Mutex, MutexGuard};

use nfs_client::mount3::Mount3;
use nfs_client::nfs3::{
    CommitOk, Fattr3, Ftype3, GetattrOk, LookupOk, Nfsstat3, StableHow, WccAttr, WccData, WriteOk,
};
use nfs_client::{
    Client, ConnectOptions, Connection, Depth, File, Identity, Nfs3, RawConnection, Windows,
};
use nfs_wire::Decoder;
use nfs_wire::nfs3::{Call, Procedure, ReadOk};
use nfs_wire::rpc::CallHeader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::answers::{HANG, attributes, fail, fsinfo, good, handle, ok, time};

/// Bytes of a WRITE in the tests.
pub(crate) const TRANSFER: u32 = 100;

/// So many WRITEs on their way at the most.
pub(crate) fn windows(depth: u32) -> Windows {
    Windows {
        write: Depth::Fixed(depth),
        ..Windows::default()
    }
}

/// What a test writes, different everywhere.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| u8::try_from(i * 7 % 251 + 1).unwrap())
        .collect()
}

/// What `future` gives, which must not hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(HANG, future).await.expect("it hangs")
}

/// What the server does with a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Answer,
    /// A WRITE takes so many bytes at most.
    Short(usize),
    /// A WRITE is put on the disk at once, however it was asked.
    Stable(StableHow),
    Status(Nfsstat3),
    /// The server restarts before it looks at the call, and then answers.
    Restart,
    /// Nothing is done before the test lets it.
    Hold,
    /// It is done; the answer goes out when the test lets it.
    Late,
}

type Script = Box<dyn FnMut(&str, usize) -> Action + Send>;

pub(crate) struct Store {
    pub(crate) disk: Vec<u8>,
    /// The bytes that a READ gives, stable or not.
    pub(crate) cache: Vec<u8>,
    verifier: u64,
    changes: u32,
    /// All calls in the order they came.
    pub(crate) calls: Vec<String>,
    script: Script,
    held: Vec<Held>,
    /// The credential's flavor of each WRITE and COMMIT.
    pub(crate) flavors: Vec<u32>,
    /// WRITEs that came and were not answered.
    in_flight: usize,
    pub(crate) in_flight_max: usize,
}

struct Held {
    what: String,
    xid: u32,
    work: Work,
}

enum Work {
    /// A WRITE that was received and is not executed yet: offset, stability, data.
    Write(u64, StableHow, Vec<u8>),
    Commit,
    Setattr(Option<u64>),
    /// A call that was executed, with its results.
    Done(Vec<u8>),
}

/// The test's side of it.
pub(crate) struct Server {
    store: Arc<Mutex<Store>>,
    replies: mpsc::UnboundedSender<Vec<u8>>,
    arrived: Arc<Notify>,
    pub(crate) client: Client,
}

impl Server {
    /// A server that does what `script` says to a call's text ("WRITE 0+100 UNSTABLE", "COMMIT",
    /// "SETATTR 7") and number among those of its procedure; WRITEs have at most `transfer` bytes.
    pub(crate) async fn new(
        transfer: u32,
        windows: Windows,
        script: impl FnMut(&str, usize) -> Action + Send + 'static,
    ) -> Self {
        let store = Arc::new(Mutex::new(Store {
            disk: Vec::new(),
            cache: Vec::new(),
            verifier: 1,
            changes: 1,
            calls: Vec::new(),
            script: Box::new(script),
            held: Vec::new(),
            flavors: Vec::new(),
            in_flight: 0,
            in_flight_max: 0,
        }));
        let (replies, outbox) = mpsc::unbounded_channel();
        let arrived = Arc::new(Notify::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().into();
        tokio::spawn(serve(
            listener,
            (store.clone(), replies.clone(), arrived.clone()),
            outbox,
        ));
        let connection = Connection::connect(target, ConnectOptions::default())
            .await
            .unwrap();
        let nfs = Nfs3::new(connection.clone(), Identity::none());
        let mount = Mount3::new(connection, Identity::none());
        let client = Client::from_root(nfs, mount, handle(b"root"))
            .await
            .unwrap()
            // Less than any server is believed to take at the most.
            .with_windows(Windows {
                transfer_bytes_max: transfer,
                ..windows
            });
        Self {
            store,
            replies,
            arrived,
            client,
        }
    }

    pub(crate) async fn open(&self) -> File {
        self.client.open(b"file").await.unwrap()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// The calls so far that begin with one of the words.
    pub(crate) fn calls(&self, words: &[&str]) -> Vec<String> {
        let calls = &self.store().calls;
        let wanted = |call: &&String| words.iter().any(|word| call.starts_with(word));
        calls.iter().filter(wanted).cloned().collect()
    }

    /// Waits until `count` calls that begin with `word` have come.
    pub(crate) async fn until(&self, word: &str, count: usize) {
        let wait = async {
            loop {
                let arrived = self.arrived.notified();
                if self.calls(&[word]).len() >= count {
                    return;
                }
                arrived.await;
            }
        };
        let came = timeout(HANG, wait).await;
        came.unwrap_or_else(|_| panic!("waits for {count} {word}: {:?}", self.store().calls));
    }

    /// Lets the held call `which` (0 is the oldest, wraps around) be done and answered.
    pub(crate) fn let_go(&self, which: usize) {
        self.let_go_as(which, Action::Answer);
    }

    /// As [`Self::let_go`], with what is done to it if that waited, too.
    pub(crate) fn let_go_as(&self, which: usize, action: Action) {
        let mut store = self.store();
        let which = which % store.held.len();
        let held = store.held.remove(which);
        let results = match held.work {
            Work::Done(results) => results,
            work => store.work(&work, action),
        };
        if held.what.starts_with("WRITE") {
            store.in_flight -= 1;
        }
        self.replies.send(reply(held.xid, results)).unwrap();
    }

    pub(crate) fn held(&self) -> Vec<String> {
        self.store()
            .held
            .iter()
            .map(|held| held.what.clone())
            .collect()
    }

    pub(crate) fn restart(&self) {
        self.store().restart();
    }

    /// Somebody else changes the file.
    pub(crate) fn change(&self) {
        self.store().changes += 1;
    }
}

impl Store {
    pub(crate) fn set_script(
        &mut self,
        script: impl FnMut(&str, usize) -> Action + Send + 'static,
    ) {
        self.script = Box::new(script);
    }

    fn restart(&mut self) {
        self.verifier += 1;
        self.cache = self.disk.clone();
    }

    fn attributes(&self) -> Fattr3 {
        Fattr3 {
            size: self.cache.len() as u64,
            mtime: time(self.changes),
            ctime: time(self.changes),
            ..attributes(Ftype3::Reg)
        }
    }

    fn state(&self) -> WccAttr {
        let Fattr3 {
            size, mtime, ctime, ..
        } = self.attributes();
        WccAttr { size, mtime, ctime }
    }

    fn work(&mut self, work: &Work, action: Action) -> Vec<u8> {
        if matches!(action, Action::Restart) {
            self.restart();
        }
        let before = Some(self.state());
        if let Action::Status(status) = action {
            let after = Some(self.attributes());
            return fail(status, &WccData { before, after });
        }
        let verf = self.verifier.to_be_bytes();
        match work {
            Work::Write(offset, stable, data) => {
                let count = match action {
                    Action::Short(count) => count.min(data.len()),
                    _ => data.len(),
                };
                let committed = match action {
                    Action::Stable(stable) => stable,
                    _ => *stable,
                };
                let offset = usize::try_from(*offset).unwrap();
                put(&mut self.cache, offset, &data[..count]);
                if committed != StableHow::Unstable {
                    put(&mut self.disk, offset, &data[..count]);
                }
                self.changes += 1;
                ok(&WriteOk {
                    file_wcc: self.wcc(before),
                    count: u32::try_from(count).unwrap(),
                    committed,
                    verf,
                })
            }
            Work::Commit => {
                self.disk = self.cache.clone();
                ok(&CommitOk {
                    file_wcc: self.wcc(before),
                    verf,
                })
            }
            Work::Setattr(size) => {
                if let Some(size) = size.map(|size| usize::try_from(size).unwrap()) {
                    self.cache.resize(size, 0);
                    self.disk.resize(size, 0);
                }
                self.changes += 1;
                ok(&self.wcc(before))
            }
            Work::Done(results) => results.clone(),
        }
    }

    fn wcc(&self, before: Option<WccAttr>) -> WccData {
        let after = Some(self.attributes());
        WccData { before, after }
    }

    /// The results of a call, unless the answer has to wait.
    fn take(&mut self, xid: u32, call: Call<'_>) -> Option<Vec<u8>> {
        let (what, work) = match call {
            Call::Write(args) => {
                let how = match args.stable {
                    StableHow::Unstable => "UNSTABLE",
                    StableHow::DataSync => "DATA_SYNC",
                    StableHow::FileSync => "FILE_SYNC",
                };
                let what = format!("WRITE {}+{} {how}", args.offset, args.data.len());
                let data = args.data.to_vec();
                (what, Work::Write(args.offset, args.stable, data))
            }
            Call::Commit(_) => ("COMMIT".to_owned(), Work::Commit),
            Call::Setattr(args) => {
                let size = args.new_attributes.size;
                (format!("SETATTR {size:?}"), Work::Setattr(size))
            }
            Call::Getattr(_) => {
                let obj_attributes = self.attributes();
                let results = ok(&GetattrOk { obj_attributes });
                ("GETATTR".to_owned(), Work::Done(results))
            }
            Call::Read(args) => {
                let start = usize::try_from(args.offset).unwrap().min(self.cache.len());
                let end = start + usize::try_from(args.count).unwrap();
                let data = &self.cache[start..end.min(self.cache.len())];
                let results = ok(&ReadOk {
                    file_attributes: Some(self.attributes()),
                    count: u32::try_from(data.len()).unwrap(),
                    eof: end >= self.cache.len(),
                    data,
                });
                (
                    format!("READ {}+{}", args.offset, args.count),
                    Work::Done(results),
                )
            }
            Call::Lookup(_) => {
                let results = ok(&LookupOk {
                    object: handle(b"file"),
                    obj_attributes: Some(self.attributes()),
                    dir_attributes: None,
                });
                ("LOOKUP".to_owned(), Work::Done(results))
            }
            Call::Fsinfo(_) => {
                return Some(ok(&fsinfo()));
            }
            call => return Some(good(call.procedure())),
        };
        let word = what.split(' ').next().unwrap_or_default();
        let number = self.calls.iter().filter(|call| call.starts_with(word));
        let number = number.count();
        self.calls.push(what.clone());
        let write = matches!(work, Work::Write(..));
        self.in_flight += usize::from(write);
        self.in_flight_max = self.in_flight_max.max(self.in_flight);
        let action = (self.script)(&what, number);
        let work = match action {
            Action::Hold => work,
            Action::Late => Work::Done(self.work(&work, Action::Answer)),
            action => {
                self.in_flight -= usize::from(write);
                return Some(self.work(&work, action));
            }
        };
        self.held.push(Held { what, xid, work });
        None
    }
}

fn put(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

fn reply(xid: u32, results: Vec<u8>) -> Vec<u8> {
    let head = [xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    [head, results].concat()
}

type Shared = (
    Arc<Mutex<Store>>,
    mpsc::UnboundedSender<Vec<u8>>,
    Arc<Notify>,
);

async fn serve(
    listener: TcpListener,
    (store, replies, arrived): Shared,
    mut outbox: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    let stream = listener.accept().await.unwrap().0.into_std().unwrap();
    let sending = TcpStream::from_std(stream.try_clone().unwrap()).unwrap();
    tokio::spawn(async move {
        let mut peer = RawConnection::from_stream(sending);
        while let Some(record) = outbox.recv().await {
            if peer.send_record(&record).await.is_err() {
                return;
            }
        }
    });
    let mut peer = RawConnection::from_stream(TcpStream::from_std(stream).unwrap());
    while let Ok(Some(record)) = peer.receive_record().await {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let procedure = Procedure::try_from(header.procedure).unwrap();
        let call = Call::decode(procedure, &mut d).unwrap();
        let mut store = store.lock().unwrap();
        if matches!(call, Call::Write(_) | Call::Commit(_)) {
            store.flavors.push(header.credential.flavor);
        }
        let results = store.take(header.xid, call);
        drop(store);
        if let Some(results) = results {
            replies.send(reply(header.xid, results)).unwrap();
        }
        arrived.notify_waiters();
    }
}
