//! The addresses of hosts by their names (getaddrinfo(3)), and the hosts of netgroups, as this machine's databases (NSS,
//! `/etc/hosts`, DNS) have them.
//!
//! Each function may wait for a name server for as long as the C library has patience: none is called where others wait.

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::HOST_ADDRESSES_MAX;

/// Whether the C library of this program has netgroups. musl has none.
pub const HAS_NETGROUPS: bool = cfg!(target_env = "gnu");

/// The reason for which a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The databases of this machine know no such name, or no address of it.
    #[error("there is no such name, or it has no address")]
    Unknown,
    /// They cannot tell now: a name server is silent or failing.
    #[error("{0}")]
    Unavailable(String),
}

/// The hosts of a netgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetgroupHosts {
    /// Their names, as the netgroup has them, each once.
    pub hosts: Vec<String>,
    /// The netgroup has a member without a host, which stands for every host there is.
    pub names_everybody: bool,
    /// It has more hosts than were asked for, or a member that is too long to be read.
    pub is_cut: bool,
}

/// The addresses of a host, IPv4 ones as such, in order and each once; at most [`HOST_ADDRESSES_MAX`].
///
/// # Errors
/// [`LookupError`].
pub fn addresses(host: &str) -> Result<Vec<IpAddr>, LookupError> {
    // A name with a NUL in it is nobody's.
    let Ok(name) = CString::new(host) else {
        return Err(LookupError::Unknown);
    };
    let mut list = std::ptr::null_mut();
    // SAFETY: `addrinfo` is a plain structure of integers and pointers, for which zeroes are "nothing asked".
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = libc::AF_UNSPEC;
    // One entry for each address, and not one for each kind of socket.
    hints.ai_socktype = libc::SOCK_STREAM;
    // SAFETY: `name` ends with a NUL, and it, `hints` and `list` are ours and live through the call.
    let error = unsafe {
        libc::getaddrinfo(
            name.as_ptr(),
            std::ptr::null(),
            &raw const hints,
            &raw mut list,
        )
    };
    if error != 0 {
        return Err(lookup_error(error));
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() && found.len() < HOST_ADDRESSES_MAX {
        // SAFETY: the call succeeded, so `next` is an entry of the list that it made, which lives until freeaddrinfo.
        let entry = unsafe { &*next };
        found.extend(address(entry));
        next = entry.ai_next;
    }
    // SAFETY: `list` is what getaddrinfo made, freed once, and nothing of it is used any more.
    unsafe { libc::freeaddrinfo(list) };
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(LookupError::Unknown);
    }
    Ok(found)
}

/// The address of one entry, where it is of a family that there are clients of, and one that a client can have.
fn address(entry: &libc::addrinfo) -> Option<IpAddr> {
    let len = usize::try_from(entry.ai_addrlen).ok()?;
    let address: IpAddr = match entry.ai_family {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the entry's family and length say that this is a `sockaddr_in`; it is read without asking for
            // its alignment.
            let socket = unsafe { entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Ipv4Addr::from(socket.sin_addr.s_addr.to_ne_bytes()).into()
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above, a `sockaddr_in6`.
            let socket = unsafe { entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Ipv6Addr::from(socket.sin6_addr.s6_addr).into()
        }
        _ => return None,
    };
    let address = address.to_canonical();
    (!address.is_unspecified()).then_some(address)
}

fn lookup_error(error: libc::c_int) -> LookupError {
    #[cfg(target_env = "gnu")]
    let is_unknown = [libc::EAI_NONAME, libc::EAI_NODATA].contains(&error);
    #[cfg(not(target_env = "gnu"))]
    let is_unknown = error == libc::EAI_NONAME;
    if is_unknown {
        return LookupError::Unknown;
    }
    if error == libc::EAI_SYSTEM {
        let why = std::io::Error::last_os_error();
        return LookupError::Unavailable(format!("it cannot be looked up: {why}"));
    }
    // SAFETY: gai_strerror returns a text of the C library for every number, which lasts and ends with a NUL.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(error)) };
    let text = text.to_string_lossy().to_lowercase();
    LookupError::Unavailable(format!("no name server answers for it: {text}"))
}

/// The hosts of a netgroup, those of the netgroups in it too, at most `most`.
///
/// # Errors
/// [`LookupError::Unavailable`] where the databases know no such netgroup: they do not tell that from one that cannot be
/// asked for now.
#[cfg(target_env = "gnu")]
pub fn netgroup_hosts(netgroup: &str, most: usize) -> Result<NetgroupHosts, LookupError> {
    use crate::limits::{NETGROUP_BYTES_MAX, NETGROUP_BYTES_USUAL};
    // The C library walks one netgroup at a time in the whole process.
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let Ok(name) = CString::new(netgroup) else {
        return Err(LookupError::Unknown);
    };
    let _turn = TURN.lock();
    // SAFETY: `name` ends with a NUL and lives through the call; nobody else walks a netgroup (TURN).
    let is_found = unsafe { netgroups::setnetgrent(name.as_ptr()) } == 1;
    if !is_found {
        // SAFETY: ends the walk that was begun above.
        unsafe { netgroups::endnetgrent() };
        let why = "there is no such netgroup, or its database does not answer";
        return Err(LookupError::Unavailable(why.to_owned()));
    }
    let mut found = NetgroupHosts::default();
    let mut strings: Vec<libc::c_char> = vec![0; NETGROUP_BYTES_USUAL];
    clear_errno();
    loop {
        let (mut host, mut user, mut domain) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        let (room, len) = (strings.as_mut_ptr(), strings.len());
        // SAFETY: the three pointers and `strings`, with its true length, are ours and live through the call.
        let more = unsafe {
            netgroups::getnetgrent_r(&raw mut host, &raw mut user, &raw mut domain, room, len)
        };
        if more != 1 {
            let no_room = std::io::Error::last_os_error().raw_os_error() == Some(libc::ERANGE);
            if no_room && strings.len() < NETGROUP_BYTES_MAX {
                // The entry is not passed over: it is given with more room.
                strings.resize(strings.len() * 4, 0);
                clear_errno();
                continue;
            }
            found.is_cut |= no_room;
            break;
        }
        clear_errno();
        if host.is_null() {
            found.names_everybody = true;
            continue;
        }
        // SAFETY: the call succeeded and `host` is not null, so it points into `strings` and ends with a NUL.
        let host = unsafe { CStr::from_ptr(host) }.to_string_lossy();
        let host = host.trim_end_matches('.').to_lowercase();
        match host.as_str() {
            // "-" is no host at all (netgroup(5)).
            "-" => {}
            "" => found.names_everybody = true,
            _ if found.hosts.contains(&host) => {}
            _ if found.hosts.len() == most => {
                found.is_cut = true;
                break;
            }
            _ => found.hosts.push(host),
        }
    }
    // SAFETY: ends the walk that was begun above.
    unsafe { netgroups::endnetgrent() };
    Ok(found)
}

/// The end of a netgroup leaves errno as it is, so that an old ERANGE would be taken for want of room.
#[cfg(target_env = "gnu")]
fn clear_errno() {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
}

/// There are no netgroups in this program's C library.
///
/// # Errors
/// Always [`LookupError::Unavailable`].
#[cfg(not(target_env = "gnu"))]
pub fn netgroup_hosts(_netgroup: &str, _most: usize) -> Result<NetgroupHosts, LookupError> {
    let why = "there are no netgroups in this program's C library (musl)";
    Err(LookupError::Unavailable(why.to_owned()))
}

#[cfg(target_env = "gnu")]
mod netgroups {
    //! `netdb.h` of glibc, as far as it is about netgroups: the `libc` crate does not have it.

    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        /// Begins to walk a netgroup: 1 if there is one.
        pub(super) fn setnetgrent(netgroup: *const c_char) -> c_int;
        /// Ends the walk.
        pub(super) fn endnetgrent();
        /// The next member: 1 if there was one. A null pointer stands for everybody.
        pub(super) fn getnetgrent_r(
            host: *mut *mut c_char,
            user: *mut *mut c_char,
            domain: *mut *mut c_char,
            buffer: *mut c_char,
            len: usize,
        ) -> c_int;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_has_the_loopback_addresses() {
        let found = addresses("localhost").unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(found.is_sorted());
    }

    #[test]
    fn an_address_is_its_own_name_in_its_ipv4_form() {
        assert_eq!(
            addresses("192.0.2.7"),
            Ok(vec!["192.0.2.7".parse().unwrap()])
        );
        assert_eq!(
            addresses("::ffff:192.0.2.7"),
            Ok(vec!["192.0.2.7".parse().unwrap()])
        );
        // Nobody comes from there.
        assert_eq!(addresses("0.0.0.0"), Err(LookupError::Unknown));
    }

    #[test]
    fn what_nobody_can_be_called_has_no_address() {
        assert_eq!(addresses("a\0b"), Err(LookupError::Unknown));
        assert!(addresses("no such host.invalid").is_err());
    }

    #[test]
    fn a_netgroup_that_is_not_there_is_told_as_such() {
        let error = netgroup_hosts("no-such-netgroup-of-penstock", 4).unwrap_err();
        assert!(matches!(error, LookupError::Unavailable(_)), "{error}");
    }
}
