//! One open regular file: reads ahead, writes behind, commits.
//!
//! Owns, for each file, however often it is open, the READs ahead of its readers (`ahead.rs`: one set for
//! each identity), what was written and is not yet on stable storage (`write.rs`), and its attributes
//! (`attributes.rs`). The last open takes all of that with it, but for WRITEs that are on their way: until
//! they are answered, or given up by the connection, the next open has to know of them.
//!
//! ```
//! # use std::sync::{Arc, Mutex};
//! # use nfs_client::nfs3::*;
//! # use nfs_client::{Connection, ConnectOptions, Identity, RawConnection, mount3::Mount3};
//! # use nfs_wire::nfs3::{Call, Procedure, ReadOk};
//! # use nfs_wire::{Decoder, encode_to_vec, rpc::CallHeader};
//! # fn attributes(size: usize) -> Fattr3 {
//! #     let time = Nfstime3 { seconds: 1, nseconds: 0 };
//! #     Fattr3 { ftype: Ftype3::Reg, mode: 0o644, nlink: 1, uid: 0, gid: 0, size: size as u64, used: 0,
//! #         rdev: Specdata3 { major: 0, minor: 0 }, fsid: 1, fileid: 2, atime: time, mtime: time, ctime: time }
//! # }
//! # fn answer(call: Call<'_>, content: &mut Vec<u8>) -> Vec<u8> {
//! #     let ok = |results: Vec<u8>| [vec![0; 4], results].concat();
//! #     match call {
//! #         Call::Create(_) => ok(encode_to_vec(&CreateOk { obj: Some(FileHandle::new(b"f").unwrap()),
//! #             obj_attributes: Some(attributes(0)), dir_wcc: WccData::default() })),
//! #         Call::Write(args) => {
//! #             let start = args.offset as usize;
//! #             content.resize(content.len().max(start + args.data.len()), 0);
//! #             content[start..start + args.data.len()].copy_from_slice(args.data);
//! #             ok(encode_to_vec(&WriteOk { file_wcc: WccData::default(), count: args.count,
//! #                 committed: args.stable, verf: [1; 8] }))
//! #         }
//! #         Call::Commit(_) => ok(encode_to_vec(&CommitOk { file_wcc: WccData::default(), verf: [1; 8] })),
//! #         Call::Getattr(_) => ok(encode_to_vec(&GetattrOk { obj_attributes: attributes(content.len()) })),
//! #         Call::Read(args) => {
//! #             let start = content.len().min(args.offset as usize);
//! #             let data = &content[start..content.len().min(start + args.count as usize)];
//! #             ok(encode_to_vec(&ReadOk { file_attributes: None, count: data.len() as u32,
//! #                 eof: start + data.len() == content.len(), data }))
//! #         }
//! #         _ => [0, 0, 39, 20, 0, 0, 0, 0].to_vec(),
//! #     }
//! # }
//! # async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
//! #     let mut peer = RawConnection::from_stream(listener.accept().await?.0);
//! #     let mut content = Vec::new();
//! #     while let Some(record) = peer.receive_record().await? {
//! #         let mut d = Decoder::new(&record);
//! #         let header = CallHeader::decode(&mut d).unwrap();
//! #         let procedure = Procedure::try_from(header.procedure).unwrap();
//! #         let results = answer(Call::decode(procedure, &mut d).unwrap(), &mut content);
//! #         let head = [header.xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
//! #         peer.send_record(&[head, results].concat()).await?;
//! #     }
//! #     Ok(())
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let target = listener.local_addr()?.into();
//! # tokio::spawn(serve(listener));
//! # let connection = Connection::connect(target, ConnectOptions::default()).await?;
//! # let mount = Mount3::new(connection.clone(), Identity::none());
//! # let nfs = Nfs3::new(connection, Identity::none());
//! # let client = nfs_client::Client::from_root(nfs, mount, FileHandle::new(b"root")?).await?;
//! let file = client.create(b"notes.txt", 0o644).await?;
//! file.write_at(0, "first line\n").await?;
//! file.append("second line\n").await?;
//! // Reads see what was written, on stable storage or not.
//! assert_eq!(file.read_at(6, 4).await?.data, "line");
//! file.sync().await?;
//! assert_eq!(file.committed(), 23);
//! // All of it, in order, read ahead of the loop.
//! let mut lines = file.stream(0);
//! while let Some(data) = lines.next().await? {
//!     assert_eq!(data, "first line\nsecond line\n");
//! }
//! // Only this tells that everything that was written is safe.
//! file.close().await?;
//! # Ok(())
//! # }
//! ```

mod ahead;
mod attributes;
mod commit;
mod left_behind;
mod memory;
mod pattern;
mod read;
mod statistics;
mod wcc;
mod window;
mod write;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use nfs_io::Budget;
use nfs_wire::nfs3::{Fattr3, FileHandle, Ftype3, Sattr3};
use tokio::time::Instant;

use self::ahead::Reading;
pub use self::read::{ReadAt, ReadStream};
pub use self::statistics::{CacheStatistics, WindowStatistics};

use self::attributes::Attributes;
use self::left_behind::LeftBehind;
use self::memory::{Memory, ServedFrom};
use self::write::{Opened, Writing};
use crate::error::{ClientError, printable, refused};
use crate::hint::Hint;
use crate::limits;
use crate::nfs::Nfs;
use crate::nfs3::Node;

/// How much of a file may be on its way at once. Kept by a
/// [`Client`](crate::Client) for all of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// READs in flight ahead of a reader.
    pub read: Depth,
    /// WRITEs in flight behind a writer.
    pub write: Depth,
    /// Largest READ and WRITE, bytes; the server's FSINFO caps it too.
    pub transfer_bytes_max: u32,
    /// Memory of all files' windows together, bytes: data read ahead, and data written that is not
    /// yet on stable storage.
    pub memory_bytes_max: u64,
}

/// How much a client moves per call, bytes: what the server prefers (FSINFO), capped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSizes {
    /// The bytes that one READ asks for.
    pub read: u32,
    /// Bytes that a READ may grow to where that is measured to pay: the server's maximum, capped.
    pub read_max: u32,
    /// The bytes that one WRITE carries at most.
    pub write: u32,
    /// Bytes of one READDIR or READDIRPLUS reply.
    pub directory: u32,
}

/// How deep a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Found from what is measured: grows while that pays, up to the cap in [`limits`].
    Measured,
    /// So many transfers, at least 1.
    Fixed(u32),
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            read: Depth::Measured,
            write: Depth::Measured,
            transfer_bytes_max: limits::TRANSFER_BYTES_MAX,
            memory_bytes_max: limits::MEMORY_BYTES_DEFAULT,
        }
    }
}

/// An open regular file. Clones share it; so do other opens of the same file with the same client, except
/// for the failures that each is told.
///
/// "Open" is this side's word: NFSv3 has no open, and over NFSv4 the file is opened there when the first byte is
/// moved. But what was written has to be brought to stable storage, and only [`File::sync`] and [`File::close`]
/// tell whether it came there.
///
/// # Failures
/// Data is accepted before it is sent, so a failure belongs to an earlier call. It is told once by the
/// next [`File::write_at`], [`File::append`], [`File::set_len`] or [`File::flush`], which then does
/// nothing else, and by every [`File::sync`] and by [`File::close`] since: nothing that was written
/// through this open is called safe any more. What was waiting to be sent is given up. Opening the file
/// again begins anew.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<Inner>,
    opened: Arc<Opened>,
    advised: Arc<Advised>,
}

#[derive(Debug)]
struct Inner {
    nfs: Nfs,
    handle: FileHandle,
    /// What messages call the file.
    path: Vec<u8>,
    /// This identity's: what it may read is not for others.
    reading: Arc<Reading>,
    shared: Arc<Shared>,
}

/// What all opens of one file share, whoever opened it.
#[derive(Debug)]
struct Shared {
    attributes: Arc<Attributes>,
    writing: Arc<Writing>,
    /// Those that are open, one for each identity.
    inners: Mutex<Vec<Weak<Inner>>>,
}

/// What was said last of one open of a file, other than that a part of it will be needed.
#[derive(Debug, Default)]
struct Advised(Mutex<Hint>);

impl Advised {
    fn set(&self, hint: Hint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hint;
    }

    fn now(&self) -> Hint {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of one client, with what bounds their windows.
///
/// Knows those that are open, so that all opens of one file see what each of them writes; and those
/// whose last open left WRITEs on their way, so that what comes later is ordered behind these.
#[derive(Debug)]
pub(crate) struct Files {
    transfer: TransferSizes,
    windows: Windows,
    /// What is said of each file as it is opened.
    hint: Hint,
    memory: Memory,
    known: Mutex<HashMap<FileHandle, Known>>,
    left_behind: LeftBehind,
}

/// A file that is known: as long as there is its [`Writing`].
#[derive(Debug)]
struct Known {
    /// There is one while the file is open.
    shared: Weak<Shared>,
    writing: Weak<Writing>,
}

impl File {
    /// Opens `node` as the identity of `nfs`. `path` is what messages call it.
    pub(crate) fn open(
        files: &Arc<Files>,
        nfs: &Nfs,
        node: &Node,
        path: &[u8],
    ) -> Result<Self, ClientError> {
        let what = match node.attributes.ftype {
            Ftype3::Reg => {
                // Clones of it are with all who read and write: the last of these closes the file.
                let nfs = &nfs.holding(&node.handle);
                let shared = files.open(nfs, node, path);
                let inner = shared.inner(files, nfs, node, path);
                let opened = Arc::new(inner.shared.writing.opened(nfs));
                let file = Self {
                    inner,
                    opened,
                    advised: Arc::default(),
                };
                file.advise(files.hint);
                return Ok(file);
            }
            Ftype3::Dir => "directory",
            Ftype3::Lnk => "symbolic link",
            Ftype3::Blk => "block device",
            Ftype3::Chr => "character device",
            Ftype3::Sock => "socket",
            Ftype3::Fifo => "fifo",
        };
        Err(ClientError::NotAFile {
            path: printable(path),
            what,
        })
    }

    /// The handle that the server knows the file by.
    pub fn handle(&self) -> &FileHandle {
        &self.inner.handle
    }

    /// The attributes, at most [`limits::ATTRIBUTES_AGE_MAX`] old; asked for if this client cannot tell
    /// that it alone has changed the file. The size counts what was written and is still on its way.
    pub async fn stat(&self) -> Result<Fattr3, ClientError> {
        let written = self.inner.shared.writing.end();
        let known = self.inner.shared.attributes.fresh(Instant::now());
        let memory = self.inner.shared.writing.memory();
        match known {
            Some(attributes) => {
                memory.served(ServedFrom::Known);
                Ok(self.inner.with_written(attributes, written))
            }
            None => {
                memory.served(ServedFrom::Getattr);
                self.refresh().await
            }
        }
    }

    /// As [`File::stat`], but always asks the server (GETATTR).
    pub async fn refresh(&self) -> Result<Fattr3, ClientError> {
        let written = self.inner.shared.writing.end();
        let attributes = self.inner.getattr().await?;
        Ok(self.inner.with_written(attributes, written))
    }

    /// As [`File::stat`], once all that was accepted for writing is at the server: its times count that,
    /// too, as programs expect of times. Says nothing of writes that failed.
    pub async fn settled(&self) -> Result<Fattr3, ClientError> {
        self.inner.shared.writing.arrived().await;
        self.stat().await
    }

    /// How often this client has seen that somebody else changed the file while it was open.
    pub fn foreign_changes(&self) -> u64 {
        self.inner.shared.attributes.foreign_changes()
    }

    /// Sets the length, bytes (SETATTR), after what was written before it.
    pub async fn set_len(&self, len: u64) -> Result<(), ClientError> {
        self.inner.shared.writing.tell_new(&self.opened)?;
        let new = Sattr3 {
            size: Some(len),
            ..Sattr3::default()
        };
        self.set_attributes(&new).await.map(drop)
    }

    /// Changes attributes (SETATTR), after what was written before. Returns the attributes after it, if
    /// the server told them. A failure of an earlier write is neither told nor forgotten here.
    pub async fn set_attributes(&self, new: &Sattr3) -> Result<Option<Fattr3>, ClientError> {
        let Inner { nfs, shared, .. } = &*self.inner;
        shared.writing.set_attributes(nfs, *new).await
    }

    /// Says how this open of the file, with its clones, will be read from now on. Another open of it is not
    /// told. Costs nothing but for [`Hint::WillNeed`], which sends READs; it waits for nothing either way.
    pub fn advise(&self, hint: Hint) {
        match hint {
            Hint::WillNeed { offset, len } => {
                let end = offset.saturating_add(len);
                self.inner.reading.will_need(offset..end);
            }
            Hint::Normal | Hint::Sequential | Hint::Random | Hint::NoReuse => {
                self.advised.set(hint);
            }
        }
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the file. Waits for what was written
    /// there to be at the server.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<ReadAt, ClientError> {
        let end = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        loop {
            let seen = self.inner.shared.writing.visible(offset, end).await;
            let hint = self.advised.now();
            let read = self.inner.read_at(offset, len, hint).await?;
            if self.inner.shared.writing.still_good(seen) {
                return Ok(read);
            }
        }
    }

    /// The file's bytes from `offset` to its end, in order, with READs in flight ahead of the reader.
    pub fn stream(&self, offset: u64) -> ReadStream {
        ReadStream::new(self.clone(), offset)
    }

    /// Writes `data` at `offset`. Returns when the data is taken over, not when it is at the server: an
    /// error may be told by a later call, and at the latest by [`File::sync`] or [`File::close`]. Waits
    /// while the window or the memory is full.
    ///
    /// Pieces of at least a quarter of a transfer are sent from where they are; smaller ones are
    /// copied together with their neighbours, and wait for these up to [`limits::WRITE_LINGER`].
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), ClientError> {
        let data = data.into();
        self.inner
            .shared
            .writing
            .write_at(&self.opened, offset, data)
            .await
    }

    /// Writes `data` at the end of the file as this client knows it, and returns where that was, bytes.
    /// Appends of this client never overlap. NFSv3 has no append: two clients that append at once
    /// overwrite each other.
    pub async fn append(&self, data: impl Into<Bytes>) -> Result<u64, ClientError> {
        let size = async || match self.inner.shared.attributes.fresh(Instant::now()) {
            Some(attributes) => Ok(attributes.size),
            None => Ok(self.inner.getattr().await?.size),
        };
        let data = data.into();
        self.inner
            .shared
            .writing
            .append(&self.opened, data, size)
            .await
    }

    /// Brings everything written so far to the server, which may still lose it.
    pub async fn flush(&self) -> Result<(), ClientError> {
        self.inner.shared.writing.flush(&self.opened).await
    }

    /// Brings everything written so far to stable storage (COMMIT).
    ///
    /// # Errors
    /// Also those of earlier writes: see [`File`].
    pub async fn sync(&self) -> Result<(), ClientError> {
        self.inner.shared.writing.sync(&self.opened).await
    }

    /// How far the file is on stable storage: all bytes below this that were written by this client
    /// since the file was opened are there. For a file that is written in order, where to go on.
    pub fn committed(&self) -> u64 {
        self.inner.shared.writing.committed()
    }

    /// As [`File::sync`], at the end of the file's use. Dropping all of a file's opens without it gives
    /// up what is not yet on stable storage. A WRITE that is on its way then cannot be called back: what
    /// the same client does to the file next waits for it.
    pub async fn close(self) -> Result<(), ClientError> {
        self.sync().await
    }
}

impl Inner {
    /// The server's attributes of this moment.
    async fn getattr(&self) -> Result<Fattr3, ClientError> {
        let look = self.shared.attributes.look();
        let seen = match self.nfs.getattr(&self.handle).await? {
            Ok(ok) => ok.obj_attributes,
            Err(failure) => return Err(refused("GETATTR", &self.path, failure.status)),
        };
        if !self.shared.attributes.looked(look, &seen, Instant::now()) {
            self.shared.writing.each_reading(Reading::invalidate_all);
        }
        Ok(seen)
    }

    /// With a size that counts what is on its way, and what was when the attributes were asked for,
    /// `written`: that may have come to the server since, and after it looked.
    fn with_written(&self, attributes: Fattr3, written: u64) -> Fattr3 {
        let size = attributes.size.max(self.shared.writing.end()).max(written);
        Fattr3 { size, ..attributes }
    }
}

impl Shared {
    /// The part of it that is the client's identity's.
    fn inner(
        self: Arc<Self>,
        files: &Arc<Files>,
        nfs: &Nfs,
        node: &Node,
        path: &[u8],
    ) -> Arc<Inner> {
        let mut inners = self.inners.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = nfs.identity();
        let same = |inner: &Arc<Inner>| inner.nfs.identity() == identity;
        let open: Vec<_> = inners.iter().filter_map(Weak::upgrade).collect();
        if let Some(inner) = open.iter().find(|&inner| same(inner)) {
            let inner = inner.clone();
            // What else was upgraded here may end here, and not under the lock.
            drop(inners);
            return inner;
        }
        let reading = Reading::new(files, nfs, node, path);
        let (seen, writing) = (self.attributes.clone(), Arc::downgrade(&self.writing));
        reading.observe(move |attributes| {
            if !seen.seen(attributes)
                && let Some(writing) = writing.upgrade()
            {
                writing.each_reading(Reading::invalidate_all);
            }
        });
        self.writing.add_reading(&reading);
        let inner = Arc::new(Inner {
            nfs: nfs.clone(),
            handle: node.handle,
            path: path.to_vec(),
            reading,
            shared: self.clone(),
        });
        inners.retain(|inner| inner.strong_count() > 0);
        inners.push(Arc::downgrade(&inner));
        drop(inners);
        inner
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.writing.left();
    }
}

impl Files {
    /// No file yet; `windows` together may take `windows.memory_bytes_max`.
    pub(crate) fn new(transfer: TransferSizes, windows: Windows) -> Self {
        Self {
            transfer,
            windows,
            hint: Hint::Normal,
            memory: Memory::new(windows.memory_bytes_max),
            known: Mutex::default(),
            left_behind: LeftBehind::default(),
        }
    }

    /// The same, where `hint` is said of each file as it is opened.
    pub(crate) fn hinted(self, hint: Hint) -> Self {
        Self { hint, ..self }
    }

    /// What is said of each file as it is opened.
    pub(crate) fn hint(&self) -> Hint {
        self.hint
    }

    /// How many bytes each kind of call moves.
    pub(crate) fn transfer_sizes(&self) -> TransferSizes {
        self.transfer
    }

    /// How much may be on its way.
    pub(crate) fn windows(&self) -> Windows {
        self.windows
    }

    /// The memory of all windows together: what it has given out, and the most that it ever had.
    pub(crate) fn budget(&self) -> &Budget {
        self.memory.budget()
    }

    fn open(self: &Arc<Self>, nfs: &Nfs, node: &Node, path: &[u8]) -> Arc<Shared> {
        let mut files = self.lock();
        let known = files.get(&node.handle);
        if let Some(shared) = known.and_then(|known| known.shared.upgrade()) {
            drop(files);
            if !shared.attributes.seen(&node.attributes) {
                shared.writing.each_reading(Reading::invalidate_all);
            }
            return shared;
        }
        let left = known.and_then(|known| known.writing.upgrade());
        let writing = left.unwrap_or_else(|| {
            let attributes = Arc::new(Attributes::new(node.attributes, Instant::now()));
            Writing::new(self, nfs, node, path, attributes)
        });
        writing.entered();
        let shared = Arc::new(Shared {
            attributes: writing.attributes().clone(),
            writing,
            inners: Mutex::default(),
        });
        let known = Known {
            shared: Arc::downgrade(&shared),
            writing: Arc::downgrade(&shared.writing),
        };
        files.insert(node.handle, known);
        drop(files);
        // Of a file that is known for its WRITEs, this may tell something new.
        if !shared.attributes.seen(&node.attributes) {
            shared.writing.each_reading(Reading::invalidate_all);
        }
        shared
    }

    /// Changes attributes in order with what is written to the file, if it is open or WRITEs of it are
    /// on their way.
    pub(crate) async fn set_attributes(
        &self,
        nfs: &Nfs,
        handle: &FileHandle,
        new: &Sattr3,
    ) -> Option<Result<Option<Fattr3>, ClientError>> {
        let (_open, writing) = {
            let files = self.lock();
            let known = files.get(handle)?;
            // Open until it is done: what was written before is not given up meanwhile.
            (known.shared.upgrade(), known.writing.upgrade()?)
        };
        Some(writing.set_attributes(nfs, *new).await)
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Forgets the file, unless it is known anew.
    fn forget(&self, handle: &FileHandle) {
        let mut files = self.lock();
        let known = files.get(handle);
        if known.is_some_and(|known| known.writing.strong_count() == 0) {
            files.remove(handle);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileHandle, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
