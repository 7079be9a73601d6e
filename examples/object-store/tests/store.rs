//! The store on a real server, held to what object_store asks of its own stores, and what is NFS's own.
//!
//! `PENSTOCK_SERVER` names the program: `cargo xtask test --long` gives the one that it has built.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use futures_util::{StreamExt as _, TryStreamExt as _};
use nfs_object_store::NfsStore;
use object_store::integration::{
    copy_if_not_exists, copy_rename_nonexistent_object, get_opts, list_uses_directories_correctly,
    list_with_delimiter, list_with_offset_exclusivity, multipart_out_of_order, put_get_delete_list,
    put_opts, rename_and_copy, stream_get,
};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};
use tempfile::TempDir;

/// `penstock serve` over a directory of its own; killed when dropped.
struct Served {
    process: Child,
    url: String,
    files: TempDir,
    _state: TempDir,
}

impl Served {
    fn start() -> Self {
        let program = std::env::var_os("PENSTOCK_SERVER");
        let program = program.expect("PENSTOCK_SERVER: the path of a penstock program");
        let (files, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut process = Command::new(program)
            .arg("serve")
            .arg(files.path())
            .args(["--listen", "127.0.0.1:0", "--no-rpcbind", "--state-dir"])
            .arg(state.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = said.map_while(Result::ok);
        let address = said.find_map(|line| Some(line.strip_prefix("listening ")?.to_owned()));
        let url = format!(
            "nfs://{}",
            address.expect("the server says where it listens")
        );
        std::thread::spawn(move || said.for_each(drop));
        Self {
            process,
            url,
            files,
            _state: state,
        }
    }

    async fn store(&self, below: &str) -> NfsStore {
        let url = format!("{}/{below}", self.url);
        NfsStore::mount(&url.parse().unwrap()).await.unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[tokio::test]
async fn it_is_an_object_store() {
    let served = Served::start();
    let store = &served.store("").await;
    put_get_delete_list(store).await;
    list_with_offset_exclusivity(store).await;
    get_opts(store).await;
    list_uses_directories_correctly(store).await;
    list_with_delimiter(store).await;
    rename_and_copy(store).await;
    copy_if_not_exists(store).await;
    copy_rename_nonexistent_object(store).await;
    stream_get(store).await;
    multipart_out_of_order(store).await;
    put_opts(store, false).await;
}

#[tokio::test]
async fn what_is_not_complete_is_no_object() {
    let served = Served::start();
    let store = served.store("").await;
    let path = Path::from("a/b/object");
    let mut upload = store.put_multipart(&path).await.unwrap();
    upload.put_part("half of ".into()).await.unwrap();
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    assert_eq!(listed, [], "an upload is listed");
    assert!(matches!(
        store.get(&path).await.unwrap_err(),
        Error::NotFound { .. }
    ));
    upload.put_part("it".into()).await.unwrap();
    upload.complete().await.unwrap();
    let data = store.get(&path).await.unwrap().bytes().await.unwrap();
    assert_eq!(data, "half of it");

    let mut upload = store.put_multipart(&path).await.unwrap();
    upload.put_part("other".into()).await.unwrap();
    upload.abort().await.unwrap();
    let there = std::fs::read_dir(served.files.path().join("a/b")).unwrap();
    assert_eq!(there.count(), 1, "something was left behind");
    let refused = store
        .put(&Path::parse("#upload-x").unwrap(), "".into())
        .await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn of_many_that_create_an_object_one_does() {
    let served = Served::start();
    let store = served.store("").await;
    let from = Path::from("from");
    store.put(&from, "x".into()).await.unwrap();
    let path = Path::from("taken");
    let creations = (0..16).map(|_| store.copy_if_not_exists(&from, &path));
    let done: Vec<_> = futures_util::stream::iter(creations)
        .buffer_unordered(16)
        .collect()
        .await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1);
    for failed in done.into_iter().filter_map(Result::err) {
        assert!(matches!(failed, Error::AlreadyExists { .. }), "{failed}");
    }
}

#[tokio::test]
async fn a_store_is_a_directory_and_ranges_are_read() {
    let served = Served::start();
    std::fs::create_dir(served.files.path().join("inner")).unwrap();
    let store = served.store("inner").await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    store
        .put(&Path::from("large"), data.clone().into())
        .await
        .unwrap();
    let there = std::fs::read(served.files.path().join("inner/large")).unwrap();
    assert!(there == data);
    let range = store
        .get_range(&Path::from("large"), 1_000_001..2_500_000)
        .await;
    assert!(range.unwrap() == data[1_000_001..2_500_000]);
    let options = GetOptions {
        range: Some(GetRange::Suffix(10)),
        ..GetOptions::default()
    };
    let last = store.get_opts(&Path::from("large"), options).await.unwrap();
    assert_eq!(last.bytes().await.unwrap(), data[data.len() - 10..]);
    // What no location can have is not an object, and does no harm.
    use std::os::unix::ffi::OsStrExt as _;
    let odd = std::ffi::OsStr::from_bytes(b"no\xffutf8");
    std::fs::write(served.files.path().join("inner").join(odd), "x").unwrap();
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
}
