//! A second front, for tests: operations on files asked for in lines of text, without a word of NFS. It shows
//! that `vfs` stands by itself: its handles, identities, data and errors are its own, and no rule of NFSv3 is in
//! it.

use std::sync::Arc;
use std::time::Instant;

use nfs_io::engine::Engine;
use nfs_io::{Budget, BufferPool, Creds, Errno, FileData, LocalGid, LocalUid, PoolLimits};
use tempfile::TempDir;

use crate::exports::ExportTable;
use crate::exports::config::{Config, ExportConfig, ServerConfig};
use crate::exports::policy::OpenAs;
use crate::operate::trace::CallId;
use crate::vfs::fh::Handle;
use crate::vfs::{
    Access, Actor, Author, EntryName, Error, NewNode, Payload, Precondition, Result, SetAttributes,
    Stability, Step, Target, Turn, Vfs,
};

/// Somebody who types lines, with the files they are about and the identity they run under.
struct Lines {
    vfs: Arc<Vfs>,
    engine: Engine,
    buffers: BufferPool,
    who: Creds,
    owner_goes_on: bool,
    _state: TempDir,
}

const MIB: u64 = 1 << 20;

impl Lines {
    fn over(files: &TempDir, who: Creds) -> Self {
        let state = tempfile::tempdir().unwrap();
        let export = ExportConfig::new(files.path(), "/");
        let config = Config::from_flags(ServerConfig::default(), vec![export]);
        let budget = Budget::new(16 * MIB);
        let resources = crate::vfs::Resources {
            pool: PoolLimits::default(),
            ring: false,
            fds_max: 256,
            write_budget: budget.clone(),
            read_budget: Budget::new(16 * MIB),
        };
        let exports = ExportTable::new(&config).unwrap();
        let vfs = Vfs::open(state.path(), exports, resources).unwrap();
        Self {
            engine: Engine::threads(vfs.pool.clone()),
            vfs: Arc::new(vfs),
            buffers: BufferPool::new(budget),
            who,
            owner_goes_on: false,
            _state: state,
        }
    }

    /// Does what a line says, and answers with another.
    async fn line(&self, line: &str) -> String {
        match self.run(line).await {
            Ok(answer) => answer,
            Err(error) => format!("failed: {error}"),
        }
    }

    async fn run(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let (directory, name) = self.place(words.get(1).unwrap_or(&"")).await?;
        let entry = EntryName::new(name.as_bytes());
        match *words.as_slice() {
            ["list", _] => self.list(&self.reached(directory, name).await?).await,
            ["read", _] => self.read(&self.reached(directory, name).await?).await,
            ["write", _, text] => {
                let file = NewNode::File(Precondition::Unchecked);
                let set = SetAttributes::default();
                let (made, _) = self.vfs.create(&directory, entry?, file, set).await;
                let target = directory.with_object(made?.object);
                self.write(&target, text).await
            }
            ["hide", _] => {
                let hidden = SetAttributes {
                    mode: Some(0),
                    ..SetAttributes::default()
                };
                let target = self.reached(directory, name).await?;
                let set = self.vfs.set_attributes(&target, hidden, |_ctime| true);
                set.await.0.map(|()| "hidden".to_owned())
            }
            ["mkdir", _] => {
                let set = SetAttributes::default();
                let made = self.vfs.create(&directory, entry?, NewNode::Directory, set);
                made.await.0.map(|_| "made".to_owned())
            }
            ["move", _, to] => {
                let (to, to_name) = self.place(to).await?;
                let to_name = EntryName::new(to_name.as_bytes())?;
                let moved = self.vfs.rename(&directory, entry?, &to, to_name).await.0;
                moved.map(|()| "moved".to_owned())
            }
            ["remove", _] => {
                let removed = self.vfs.remove(&directory, entry?, false).await.0;
                removed.map(|()| "removed".to_owned())
            }
            _ => Err(Error::Invalid),
        }
    }

    /// The directory that the last name of a path is in, and that name; every step goes through a handle.
    async fn place<'p>(&self, path: &'p str) -> Result<(Target, &'p str)> {
        let trees = self.vfs.trees.load_full();
        let (export, _) = trees.table.find_by_pseudo(b"/").ok_or(Error::Stale)?;
        let tree = trees.by_id(export.id).ok_or(Error::Stale)?;
        let mut at = self.by_handle(self.vfs.root(tree)?.handle).await?;
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        for step in above.split('/').filter(|name| !name.is_empty()) {
            at = self.reached(at, step).await?;
        }
        Ok((at, name))
    }

    async fn reached(&self, directory: Target, name: &str) -> Result<Target> {
        let step = match name {
            "" => Step::Itself,
            ".." => Step::Parent,
            name => Step::Entry(EntryName::new(name.as_bytes())?),
        };
        let (object, _) = self.vfs.lookup(&directory, step).await.0?;
        self.by_handle(object.handle).await
    }

    async fn by_handle(&self, handle: Handle) -> Result<Target> {
        let located = self.vfs.locate(&handle).await?;
        let (turn, now) = (Turn::default(), Instant::now());
        let actor = Actor {
            creds: self.who.clone(),
            writable: true,
            owner_goes_on: self.owner_goes_on,
            opened_for: Access::NONE,
            open: OpenAs::default(),
            allowance: None,
            author: Author(1),
            call: CallId::new(1, ([127, 0, 0, 1].into(), 1), now),
            call_note: None,
        };
        let opened = self.vfs.open_located(located, &turn, &actor, now);
        let (tree, object) = opened.await?;
        Ok(Target {
            tree,
            object,
            actor,
        })
    }

    async fn list(&self, directory: &Target) -> Result<String> {
        let listing = self.vfs.read_directory(directory, 0, MIB, false, |_| true);
        let entries = listing.await?.entries;
        let mut names: Vec<String> = entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        Ok(names.join(" "))
    }

    async fn read(&self, file: &Target) -> Result<String> {
        let read = self.vfs.read(&self.engine, file, (0, 4096), false);
        let done = read.await?;
        let FileData::Copied(data) = &done.data else {
            unreachable!("so little is always copied");
        };
        Ok(String::from_utf8_lossy(data).into_owned())
    }

    async fn write(&self, file: &Target, text: &str) -> Result<String> {
        let mut data = self.buffers.try_take(text.len()).ok_or(Error::Busy)?;
        data.copy_from_slice(text.as_bytes());
        let payload = Payload { data, copied: 0 };
        let (engine, sync) = (&self.engine, Stability::FileSync);
        let (done, wcc) = self.vfs.write(engine, file, 0, payload, sync).await;
        let size = wcc.after.map_or(0, |after| after.stat.size);
        Ok(format!("{} bytes, size {size}", done?.count))
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

#[test]
fn files_are_served_without_a_word_of_nfs() {
    let files = tempfile::tempdir().unwrap();
    let own = nfs_io::identity::ServerIdentity::current().creds().clone();
    let lines = Lines::over(&files, own);
    block_on(async {
        for (line, answer) in [
            ("mkdir a", "made"),
            ("write a/one first", "5 bytes, size 5"),
            ("write a/one 2nd", "3 bytes, size 5"),
            ("read a/one", "2ndst"),
            ("move a/one a/two", "moved"),
            ("list a", "two"),
            ("list a/..", "a"),
            ("remove a/two", "removed"),
            ("list a", ""),
        ] {
            assert_eq!(lines.line(line).await, answer, "{line}");
        }
        let gone = Error::Errno(Errno::NOENT);
        assert_eq!(lines.run("read a/two").await, Err(gone));
        assert_eq!(lines.run("mkdir a/..").await, Err(Error::BadName));
    });
    assert_eq!(files.path().join("a").read_dir().unwrap().count(), 0);
}

/// That the owner of a file may go on with it is NFSv3's need, and no rule of the files.
#[test]
fn a_front_says_whether_the_mode_binds_the_owner() {
    let server = nfs_io::identity::ServerIdentity::current();
    let files = tempfile::tempdir().unwrap();
    // As root a user without rights; elsewhere the server's own user, whom the mode binds.
    let who = if server.can_switch() {
        let (uid, gid) = (LocalUid(4711), LocalGid(4711));
        std::os::unix::fs::chown(files.path(), Some(uid.0), Some(gid.0)).unwrap();
        Creds::new(uid, gid, &[])
    } else {
        server.creds().clone()
    };
    let mut lines = Lines::over(&files, who);
    block_on(async {
        assert_eq!(lines.line("write own text").await, "4 bytes, size 4");
        assert_eq!(lines.line("hide own").await, "hidden");
        let refused = Error::Errno(Errno::ACCESS);
        assert_eq!(lines.run("read own").await, Err(refused));
        lines.owner_goes_on = true;
        if server.can_switch() {
            assert_eq!(lines.line("read own").await, "text");
        }
    });
}
