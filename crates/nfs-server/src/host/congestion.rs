//! TCP's congestion control of the connections that are served: by which rules the kernel sends replies.

use std::fs;
use std::io;
use std::net::TcpListener;

use rustix::net::sockopt::set_tcp_congestion;

/// What the kernel lets programs without CAP_NET_ADMIN choose among.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// What it has loaded, of which others may choose any.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Has the connections of `listeners`, which inherit it, send with the algorithm that the kernel calls `name`.
///
/// # Errors
/// The kernel has no such algorithm, or does not let this process choose it: with those that it does.
pub(crate) fn choose(listeners: &[TcpListener], name: &str) -> Result<(), String> {
    for listener in listeners {
        set_tcp_congestion(listener, name).map_err(|error| refused(name, error.into()))?;
    }
    Ok(())
}

fn refused(name: &str, error: io::Error) -> String {
    let (why, list) = match error.kind() {
        io::ErrorKind::NotFound => ("this kernel has no such congestion control", AVAILABLE),
        io::ErrorKind::PermissionDenied => (
            "this kernel lets only who has CAP_NET_ADMIN choose it",
            ALLOWED,
        ),
        _ => return format!("congestion_control {name:?}: {error}"),
    };
    let known = fs::read_to_string(list).unwrap_or_default();
    let known: Vec<&str> = known.split_whitespace().collect();
    format!(
        "congestion_control {name:?}: {why}; {list} has {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use rustix::net::sockopt::tcp_congestion;

    use super::*;

    fn listener() -> TcpListener {
        TcpListener::bind(("127.0.0.1", 0)).unwrap()
    }

    #[test]
    fn connections_send_as_their_listener_was_told() {
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let of_next = || {
            let client = TcpStream::connect(address).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            drop(client);
            tcp_congestion(&accepted).unwrap()
        };
        choose(std::slice::from_ref(&listener), "reno").unwrap();
        assert_eq!(of_next(), "reno");
        let refused = choose(std::slice::from_ref(&listener), "no-such").unwrap_err();
        assert!(
            refused.contains("has no such congestion control"),
            "{refused}"
        );
        assert!(refused.contains("reno"), "{refused}");
        assert_eq!(of_next(), "reno");
    }

    #[test]
    fn whoever_may_not_choose_is_told_what_may_be_chosen() {
        let told = refused("dctcp", io::ErrorKind::PermissionDenied.into());
        let why = "congestion_control \"dctcp\": this kernel lets only who has CAP_NET_ADMIN choose it; \
                   /proc/sys/net/ipv4/tcp_allowed_congestion_control has ";
        assert!(told.starts_with(why), "{told}");
    }
}
