//! Copies against a server in memory: how many calls a file costs, that a copy that differs is found,
//! and that errors cost only what they are about.

mod answers;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nfs_client::nfs3::{
    CommitOk, CreateHow, CreateOk, Fattr3, FileHandle, Ftype3, GetattrOk, LookupOk, Nfsstat3,
    PostOpAttr, SetTime, StableHow, WccData, WriteOk,
};
use nfs_client::transfer::{
    self, Event, Existing, Figures, Options, Place, Preserve, Remote, TransferError, Watch,
};
use nfs_client::{Client, ConnectOptions};
use nfs_io::{Errno, faults};
use nfs_wire::nfs3::{Call, Entry3, EntryPlus3, Filename, Procedure, ReadOk, ReaddirplusOk};
use tokio::time::timeout;

use answers::{HANG, attributes, client_with, fail, fsinfo, good, handle, ok};

/// An export of one directory of files, by name; a handle is the name.
#[derive(Default)]
struct Export {
    files: HashMap<Vec<u8>, (Fattr3, Vec<u8>)>,
    calls: Vec<Procedure>,
    stable: Vec<StableHow>,
    /// What is written to this name is kept wrong in one bit.
    bad: Option<Vec<u8>>,
    /// The file of this name cannot be read.
    unreadable: Option<Vec<u8>>,
    /// This name is listed without attributes, and cannot be looked up.
    unseen: Option<(Vec<u8>, Nfsstat3)>,
}

type Shared = Arc<Mutex<Export>>;

const NO_WCC: WccData = WccData {
    before: None,
    after: None,
};

impl Export {
    fn answer(&mut self, call: Call<'_>) -> Vec<u8> {
        self.calls.push(call.procedure());
        match call {
            Call::Fsinfo(_) => ok(&fsinfo()),
            Call::Getattr(args) => match self.attributes(&args.object) {
                Some(obj_attributes) => ok(&GetattrOk { obj_attributes }),
                None => fail(Nfsstat3::Stale, &()),
            },
            Call::Lookup(args) => {
                if let Some((name, status)) = &self.unseen
                    && name == args.what.name.0
                {
                    return fail(*status, &PostOpAttr::None);
                }
                let object = match args.what.name.0 {
                    b".." => handle(b"root"),
                    name => handle(name),
                };
                match self.attributes(&object) {
                    Some(found) => ok(&LookupOk {
                        object,
                        obj_attributes: Some(found),
                        dir_attributes: None,
                    }),
                    None => fail(Nfsstat3::Noent, &PostOpAttr::None),
                }
            }
            Call::Mkdir(args) => ok(&CreateOk {
                obj: Some(handle(args.where_.name.0)),
                obj_attributes: Some(attributes(Ftype3::Dir)),
                dir_wcc: NO_WCC,
            }),
            Call::Create(args) => {
                let name = args.where_.name.0;
                if self.files.contains_key(name) {
                    return fail(Nfsstat3::Exist, &NO_WCC);
                }
                let CreateHow::Guarded(new) = args.how else {
                    return fail(Nfsstat3::Notsupp, &NO_WCC);
                };
                let new = Fattr3 {
                    mode: new.mode.unwrap_or(0),
                    ..file(name, 0)
                };
                self.files.insert(name.to_vec(), (new, Vec::new()));
                ok(&CreateOk {
                    obj: Some(handle(name)),
                    obj_attributes: Some(new),
                    dir_wcc: NO_WCC,
                })
            }
            Call::Write(args) => {
                self.stable.push(args.stable);
                let is_bad = self.bad.as_deref() == Some(args.file.as_ref());
                let (attributes, content) = self.files.get_mut(args.file.as_ref()).unwrap();
                let start = usize::try_from(args.offset).unwrap();
                let end = start + args.data.len();
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(args.data);
                if is_bad {
                    content[start] ^= 4;
                }
                attributes.size = content.len() as u64;
                ok(&WriteOk {
                    file_wcc: NO_WCC,
                    count: u32::try_from(args.data.len()).unwrap(),
                    committed: args.stable,
                    verf: [7; 8],
                })
            }
            Call::Read(args) => {
                if self.unreadable.as_deref() == Some(args.file.as_ref()) {
                    return fail(Nfsstat3::Acces, &PostOpAttr::None);
                }
                let (_, content) = &self.files[args.file.as_ref()];
                let start = usize::try_from(args.offset).unwrap().min(content.len());
                let end = (start + usize::try_from(args.count).unwrap()).min(content.len());
                ok(&ReadOk {
                    file_attributes: None,
                    count: u32::try_from(end - start).unwrap(),
                    eof: end == content.len(),
                    data: &content[start..end],
                })
            }
            Call::Readlink(args) if self.unreadable.as_deref() == Some(args.symlink.as_ref()) => {
                fail(Nfsstat3::Io, &PostOpAttr::None)
            }
            Call::Setattr(args) => {
                if let Some((attributes, content)) = self.files.get_mut(args.object.as_ref()) {
                    let new = &args.new_attributes;
                    attributes.mode = new.mode.unwrap_or(attributes.mode);
                    if let SetTime::ClientTime(time) = new.mtime {
                        attributes.mtime = time;
                    }
                    if let Some(size) = new.size {
                        content.resize(usize::try_from(size).unwrap(), 0);
                        attributes.size = size;
                    }
                }
                ok(&NO_WCC)
            }
            Call::Commit(_) => ok(&CommitOk {
                file_wcc: NO_WCC,
                verf: [7; 8],
            }),
            Call::Readdirplus(_) => self.list(),
            call => good(call.procedure()),
        }
    }

    fn list(&self) -> Vec<u8> {
        ok(&ReaddirplusOk {
            dir_attributes: None,
            cookieverf: [0; 8],
            entries: {
                let files = self.files.iter().enumerate();
                files
                    .map(|(index, (name, (found, _)))| {
                        let unseen = self.unseen.as_ref().map(|(name, _)| name);
                        let entry = entry(index, name, found);
                        match unseen == Some(name) {
                            true => EntryPlus3 {
                                name_attributes: None,
                                name_handle: None,
                                ..entry
                            },
                            false => entry,
                        }
                    })
                    .collect()
            },
            eof: true,
        })
    }

    fn attributes(&self, object: &FileHandle) -> Option<Fattr3> {
        match object.as_ref() {
            b"root" | b"tree" => Some(attributes(Ftype3::Dir)),
            name => self.files.get(name).map(|(attributes, _)| *attributes),
        }
    }
}

fn entry<'a>(index: usize, name: &'a [u8], found: &Fattr3) -> EntryPlus3<'a> {
    let cookie = index as u64 + 1;
    EntryPlus3 {
        entry: Entry3 {
            fileid: cookie,
            name: Filename(name),
            cookie,
        },
        name_attributes: Some(*found),
        name_handle: Some(handle(name)),
    }
}

fn file(name: &[u8], size: u64) -> Fattr3 {
    let fileid = name
        .iter()
        .fold(1000, |sum, &byte| sum * 31 + u64::from(byte));
    Fattr3 {
        size,
        used: size.next_multiple_of(4096),
        fileid,
        ..attributes(Ftype3::Reg)
    }
}

async fn export() -> (Shared, Client) {
    let shared = Shared::default();
    let export = shared.clone();
    let options = ConnectOptions::default();
    let (nfs, mount) = client_with(options, move |call| export.lock().unwrap().answer(call)).await;
    let client = Client::from_root(nfs, mount, handle(b"root"));
    (shared, client.await.unwrap())
}

fn place(client: &Client, path: &str) -> Place {
    Place::Remote(Box::new(Remote {
        client: client.clone(),
        path: path.as_bytes().to_vec(),
        url: format!("nfs://server/{path}").parse().unwrap(),
    }))
}

async fn copy(from: Place, to: Place, options: &Options) -> (Figures, Vec<TransferError>) {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let told = errors.clone();
    let watch = Watch::new(move |event| {
        if let Event::Failed(error) = event {
            told.lock().unwrap().push(error.clone());
        }
    });
    let sources = [from];
    let copied = transfer::copy(&sources, &to, options, &watch);
    let figures = timeout(HANG, copied)
        .await
        .expect("the copy hangs")
        .unwrap();
    let errors = errors.lock().unwrap().clone();
    (figures, errors)
}

fn count(export: &Shared, procedure: Procedure) -> usize {
    let calls = &export.lock().unwrap().calls;
    calls.iter().filter(|&&call| call == procedure).count()
}

fn tree(options: Options) -> Options {
    Options {
        recursive: true,
        ..options
    }
}

/// A directory `tree` of so many files of 4 KiB, and one that is empty.
fn make_tree(at: &Path, files: usize) -> std::path::PathBuf {
    let root = at.join("tree");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    for index in 0..files {
        fs::write(root.join(format!("f{index}")), vec![b'a'; 4096]).unwrap();
    }
    root
}

/// As a file system on the network does that writes behind, and only tells at the end.
#[tokio::test]
async fn an_error_of_close_is_the_file_s() {
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("tree");
    fs::create_dir(&source).unwrap();
    // New and small, there before, and more than one piece.
    for (name, len) in [("new", 10), ("there", 10), ("long", 3 << 20), ("good", 10)] {
        fs::write(source.join(name), vec![b'c'; len]).unwrap();
    }
    let target = here.path().join("copy");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("there"), "before").unwrap();
    let full = ["new", "there", "long"].map(|name| {
        let rule = faults::Rule::new(faults::Call::Close, faults::Fault::Fail(Errno::DQUOT));
        rule.of_name(name.as_bytes()).inject()
    });
    let options = Options {
        onto: true,
        ..tree(Options::default())
    };
    let (figures, errors) = copy(Place::local(&source), Place::local(&target), &options).await;
    assert!(full.iter().all(|rule| rule.hits() == 1), "{full:?}");
    let mut told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    told.sort_unstable();
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, name) in told.iter().zip(["long", "new", "there"]) {
        assert!(told.contains(name) && told.contains("quota"), "{told}");
    }
    assert_eq!(figures.files_done, 1);
}

#[tokio::test]
async fn a_small_file_costs_two_calls_up_and_one_down() {
    const FILES: usize = 50;
    let here = tempfile::tempdir().unwrap();
    let source = make_tree(here.path(), FILES);
    let (shared, client) = export().await;
    let options = tree(Options::default());
    let (figures, errors) = copy(Place::local(&source), place(&client, ""), &options).await;
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        (figures.files_done, figures.bytes_done),
        (FILES as u64 + 1, 4096 * FILES as u64)
    );
    assert_eq!(count(&shared, Procedure::Mkdir), 1);
    assert_eq!(count(&shared, Procedure::Create), FILES + 1);
    assert_eq!(count(&shared, Procedure::Write), FILES);
    assert!(
        shared
            .lock()
            .unwrap()
            .stable
            .iter()
            .all(|how| *how == StableHow::FileSync)
    );
    for none in [Procedure::Commit, Procedure::Setattr] {
        assert_eq!(count(&shared, none), 0, "{none:?}");
    }
    // Of the directories, whatever the number of files.
    assert!(count(&shared, Procedure::Getattr) + count(&shared, Procedure::Lookup) <= 5);

    shared.lock().unwrap().calls.clear();
    let target = here.path().join("back");
    let (figures, errors) = copy(place(&client, ""), Place::local(&target), &options).await;
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(figures.files_done, FILES as u64 + 1);
    assert_eq!(count(&shared, Procedure::Read), FILES);
    assert_eq!(count(&shared, Procedure::Readdirplus), 1);
    let calls = shared.lock().unwrap().calls.len();
    assert!(calls <= FILES + 5, "{calls} calls");
    assert_eq!(fs::read(target.join("f7")).unwrap(), vec![b'a'; 4096]);
    assert_eq!(fs::read(target.join("empty")).unwrap(), b"");
}

#[tokio::test]
async fn times_cost_one_more_call_and_a_copy_that_is_there_none() {
    let here = tempfile::tempdir().unwrap();
    let source = make_tree(here.path(), 10);
    let (shared, client) = export().await;
    let keep = tree(Options {
        preserve: Preserve {
            mode: true,
            times: true,
            ..Preserve::default()
        },
        ..Options::default()
    });
    copy(Place::local(&source), place(&client, ""), &keep).await;
    // Each file's, and the directory's.
    assert_eq!(count(&shared, Procedure::Setattr), 12);
    assert_eq!(count(&shared, Procedure::Commit), 0);
    let again = Options {
        existing: Existing::Resume,
        ..keep
    };
    let before = shared.lock().unwrap().stable.len();
    let (figures, errors) = copy(Place::local(&source), place(&client, ""), &again).await;
    assert!(errors.is_empty() && figures.files_done == 11, "{errors:?}");
    assert_eq!(shared.lock().unwrap().stable.len(), before);
}

#[tokio::test]
async fn a_copy_that_differs_is_found() {
    let here = tempfile::tempdir().unwrap();
    let source = make_tree(here.path(), 3);
    let (shared, client) = export().await;
    shared.lock().unwrap().bad = Some(b"f1".to_vec());
    let options = tree(Options {
        verify: true,
        ..Options::default()
    });
    let (figures, errors) = copy(Place::local(&source), place(&client, ""), &options).await;
    assert_eq!((figures.failed, figures.files_done), (1, 3));
    let [
        TransferError::Differs {
            place: from,
            ours,
            theirs,
            ..
        },
    ] = errors.as_slice()
    else {
        panic!("{errors:?}");
    };
    assert!(from.to_string().ends_with("tree/f1") && ours != theirs);
    shared.lock().unwrap().bad = None;
    let (_, errors) = copy(Place::local(&source), place(&client, ""), &options).await;
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_costs_only_itself() {
    let here = tempfile::tempdir().unwrap();
    let (shared, client) = export().await;
    {
        let mut export = shared.lock().unwrap();
        for name in [&b"a"[..], b"b", b"c"] {
            export
                .files
                .insert(name.to_vec(), (file(name, 3), b"abc".to_vec()));
        }
        export.unreadable = Some(b"b".to_vec());
    }
    let target = here.path().join("tree");
    let options = tree(Options::default());
    let (figures, errors) = copy(place(&client, ""), Place::local(&target), &options).await;
    assert_eq!((figures.failed, figures.files_done), (1, 2));
    let error = errors[0].to_string();
    assert!(
        error.contains("nfs://server/b") && error.contains("permission denied"),
        "{error}"
    );
    assert!(!target.join("b").exists());
    assert_eq!(fs::read(target.join("c")).unwrap(), b"abc");
}

#[tokio::test]
async fn what_is_listed_and_cannot_be_looked_at_is_an_error() {
    let (shared, client) = export().await;
    for name in [&b"a"[..], b"b"] {
        let content = (file(name, 3), b"abc".to_vec());
        let mut export = shared.lock().unwrap();
        export.files.insert(name.to_vec(), content);
    }
    let options = tree(Options::default());
    // One that is gone by now is no error.
    for (status, failed) in [
        (Nfsstat3::Io, 1),
        (Nfsstat3::Acces, 1),
        (Nfsstat3::Noent, 0),
    ] {
        let here = tempfile::tempdir().unwrap();
        shared.lock().unwrap().unseen = Some((b"b".to_vec(), status));
        let (figures, errors) = copy(place(&client, ""), Place::local(here.path()), &options).await;
        assert_eq!(
            (figures.failed, figures.files_done),
            (failed, 1),
            "{errors:?}"
        );
        assert_eq!(fs::read(here.path().join("a")).unwrap(), b"abc");
    }
}

/// A small file with a hole in it takes two WRITEs, and the second may come first: what has the size is
/// not whole for that.
#[tokio::test]
async fn a_small_file_with_holes_is_not_taken_for_whole_when_a_copy_goes_on() {
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("small");
    let sparse = fs::File::create(&source).unwrap();
    let put =
        |offset| std::os::unix::fs::FileExt::write_all_at(&sparse, &[1; 4096], offset).unwrap();
    put(0);
    put(60 << 10);
    drop(sparse);
    let (shared, client) = export().await;
    // What was left: the first WRITE did not come.
    let left = Fattr3 {
        mtime: answers::time(u32::MAX),
        ..file(b"small", 64 << 10)
    };
    let mut content = vec![0; 60 << 10];
    content.extend([1; 4096]);
    shared
        .lock()
        .unwrap()
        .files
        .insert(b"small".to_vec(), (left, content));
    let options = Options {
        existing: Existing::Resume,
        ..Options::default()
    };
    let (_, errors) = copy(Place::local(&source), place(&client, "small"), &options).await;
    assert!(errors.is_empty(), "{errors:?}");
    let export = shared.lock().unwrap();
    assert!(export.files[&b"small"[..]].1 == fs::read(&source).unwrap());
}

/// An earlier run may have had a smaller transfer size (`wsize=`, or the server's), and was cut off between
/// two WRITEs: a later one reached the server, an earlier one did not.
#[tokio::test]
async fn a_file_that_fits_one_write_now_may_have_come_in_several() {
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("small");
    fs::write(&source, vec![1; 64 << 10]).unwrap();
    let options = Options {
        existing: Existing::Resume,
        ..Options::default()
    };
    for (missing, writes) in [(4096, 1), (0, 0)] {
        let (shared, client) = export().await;
        let left = Fattr3 {
            mtime: answers::time(u32::MAX),
            ..file(b"small", 64 << 10)
        };
        let content = [vec![0; missing], vec![1; (64 << 10) - missing]].concat();
        let there = (left, content);
        let name = b"small".to_vec();
        shared.lock().unwrap().files.insert(name, there);
        let (_, errors) = copy(Place::local(&source), place(&client, "small"), &options).await;
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(
            count(&shared, Procedure::Write),
            writes,
            "{missing} missing"
        );
        // What is left alone is on stable storage, as what is written is.
        assert_eq!(count(&shared, Procedure::Commit), 1);
        let export = shared.lock().unwrap();
        assert!(export.files[&b"small"[..]].1 == fs::read(&source).unwrap());
    }
}

#[tokio::test]
async fn a_link_that_cannot_be_read_does_not_cost_what_is_there() {
    let here = tempfile::tempdir().unwrap();
    let (shared, client) = export().await;
    let link = Fattr3 {
        ftype: Ftype3::Lnk,
        ..file(b"a", 3)
    };
    {
        let mut export = shared.lock().unwrap();
        export.files.insert(b"a".to_vec(), (link, Vec::new()));
        export.unreadable = Some(b"a".to_vec());
    }
    fs::write(here.path().join("a"), "there").unwrap();
    // So that it is looked at what is there before anything is made.
    let options = tree(Options {
        existing: Existing::ReplaceOlder,
        ..Options::default()
    });
    let (figures, _) = copy(place(&client, ""), Place::local(here.path()), &options).await;
    assert_eq!(figures.failed, 1);
    assert_eq!(fs::read(here.path().join("a")).unwrap(), b"there");
}

/// Numbers and times can be those of another file: images of one size made at one time have equal ones.
#[tokio::test]
async fn what_looks_like_the_source_is_it_only_with_its_content() {
    use std::os::unix::fs::MetadataExt as _;

    let here = tempfile::tempdir().unwrap();
    let there = here.path().join("a");
    fs::write(&there, "new").unwrap();
    let found = fs::metadata(&there).unwrap();
    let time = |seconds: i64, nanoseconds: i64| nfs_client::nfs3::Nfstime3 {
        seconds: u32::try_from(seconds).unwrap(),
        nseconds: u32::try_from(nanoseconds).unwrap(),
    };
    let alike = Fattr3 {
        fileid: found.ino(),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
        ..file(b"a", 3)
    };
    let (shared, client) = export().await;
    for (content, failed) in [("new", 0), ("old", 1)] {
        let content = (alike, content.as_bytes().to_vec());
        shared.lock().unwrap().files.insert(b"a".to_vec(), content);
        let options = Options::default();
        let (figures, errors) = copy(place(&client, "a"), Place::local(&there), &options).await;
        assert_eq!(figures.failed, failed, "{errors:?}");
        // It may be the source itself, which must not be cut.
        assert_eq!(fs::read(&there).unwrap(), b"new");
    }
}

#[tokio::test]
async fn a_large_file_is_committed_within_what_a_later_copy_counts_on() {
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("large");
    // Data, a hole far longer than what may be uncommitted, data.
    let file = fs::File::create(&source).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 10_000], 0).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[2; 10_000], 80 << 20).unwrap();
    drop(file);
    let (shared, client) = export().await;
    let (_, errors) = copy(
        Place::local(&source),
        place(&client, "large"),
        &Options::default(),
    )
    .await;
    assert!(errors.is_empty(), "{errors:?}");
    let export = shared.lock().unwrap();
    assert!(export.files[&b"large"[..]].1 == fs::read(&source).unwrap());
    // What is before the hole was brought to stable storage before anything behind it was sent.
    let commits = export
        .calls
        .iter()
        .filter(|&&call| call == Procedure::Commit)
        .count();
    let stable = export.stable.first() == Some(&StableHow::FileSync);
    assert!(commits >= 2 || stable, "{:?}", export.calls);
}
