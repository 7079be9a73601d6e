use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Uid;
use rustix::thread::{set_keep_capabilities, set_thread_res_uid};

use super::*;
use crate::caps::{self, Capability};
use crate::fs::{self, Access, OFlags};
use crate::testing::{Scratch, skip, stranger};

/// (fsuid, fsgid, groups, effective capabilities) of the calling thread.
fn status() -> (u32, u32, Vec<u32>, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let field = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let numbers = |name| {
        field(name)
            .iter()
            .map(|id| id.parse().unwrap())
            .collect::<Vec<u32>>()
    };
    let caps = u64::from_str_radix(&field("CapEff:")[0], 16).unwrap();
    (
        numbers("Uid:")[3],
        numbers("Gid:")[3],
        numbers("Groups:"),
        caps,
    )
}

#[test]
fn groups_are_a_set() {
    let creds = |groups: &[u32]| Creds::new(LocalUid(1), LocalGid(2), groups);
    assert_eq!(creds(&[3, 1, 3]), creds(&[1, 3]));
    assert_ne!(creds(&[1]), creds(&[1, 3]));
    assert!(creds(&[7]).in_group(LocalGid(7)) && creds(&[7]).in_group(LocalGid(2)));
    assert!(!creds(&[7]).in_group(LocalGid(1)));
}

#[test]
fn the_guard_changes_this_thread_only_and_restores_it() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let before = status();
    let guard = Guard::enter(&stranger()).unwrap();
    let (uid, gid, groups, caps) = status();
    assert_eq!((uid, gid, groups), (54_321, 54_322, vec![54_323, 54_324]));
    assert_eq!(
        caps & FS_CAPS.bits(),
        0,
        "no capability that overrules permissions"
    );
    assert!(guarded());
    // The C library would have told its other threads. A new thread inherits, so one that
    // takes the server's identity must have all of it.
    let elsewhere = std::thread::spawn(|| {
        ServerIdentity::current().adopt();
        status()
    });
    assert_eq!(elsewhere.join().unwrap(), before);
    drop(guard);
    assert_eq!(status(), before);
    assert!(!guarded());
}

#[test]
fn threads_that_exist_keep_their_identity() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let (ask, asked) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let bystander = std::thread::spawn(move || {
        for () in asked {
            tell.send(status()).unwrap();
        }
    });
    ask.send(()).unwrap();
    let before = told.recv().unwrap();
    run_as(&stranger(), || {
        ask.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), before);
        Ok(())
    })
    .unwrap();
    drop(ask);
    bystander.join().unwrap();
}

#[test]
fn permissions_are_the_clients_inside_the_guard() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let scratch = Scratch::new();
    drop(scratch.file("secret", b"mine"));
    let path = scratch.path.path().join("secret");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path.path(), everybody).unwrap();
    let object = scratch.object("secret");
    let read = Access {
        read: true,
        ..Access::default()
    };
    let refused = run_as(&stranger(), || {
        assert_eq!(fs::access(object.as_fd(), read), Err(Errno::ACCESS));
        // What is made belongs to the client.
        let made = fs::openat_create(
            scratch.dir(),
            b"theirs",
            OFlags::CREATE | OFlags::EXCL | OFlags::RDWR,
            0o640,
        )?;
        let stat = fs::statx(made.as_fd())?;
        assert_eq!((stat.uid, stat.gid), (54_321, 54_322));
        fs::reopen(object.as_fd(), OFlags::RDONLY)
    });
    assert_eq!(refused.unwrap_err(), Errno::ACCESS);
    assert_eq!(fs::access(object.as_fd(), read), Ok(()));
    assert!(fs::reopen(object.as_fd(), OFlags::RDONLY).is_ok());
}

#[test]
fn a_supplementary_group_counts() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let scratch = Scratch::new();
    let file = scratch.file("shared", b"ours");
    fs::chown(file.as_fd(), None, Some(LocalGid(54_324))).unwrap();
    fs::chmod(file.as_fd(), 0o640).unwrap();
    let read = Access {
        read: true,
        ..Access::default()
    };
    assert_eq!(
        run_as(&stranger(), || fs::access(file.as_fd(), read)),
        Ok(())
    );
    let without = Creds::new(LocalUid(54_321), LocalGid(54_322), &[54_323]);
    let refused = run_as(&without, || fs::access(file.as_fd(), read));
    assert_eq!(refused, Err(Errno::ACCESS));
}

#[test]
fn the_servers_own_identity_is_free() {
    let before = status();
    let own = ServerIdentity::current().creds().clone();
    let guard = Guard::enter(&own).unwrap();
    assert!(guard.undo.is_none());
    assert_eq!(status(), before);
}

#[test]
fn an_identity_the_kernel_does_not_take_changes_nothing() {
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    let before = status();
    let nobody_at_all = Creds::new(LocalUid(u32::MAX), LocalGid(1), &[]);
    // The kernel leaves fsuid as it is; the comparison afterwards must notice.
    assert!(Guard::enter(&nobody_at_all).is_err());
    let too_many: Vec<u32> = (0..70_000).collect();
    let crowd = Creds::new(LocalUid(1), LocalGid(1), &too_many);
    assert_eq!(Guard::enter(&crowd).err(), Some(Errno::INVAL));
    assert_eq!(status(), before);
    assert!(!guarded());
    let hundred: Vec<u32> = (0..100).collect();
    let large = Creds::new(LocalUid(1), LocalGid(1), &hundred);
    assert_eq!(run_as(&large, || Ok(status().2)), Ok(hundred));
}

#[test]
fn a_second_guard_is_refused() {
    let first = Guard::enter(&stranger()).unwrap();
    let nested = std::panic::catch_unwind(|| Guard::enter(&stranger()).map(drop));
    assert!(nested.is_err());
    drop(first);
    assert!(Guard::enter(&stranger()).is_ok());
}

/// A server that is not root but holds capabilities (systemd's `AmbientCapabilities=`): the
/// kernel moves none of them with fsuid.
#[test]
fn capabilities_of_a_server_that_is_not_root_do_not_overrule_permissions() {
    if !can_switch() || !caps::has(Capability::DacOverride) {
        skip!("needs CAP_SETUID, CAP_SETGID and CAP_DAC_OVERRIDE");
    }
    let scratch = Scratch::new();
    let file = scratch.file("secret", b"mine");
    fs::chmod(file.as_fd(), 0o600).unwrap();
    let read = Access {
        read: true,
        ..Access::default()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_keep_capabilities(true).unwrap();
            let daemon = Some(Uid::from_raw(2));
            set_thread_res_uid(daemon, daemon, daemon).unwrap();
            let mut sets = capabilities(None).unwrap();
            sets.effective = sets.permitted;
            set_capabilities(None, sets).unwrap();
            let server: &'static ServerIdentity = Box::leak(Box::new(ServerIdentity::read()));
            assert!(server.explicit_caps.is_some());
            let before = status();
            assert_eq!(
                fs::access(file.as_fd(), read),
                Ok(()),
                "by CAP_DAC_OVERRIDE"
            );
            let guard = Guard::enter_from(server, &stranger()).unwrap();
            assert_eq!(fs::access(file.as_fd(), read), Err(Errno::ACCESS));
            drop(guard);
            assert_eq!(status(), before);
            let root = Creds::new(LocalUid(0), LocalGid(0), &[]);
            let guard = Guard::enter_from(server, &root).unwrap();
            assert_eq!(fs::access(file.as_fd(), read), Ok(()));
            drop(guard);
            assert_eq!(status(), before);
        });
    });
}

/// This process's identity in a user namespace with these ids.
fn server_among(users: &[(u32, u32)], groups: &[(u32, u32)]) -> ServerIdentity {
    ServerIdentity {
        users: IdMap::of_ranges(users),
        groups: IdMap::of_ranges(groups),
        ..ServerIdentity::current().clone()
    }
}

#[test]
fn ids_that_a_user_namespace_does_not_know_are_the_anonymous_users() {
    let creds = |uid, gid, groups: &[u32]| Creds::new(LocalUid(uid), LocalGid(gid), groups);
    let nobody = creds(65534, 65534, &[]);
    let server = server_among(&[(0, 2000), (65534, 1)], &[(0, 3000), (65534, 1)]);
    let known = |asked: Creds| server.known(asked, &nobody);
    let all = creds(1000, 1000, &[2999, 5]);
    assert_eq!(known(all.clone()), Some(all));
    let strange_groups = creds(1000, 3000, &[2999, 3000]);
    assert_eq!(known(strange_groups), Some(creds(1000, 65534, &[2999])));
    assert_eq!(known(creds(2000, 0, &[0])), Some(nobody.clone()));
    // The anonymous user is unknown, too: nobody is left to act as.
    let server = server_among(&[(0, 2000)], &[(0, 3000)]);
    assert_eq!(server.known(creds(2000, 1, &[]), &nobody), None);
    assert_eq!(server.known(creds(5, 3000, &[]), &nobody), None);
    assert!(server.known(creds(5, 6, &[]), &nobody).is_some());
}

#[test]
fn a_namespace_with_one_user_is_none_to_act_for_others_in() {
    let own = ServerIdentity::current().creds().clone();
    let one = [(own.uid().0, 1)];
    let why = server_among(&one, &one).try_switching().unwrap_err();
    assert!(why.contains("no user or group besides"), "{why}");
    if !can_switch() {
        skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
    }
    assert_eq!(ServerIdentity::current().try_switching(), Ok(()));
}
