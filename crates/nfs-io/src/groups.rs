//! The system's user database: which groups a user is in.

use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;

use crate::limits::{GROUP_ENTRY_BYTES_MAX, GROUPS_PER_USER_MAX, PASSWD_BYTES_MAX};

/// All groups of a user as this machine's user database (NSS) has them, the primary one first.
/// `None` when it does not know the user. May wait for a directory server.
#[must_use]
pub fn group_list(uid: u32) -> Option<Vec<u32>> {
    let mut strings: Vec<c_char> = vec![0; PASSWD_BYTES_MAX];
    let mut passwd = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: `passwd`, `strings` (with its true length) and `found` are ours, live through the
    // call, and are shared with nobody.
    let error = unsafe {
        libc::getpwuid_r(
            uid,
            passwd.as_mut_ptr(),
            strings.as_mut_ptr(),
            strings.len(),
            &raw mut found,
        )
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: getpwuid_r returned success and a non-null `found`, so it filled `passwd`.
    let passwd = unsafe { passwd.assume_init() };
    let mut gids: Vec<libc::gid_t> = vec![0; GROUPS_PER_USER_MAX];
    let mut count = c_int::try_from(gids.len()).ok()?;
    // SAFETY: `pw_name` points into `strings`, which lives; `gids` has room for `count` entries.
    let fits = unsafe {
        libc::getgrouplist(
            passwd.pw_name,
            passwd.pw_gid,
            gids.as_mut_ptr(),
            &raw mut count,
        )
    };
    // More groups than the cap: those that fit were written, and `count` is the true number.
    let written = if fits < 0 {
        gids.len()
    } else {
        usize::try_from(count).ok()?
    };
    gids.truncate(written);
    Some(gids)
}

/// The number of the group that this machine's user database (NSS) has under `name`; `None` where it has none. May
/// wait for a directory server.
#[must_use]
pub fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut strings: Vec<c_char> = vec![0; GROUP_ENTRY_BYTES_MAX];
    let mut group = MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: `name` is a string with its end; `group`, `strings` (with its true length) and `found` are ours, live
    // through the call, and are shared with nobody.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            group.as_mut_ptr(),
            strings.as_mut_ptr(),
            strings.len(),
            &raw mut found,
        )
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: getgrnam_r returned success and a non-null `found`, so it filled `group`.
    Some(unsafe { group.assume_init() }.gr_gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_in_its_own_group() {
        assert_eq!(
            group_list(0).and_then(|gids| gids.first().copied()),
            Some(0)
        );
    }

    #[test]
    fn an_unknown_user_has_no_list() {
        assert_eq!(group_list(4_000_000_123), None);
    }

    #[test]
    fn a_group_is_found_by_its_name() {
        assert_eq!(group_id("root"), Some(0));
        for unknown in ["no such group", "", "a\0b"] {
            assert_eq!(group_id(unknown), None, "{unknown:?}");
        }
    }
}
