//! The system's user database (NSS): names and numbers of users and groups, and which groups a user is in.
//!
//! Each function may wait for a directory server for as long as that likes: none is called where others wait.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

use crate::limits::{ACCOUNT_BYTES_MAX, ACCOUNT_BYTES_USUAL, GROUPS_PER_USER_MAX};
use crate::{Errno, Result};

/// All groups of a user, the primary one first, at most [`GROUPS_PER_USER_MAX`]; `None` when the database does not
/// know the user.
///
/// # Errors
/// What keeps the database from answering.
pub fn group_list(uid: u32) -> Result<Option<Vec<u32>>> {
    let found = user(Key::Id(uid), |passwd, name| {
        let mut gids: Vec<libc::gid_t> = vec![0; GROUPS_PER_USER_MAX];
        let mut count = c_int::try_from(gids.len()).unwrap_or(c_int::MAX);
        // SAFETY: `name` ends with a NUL and lives through the call; `gids` has room for `count` entries.
        let fits = unsafe {
            libc::getgrouplist(
                name.as_ptr(),
                passwd.pw_gid,
                gids.as_mut_ptr(),
                &raw mut count,
            )
        };
        // More groups than the cap: those that fit were written, and `count` is the true number.
        let written = usize::try_from(count).unwrap_or(0);
        let written = if fits < 0 { gids.len() } else { written };
        gids.truncate(written);
        gids
    })?;
    Ok(found)
}

/// The name of a user; `None` when the database does not know the number.
///
/// # Errors
/// What keeps the database from answering.
pub fn user_name(uid: u32) -> Result<Option<Vec<u8>>> {
    user(Key::Id(uid), |_passwd, name| name.to_bytes().to_vec())
}

/// The number of a user; `None` when the database does not know the name.
///
/// # Errors
/// What keeps the database from answering.
pub fn user_id(name: &[u8]) -> Result<Option<u32>> {
    // A name with a NUL in it is nobody's.
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    user(Key::Name(&name), |passwd, _name| passwd.pw_uid)
}

/// The name of a group; `None` when the database does not know the number.
///
/// # Errors
/// What keeps the database from answering; ERANGE for a group whose entry has more than [`ACCOUNT_BYTES_MAX`].
pub fn group_name(gid: u32) -> Result<Option<Vec<u8>>> {
    group(Key::Id(gid), |_group, name| name.to_bytes().to_vec())
}

/// The number of a group; `None` when the database does not know the name.
///
/// # Errors
/// Those of [`group_name`].
pub fn group_id(name: &[u8]) -> Result<Option<u32>> {
    // A name with a NUL in it is nobody's.
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    group(Key::Name(&name), |group, _name| group.gr_gid)
}

/// By what an entry is looked for.
#[derive(Clone, Copy)]
enum Key<'k> {
    Id(u32),
    Name(&'k CStr),
}

/// Looks a user up and hands the entry, with its name, to `take`.
fn user<T>(key: Key<'_>, take: impl FnOnce(&libc::passwd, &CStr) -> T) -> Result<Option<T>> {
    let mut take = Some(take);
    with_room(|strings| {
        let mut passwd = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        let (entry, bytes, len) = (passwd.as_mut_ptr(), strings.as_mut_ptr(), strings.len());
        let error = match key {
            // SAFETY: `passwd`, `strings` (with its true length) and `found` are ours, live through the call, and are
            // shared with nobody.
            Key::Id(uid) => unsafe { libc::getpwuid_r(uid, entry, bytes, len, &raw mut found) },
            // SAFETY: as above; `name` ends with a NUL.
            Key::Name(name) => unsafe {
                libc::getpwnam_r(name.as_ptr(), entry, bytes, len, &raw mut found)
            },
        };
        if error != 0 || found.is_null() {
            return Err(error);
        }
        // SAFETY: the call succeeded with a non-null `found`, so it filled `passwd`.
        let passwd = unsafe { passwd.assume_init() };
        // SAFETY: `pw_name` points into `strings`, which lives, and ends with a NUL.
        let name = unsafe { CStr::from_ptr(passwd.pw_name) };
        Ok(take.take().map(|take| take(&passwd, name)))
    })
}

/// Looks a group up and hands the entry, with its name, to `take`.
fn group<T>(key: Key<'_>, take: impl FnOnce(&libc::group, &CStr) -> T) -> Result<Option<T>> {
    let mut take = Some(take);
    with_room(|strings| {
        let mut group = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        let (entry, bytes, len) = (group.as_mut_ptr(), strings.as_mut_ptr(), strings.len());
        let error = match key {
            // SAFETY: `group`, `strings` (with its true length) and `found` are ours, live through the call, and are
            // shared with nobody.
            Key::Id(gid) => unsafe { libc::getgrgid_r(gid, entry, bytes, len, &raw mut found) },
            // SAFETY: as above; `name` ends with a NUL.
            Key::Name(name) => unsafe {
                libc::getgrnam_r(name.as_ptr(), entry, bytes, len, &raw mut found)
            },
        };
        if error != 0 || found.is_null() {
            return Err(error);
        }
        // SAFETY: the call succeeded with a non-null `found`, so it filled `group`.
        let group = unsafe { group.assume_init() };
        // SAFETY: `gr_name` points into `strings`, which lives, and ends with a NUL.
        let name = unsafe { CStr::from_ptr(group.gr_name) };
        Ok(take.take().map(|take| take(&group, name)))
    })
}

/// Asks with as much room for an entry's strings as it takes. `Err(0)` of `ask` is "there is none".
fn with_room<T>(
    mut ask: impl FnMut(&mut [c_char]) -> core::result::Result<Option<T>, c_int>,
) -> Result<Option<T>> {
    let mut len = ACCOUNT_BYTES_USUAL;
    loop {
        match ask(&mut vec![0; len]) {
            Ok(found) => return Ok(found),
            // A group's entry names all its members.
            Err(libc::ERANGE) if len < ACCOUNT_BYTES_MAX => len = (len * 4).min(ACCOUNT_BYTES_MAX),
            // These say that the database is not to be had; all others that it does not know (getpwnam_r(3)).
            Err(
                error @ (libc::EINTR
                | libc::EIO
                | libc::EAGAIN
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ETIMEDOUT
                | libc::ERANGE),
            ) => return Err(Errno::from_raw_os_error(error)),
            Err(_unknown) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_in_its_own_group() {
        let gids = group_list(0).unwrap().unwrap();
        assert_eq!(gids.first().copied(), Some(0));
    }

    #[test]
    fn names_and_numbers_are_those_of_the_database() {
        assert_eq!(user_name(0), Ok(Some(b"root".to_vec())));
        assert_eq!(user_id(b"root"), Ok(Some(0)));
        assert_eq!(group_name(0), Ok(Some(b"root".to_vec())));
        assert_eq!(group_id(b"root"), Ok(Some(0)));
    }

    #[test]
    fn whom_the_database_does_not_know_is_nobody() {
        assert_eq!(group_list(4_000_000_123), Ok(None));
        assert_eq!(user_name(4_000_000_123), Ok(None));
        assert_eq!(group_name(4_000_000_123), Ok(None));
        for name in [
            &b""[..],
            b"nobody of that name",
            b"root\0",
            b"root:x",
            b"\xff\n",
        ] {
            assert_eq!(user_id(name), Ok(None), "{name:?}");
            assert_eq!(group_id(name), Ok(None), "{name:?}");
        }
    }

    #[test]
    fn an_entry_gets_the_room_that_it_takes_up_to_a_bound() {
        let tried = std::cell::RefCell::new(Vec::new());
        let wants = |most: usize| {
            tried.borrow_mut().clear();
            with_room(|strings| {
                tried.borrow_mut().push(strings.len());
                if strings.len() < most {
                    Err(libc::ERANGE)
                } else {
                    Ok(Some(()))
                }
            })
        };
        assert_eq!(wants(ACCOUNT_BYTES_USUAL + 1), Ok(Some(())));
        assert_eq!(tried.borrow().len(), 2);
        assert_eq!(wants(ACCOUNT_BYTES_MAX + 1), Err(Errno::RANGE));
        assert_eq!(tried.borrow().last(), Some(&ACCOUNT_BYTES_MAX));
    }
}
