use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

fn identity(ino: u64) -> Identity {
    Identity {
        export: 1,
        file_system: 64,
        ino,
        btime: Some((1_700_000_000, 5)),
    }
}

fn location(parent: TableId, name: &str) -> Location {
    Location {
        parent: parent.number,
        name: name.as_bytes().to_vec(),
    }
}

fn object(identity: Identity, at: Location) -> NewObject {
    NewObject {
        identity,
        parent: at.parent,
        name: at.name,
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    table: HandleTable,
    root: TableId,
}

impl Fixture {
    fn new(objects_max: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let table = HandleTable::open(&directory.path().join("handles.redb"), objects_max).unwrap();
        let root = table.root(identity(2)).unwrap();
        Self {
            directory,
            table,
            root,
        }
    }

    fn reopened(self) -> Self {
        drop(self.table);
        let path = self.directory.path().join("handles.redb");
        let table = HandleTable::open(&path, limits::HANDLE_TABLE_OBJECTS_MAX).unwrap();
        Self { table, ..self }
    }

    fn intern(&self, ino: u64, at: Location) -> TableId {
        let new = object(identity(ino), at);
        self.table.intern(vec![new]).unwrap()[0]
    }

    fn intern_at_root(&self, ino: u64, name: &str) -> TableId {
        self.intern(ino, location(self.root, name))
    }

    fn names(&self, id: TableId) -> Vec<String> {
        let object = self.table.object(id).unwrap();
        let locations = object.map(|object| object.locations).unwrap_or_default();
        locations
            .into_iter()
            .map(|at| String::from_utf8(at.name).unwrap())
            .collect()
    }
}

#[test]
fn ids_are_stable_over_calls_and_restarts() {
    let fixture = Fixture::new(100);
    let a = fixture.intern_at_root(10, "a");
    let b = fixture.intern_at_root(11, "b");
    assert!(a != b && a != fixture.root);
    assert_eq!(fixture.intern_at_root(10, "a"), a);
    let (root, fixture) = (fixture.root, fixture.reopened());
    assert_eq!(fixture.table.root(identity(2)).unwrap(), root);
    assert_eq!(fixture.intern_at_root(11, "b"), b);
    let object = fixture.table.object(a).unwrap().unwrap();
    assert_eq!(
        object,
        Object {
            identity: identity(10),
            locations: vec![location(root, "a")]
        }
    );
    assert_eq!(
        fixture.intern_at_root(12, "c").number,
        b.number + 1,
        "an id was given twice or skipped"
    );
}

#[test]
fn what_differs_in_any_part_of_its_identity_is_another_object() {
    let fixture = Fixture::new(100);
    let base = Identity {
        btime: None,
        ..identity(10)
    };
    let others = [
        base,
        Identity { export: 2, ..base },
        Identity {
            file_system: 65,
            ..base
        },
        Identity { ino: 11, ..base },
        Identity {
            btime: Some((0, 0)),
            ..base
        },
        Identity {
            btime: Some((0, 1)),
            ..base
        },
    ];
    let batch = others.map(|identity| object(identity, location(fixture.root, "x")));
    let ids = fixture.table.intern(batch.to_vec()).unwrap();
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), others.len());
    for (id, identity) in ids.iter().zip(others) {
        assert_eq!(
            fixture.table.object(*id).unwrap().unwrap().identity,
            identity
        );
    }
}

#[test]
fn hard_links_are_more_locations_up_to_a_limit() {
    let fixture = Fixture::new(100);
    let id = fixture.intern_at_root(10, "n0");
    for link in 1..=limits::HANDLE_TABLE_LOCATIONS_MAX {
        assert_eq!(fixture.intern_at_root(10, &format!("n{link}")), id);
    }
    let names = fixture.names(id);
    assert_eq!(names.len(), limits::HANDLE_TABLE_LOCATIONS_MAX);
    assert_eq!((names[0].as_str(), names[7].as_str()), ("n8", "n1"));
    // The name that was forgotten is learned again when it is seen again.
    fixture.intern_at_root(10, "n0");
    assert_eq!(fixture.names(id)[0], "n0");
}

#[test]
fn a_rename_moves_the_location_and_takes_that_of_its_target() {
    let fixture = Fixture::new(100);
    let (a, b) = (
        fixture.intern_at_root(10, "a"),
        fixture.intern_at_root(11, "b"),
    );
    fixture.intern_at_root(11, "link to b");
    let directory = fixture.intern_at_root(12, "d").number;
    let (table, root) = (&fixture.table, fixture.root.number);
    table.renamed((root, b"a"), (directory, b"b")).unwrap();
    assert_eq!(table.paths(a).unwrap(), [b"d/b"]);
    table.renamed((directory, b"b"), (root, b"b")).unwrap();
    let fixture = fixture.reopened();
    assert_eq!(fixture.table.paths(a).unwrap(), [b"b"]);
    assert_eq!(fixture.names(b), ["link to b"]);
    // Of a name that was never handed out nothing is known and nothing is written.
    fixture
        .table
        .renamed((directory, b"x"), (directory, b"y"))
        .unwrap();
    assert_eq!(fixture.table.objects().unwrap(), 4);
}

#[test]
fn a_renamed_directory_takes_all_below_it_along() {
    let fixture = Fixture::new(100);
    let directory = fixture.intern_at_root(10, "d");
    let inner = fixture.intern(11, location(directory, "e"));
    let file = fixture.intern(12, location(inner, "f"));
    assert_eq!(fixture.table.paths(file).unwrap(), [b"d/e/f"]);
    fixture
        .table
        .renamed((fixture.root.number, b"d"), (fixture.root.number, b"moved"))
        .unwrap();
    assert_eq!(fixture.table.paths(file).unwrap(), [b"moved/e/f"]);
    assert_eq!(fixture.table.paths(fixture.root).unwrap(), [b""; 0]);
}

#[test]
fn ways_that_close_to_a_circle_end() {
    let fixture = Fixture::new(100);
    let a = fixture.intern_at_root(10, "a");
    let b = fixture.intern(11, location(a, "b"));
    fixture.intern(10, location(b, "a"));
    assert_eq!(fixture.table.paths(b).unwrap()[0].first(), Some(&b'a'));
    assert!(fixture.table.paths(b).unwrap().len() <= limits::HANDLE_TABLE_PATHS_MAX);
}

#[test]
fn a_rename_between_two_names_of_one_object_keeps_it() {
    // rename(2) leaves both names in place then; the table keeps at least one.
    let fixture = Fixture::new(100);
    let a = fixture.intern_at_root(10, "a");
    let root = fixture.root.number;
    fixture.table.linked(a.number, root, b"b").unwrap();
    fixture.table.renamed((root, b"a"), (root, b"b")).unwrap();
    assert_eq!(fixture.names(a), ["b"]);
    fixture.table.renamed((root, b"b"), (root, b"b")).unwrap();
    assert_eq!(fixture.names(a), ["b"]);
}

#[test]
fn an_object_is_forgotten_with_its_last_name() {
    let fixture = Fixture::new(100);
    let a = fixture.intern_at_root(10, "a");
    let root = fixture.root.number;
    fixture.table.linked(a.number, root, b"link").unwrap();
    fixture.table.removed(root, b"a").unwrap();
    assert_eq!(fixture.names(a), ["link"]);
    assert_eq!(fixture.table.find(&identity(10)).unwrap(), Some(a));
    assert_eq!(fixture.table.find(&identity(11)).unwrap(), None);
    fixture.table.removed(root, b"link").unwrap();
    assert_eq!(fixture.table.object(a).unwrap(), None);
    assert_ne!(
        fixture.intern_at_root(10, "a"),
        a,
        "a forgotten id came back"
    );
}

#[test]
fn a_location_taken_over_by_another_object_stays_a_hint_for_the_first() {
    let fixture = Fixture::new(100);
    let old = fixture.intern_at_root(10, "a");
    let new = fixture.intern_at_root(11, "a");
    assert_eq!(fixture.names(old), ["a"]);
    // Removing the name is about the object that was last seen there.
    fixture.table.removed(fixture.root.number, b"a").unwrap();
    assert!(fixture.table.object(new).unwrap().is_none());
    assert!(fixture.table.object(old).unwrap().is_some());
}

#[test]
fn a_full_table_forgets_what_was_not_used() {
    let fixture = Fixture::new(32);
    let used = fixture.intern_at_root(1000, "used");
    let unused = fixture.intern_at_root(1001, "unused");
    for ino in 0..100 {
        fixture.intern_at_root(2000 + ino, &format!("n{ino}"));
        assert!(
            fixture.table.object(used).unwrap().is_some(),
            "forgotten at {ino}"
        );
        assert!(fixture.table.objects().unwrap() <= 32);
    }
    assert!(fixture.table.object(unused).unwrap().is_none());
    assert_eq!(fixture.table.root(identity(2)).unwrap(), fixture.root);
    assert_eq!(fixture.table.objects().unwrap(), 32);
}

#[test]
fn names_that_are_none_and_batches_too_large_are_refused() {
    let fixture = Fixture::new(100);
    let long = "x".repeat(limits::HANDLE_TABLE_NAME_BYTES_MAX + 1);
    for name in ["", ".", "..", "a/b", "a\0b", &long] {
        let new = object(identity(9), location(fixture.root, name));
        let refused = fixture.table.intern(vec![new]);
        assert!(matches!(refused, Err(TableError::NotAName)), "{name:?}");
    }
    let new = object(identity(9), location(fixture.root, "a"));
    let refused = fixture
        .table
        .intern(vec![new; limits::HANDLE_TABLE_GROUP_MAX + 1]);
    assert!(matches!(refused, Err(TableError::BatchTooLarge(_))));
    assert_eq!(fixture.table.objects().unwrap(), 1);
}

#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new(100);
    let path = fixture.directory.path().join("handles.redb");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_server_starts_whose_first_start_was_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let unfinished = directory.path().join("handles.redb.new");
    // As long as redb makes a file at first, and nothing in it: what a power cut leaves of the first start.
    std::fs::write(&unfinished, vec![0; 1 << 20]).unwrap();
    let table = HandleTable::open(&path, 100).unwrap();
    assert!(path.exists() && !unfinished.exists());
    let refused = HandleTable::open(&path, 100);
    assert!(matches!(refused, Err(TableError::InUse)), "{refused:?}");
    drop(table);
    HandleTable::open(&path, 100).unwrap();
}

#[test]
fn a_table_that_cannot_be_made_whole_is_given_no_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    // Nothing can be kept there.
    std::os::unix::fs::symlink("/dev/full", directory.path().join("handles.redb.new")).unwrap();
    let refused = HandleTable::open(&path, 100);
    assert!(refused.is_err() && !path.exists(), "{refused:?}");
}

#[test]
fn a_table_that_is_closed_can_be_opened_while_a_child_process_has_its_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let (_, ids) = filled(&path);
    let table = HandleTable::open(&path, 1000).unwrap();
    // As a process has them between fork and exec.
    let _of_the_child = table.shared.file.try_clone().unwrap();
    drop(table);
    let table = HandleTable::open(&path, 1000).unwrap();
    use_all(&table, &ids);
}

#[test]
fn a_second_server_is_kept_out() {
    let fixture = Fixture::new(100);
    let path = fixture.directory.path().join("handles.redb");
    let refused = HandleTable::open(&path, 100);
    assert!(matches!(refused, Err(TableError::InUse)), "{refused:?}");
}

#[test]
fn many_callers_at_once_get_ids_that_agree() {
    let fixture = Fixture::new(10_000);
    let table = &fixture.table;
    let root = fixture.root;
    let per_thread: Vec<Vec<TableId>> = std::thread::scope(|scope| {
        let intern_all = move || {
            let batch = |part: u64| {
                let objects = (part * 20..part * 20 + 20)
                    .map(|ino| object(identity(5000 + ino), location(root, &format!("f{ino}"))));
                table.intern(objects.collect()).unwrap()
            };
            (0..20).flat_map(batch).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(intern_all)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(per_thread.iter().all(|ids| *ids == per_thread[0]));
    assert_eq!(per_thread[0].iter().collect::<HashSet<_>>().len(), 400);
}

#[test]
fn an_id_of_another_table_or_of_a_restored_one_finds_nothing() {
    let fixture = Fixture::new(100);
    fixture.intern_at_root(10, "known");
    let (root, path) = (fixture.root, fixture.directory.path().join("handles.redb"));
    drop(fixture.table);
    let copy = std::fs::read(&path).unwrap();
    let number_of = |file: &[u8], ino: u64| {
        std::fs::write(&path, file).unwrap();
        let table = HandleTable::open(&path, 100).unwrap();
        let root = table.root(identity(2)).unwrap();
        let new = object(identity(ino), location(root, &format!("file {ino}")));
        let id = table.intern(vec![new]).unwrap()[0];
        (id, table)
    };
    let (first, table) = number_of(&copy, 11);
    drop(table);
    // The copy again, and a table that begins anew: the number comes again for another object.
    for (file, ino) in [(&copy[..], 12), (b"", 13)] {
        let (again, table) = number_of(file, ino);
        assert_ne!(again, first);
        assert_eq!(table.object(first).unwrap(), None);
        assert_eq!(table.paths(first).unwrap(), [b""; 0]);
        assert_eq!(table.root(identity(2)).unwrap() == root, ino == 12);
    }
}

#[test]
fn a_table_of_the_first_format_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let meta = redb::TableDefinition::<&str, u64>::new("meta");
        let mut meta = transaction.open_table(meta).unwrap();
        meta.insert("format", 1).unwrap();
        meta.insert("next_id", 77).unwrap();
        let objects = redb::TableDefinition::<u64, (u64, &[u8])>::new("objects");
        let mut objects = transaction.open_table(objects).unwrap();
        objects.insert(1, (1, &b"x"[..])).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    let table = HandleTable::open(&path, 100).unwrap();
    assert_eq!(table.objects().unwrap(), 0);
    assert_eq!(table.root(identity(2)).unwrap().number, 1);
}

/// Numbers of a seed: splitmix64.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A table's file with some hundred objects, and their ids.
fn filled(path: &Path) -> (Vec<u8>, Vec<TableId>) {
    let table = HandleTable::open(path, 1000).unwrap();
    let root = table.root(identity(2)).unwrap();
    let objects =
        (0..300).map(|ino| object(identity(10 + ino), location(root, &format!("f{ino}"))));
    let mut ids = table.intern(objects.collect()).unwrap();
    ids.push(root);
    drop(table);
    (std::fs::read(path).unwrap(), ids)
}

/// Everything a server asks of a table. What it answers is right or an error.
fn use_all(table: &HandleTable, ids: &[TableId]) {
    let root = ids[ids.len() - 1];
    for (ino, id) in ids[..ids.len() - 1].iter().enumerate().step_by(7) {
        let expected = identity(10 + ino as u64);
        if let Ok(Some(found)) = table.object(*id) {
            assert_eq!(found.identity, expected);
        }
        if let Ok(Some(found)) = table.find(&expected)
            && let Ok(Some(found)) = table.object(found)
        {
            assert_eq!(found.identity, expected);
        }
        let _any = table.paths(*id);
    }
    for ino in [5, 5000] {
        let new = object(identity(ino), location(root, &format!("new {ino}")));
        if let Ok(given) = table.intern(vec![new])
            && let Ok(Some(found)) = table.object(given[0])
        {
            assert_eq!(found.identity, identity(ino));
        }
    }
    let _any = table.renamed((root.number, b"f1"), (root.number, b"f2"));
    let _any = table.removed(root.number, b"f3");
    let _any = table.linked(ids[4].number, root.number, b"link");
    let _any = table.objects();
}

/// Damages `file` in a way that the seed says.
fn damage(file: &mut Vec<u8>, seed: &mut u64) {
    let at = usize::try_from(random(seed)).unwrap() % file.len();
    // The header and the first pages, where most is, as often as the rest.
    let at = if random(seed).is_multiple_of(2) {
        at % 32_768
    } else {
        at
    };
    match random(seed) % 5 {
        0 => file.truncate(at),
        1 => file.truncate(at / 4096 * 4096),
        2 => file[at] ^= 1 << (random(seed) % 8),
        3 => {
            let end = file.len().min(at + 4096);
            file[at..end].fill(0);
        }
        _ => {
            let end = file.len().min(at + 512);
            for byte in &mut file[at..end] {
                *byte = random(seed).to_le_bytes()[0];
            }
        }
    }
}

#[test]
fn a_damaged_table_is_refused_or_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let (whole, ids) = filled(&path);
    let mut refused = 0;
    for seed in 0..400 {
        let mut damaged = whole.clone();
        damage(&mut damaged, &mut seed.clone());
        std::fs::write(&path, &damaged).unwrap();
        match HandleTable::open(&path, 1000) {
            Ok(table) => use_all(&table, &ids),
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains("remove it: then a new one is made"), "{text}");
            }
        }
    }
    assert!(refused > 100, "{refused} of 400 were refused");
}

#[test]
fn damage_while_the_table_is_open_ends_in_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let (whole, ids) = filled(&path);
    for seed in 0..100 {
        std::fs::write(&path, &whole).unwrap();
        // Nothing is kept in memory: all is read again.
        let table = HandleTable::open_with_cache(&path, 1000, 0).unwrap();
        let mut damaged = std::fs::read(&path).unwrap();
        damage(&mut damaged, &mut seed.clone());
        std::fs::write(&path, &damaged).unwrap();
        use_all(&table, &ids);
    }
}

#[test]
fn a_table_that_cannot_be_written_tells_what_it_knows_and_gives_nothing_new() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let (_, ids) = filled(&path);
    // As on a file system that became read-only: every write fails.
    let file = File::open(&path).unwrap();
    let table = HandleTable::over(&path, file, 1000, 1 << 20).unwrap();
    let root = table.root(identity(2)).unwrap();
    let new = || vec![object(identity(5), location(root, "new"))];
    for _ in 0..3 {
        let refused = table.intern(new());
        assert!(
            matches!(refused, Err(TableError::NotWritten(_))),
            "{refused:?}"
        );
        assert_eq!(table.find(&identity(5)).unwrap(), None);
        let linked = table.linked(ids[0].number, root.number, b"link");
        assert!(
            matches!(linked, Err(TableError::NotWritten(_))),
            "{linked:?}"
        );
        assert!(table.check_writable().is_err());
        let known = object(identity(10), location(root, "f0"));
        assert_eq!(table.intern(vec![known]).unwrap(), [ids[0]]);
        assert_eq!(table.paths(ids[1]).unwrap(), [b"f1"]);
        // What is gone is gone, whether it can be noted or not.
        table.removed(root.number, b"f2").unwrap();
    }
    assert_eq!(table.refused(), 9);
    drop(table);
    let table = HandleTable::open(&path, 1000).unwrap();
    assert_eq!(table.intern(new()).unwrap().len(), 1);
}

#[test]
fn what_is_no_table_is_refused_with_a_cure() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let refused = |contents: &[u8]| {
        std::fs::write(&path, contents).unwrap();
        HandleTable::open(&path, 100).unwrap_err().to_string()
    };
    for contents in [&b"x"[..], b"not a table", &[0; 100_000], &[0xff; 100_000]] {
        let text = refused(contents);
        assert!(text.contains("remove it"), "{text}");
    }
    // Somebody else's database, and one of a version to come.
    for (name, format, expected) in [("other", 1, "another program's"), ("meta", 77, "newer")] {
        std::fs::remove_file(&path).unwrap();
        let database = redb::Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let table = redb::TableDefinition::<&str, u64>::new(name);
        transaction
            .open_table(table)
            .unwrap()
            .insert("format", format)
            .unwrap();
        transaction.commit().unwrap();
        drop(database);
        let text = refused(&std::fs::read(&path).unwrap());
        assert!(
            text.contains(expected) && text.contains("move the file away"),
            "{text}"
        );
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = HandleTable::open(&path, 100).unwrap_err();
    assert!(matches!(error, TableError::Open(_)), "{error}");
    std::fs::remove_dir(&path).unwrap();
    // Empty is what a crash may leave of a new one.
    std::fs::write(&path, b"").unwrap();
    assert_eq!(HandleTable::open(&path, 100).unwrap().objects().unwrap(), 0);
}

const CHILD_TABLE: &str = "PENSTOCK_TEST_HANDLE_TABLE";

/// The child of the next test, and nothing when run by itself: interns without end and says each
/// id after `intern` has returned it.
#[test]
fn child_that_interns_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD_TABLE) else {
        return;
    };
    let table = HandleTable::open(Path::new(&path), 1 << 20).unwrap();
    let root = table.root(identity(2)).unwrap();
    for ino in 10u64.. {
        let at = location(root, &format!("file {ino}"));
        let ids = table.intern(vec![object(identity(ino), at)]).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "interned {ino} {} {}", ids[0].number, ids[0].nonce).unwrap();
    }
}

#[test]
fn every_id_that_was_returned_survives_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handles.redb");
    let mut next = 0;
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "vfs::handle_table::tests::child_that_interns_until_it_is_killed",
            ])
            .arg("--nocapture")
            .env(CHILD_TABLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        for line in lines {
            // The line that the kill cut short is not an acknowledgement.
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            if let ["interned", ino, number, nonce] = words.as_slice() {
                let [ino, number, nonce] = [ino, number, nonce].map(|word| word.parse().unwrap());
                said.push((ino, TableId { number, nonce }));
            }
            if said.len() == 40 * round {
                child.kill().unwrap(); // SIGKILL; what it said before is still read
            }
        }
        child.wait().unwrap();
        said.pop();
        assert!(said.len() >= 40 * round - 1, "the child ended by itself");
        let table = HandleTable::open(&path, 1 << 20).unwrap();
        for (ino, id) in &said {
            let object = table.object(*id).unwrap().expect("an id was lost");
            assert_eq!(object.identity, identity(*ino));
            assert_eq!(object.locations[0].name, format!("file {ino}").as_bytes());
        }
        let last = said.last().unwrap().1.number;
        assert!(last > next);
        next = last;
    }
}
