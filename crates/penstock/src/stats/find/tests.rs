use super::*;

fn mounts() -> Vec<Mount> {
    let text = "1 0 8:1 / / rw - ext4 /dev/sda rw\n\
        2 1 0:40 / /mnt rw - fuse.penstock nfs://a/ rw,user_id=1000,group_id=1000\n\
        3 2 0:41 / /mnt/inner rw - tmpfs none rw\n\
        4 1 0:42 / /twice rw - ext4 /dev/sdb rw\n\
        5 1 0:43 / /twice rw - fuse.penstock nfs://b/ rw,user_id=0,group_id=0\n";
    nfs_io::mounts::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_path_is_in_the_innermost_mount_and_of_several_on_one_point_in_the_last() {
    let mounts = mounts();
    let device = |path: &str| holder(&mounts, Path::new(path)).unwrap().dev.1;
    let table = [
        ("/", 1),
        ("/mnt", 40),
        ("/mnt/a/b", 40),
        ("/mnt/inner/a", 41),
        ("/mntx", 1),
        ("/twice/a", 43),
    ];
    for (path, expected) in table {
        assert_eq!(device(path), expected, "{path}");
    }
    let owners: Vec<_> = mounts
        .iter()
        .filter(|one| is_ours(one))
        .map(owner)
        .collect();
    assert_eq!(owners, [Some(1000), Some(0)]);
}

#[test]
fn a_path_that_is_in_no_mount_of_ours_says_what_is_there() {
    let scratch = tempfile::tempdir().unwrap();
    let error = Found::of(scratch.path()).unwrap_err();
    assert!(matches!(error, Unknown::NoMount { .. }), "{error:?}");
    assert!(
        error.to_string().contains("no mount of penstock"),
        "{error}"
    );
    let error = Found::of(&scratch.path().join("missing")).unwrap_err();
    assert!(matches!(error, Unknown::System(..)), "{error:?}");
}
