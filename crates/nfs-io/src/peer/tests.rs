use std::io::Write as _;
use std::net::{Shutdown, SocketAddrV4};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType};

use super::*;
use crate::identity::{Creds, LocalGid, can_switch, run_as};
use crate::testing::skip;

const STRANGER: LocalUid = LocalUid(54_321);

/// Runs `work` as another user: what it connects is that user's.
fn as_stranger<T>(work: impl FnOnce() -> T) -> T {
    let stranger = Creds::new(STRANGER, LocalGid(54_322), &[]);
    run_as(&stranger, || Ok(work())).unwrap()
}

fn connected(listener: &TcpListener, to: SocketAddr) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(to).unwrap();
    (listener.accept().unwrap().0, client)
}

/// An end of a connection that goes with a reset, not in order.
fn reset(client: TcpStream) {
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
}

/// Until the kernel says so of this end, or the time is up.
fn until_over(accepted: &TcpStream) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while accepted.peer_addr().is_ok() {
        assert!(Instant::now() < deadline, "the reset did not arrive");
        std::thread::yield_now();
    }
}

/// A client socket with a port of its own choice, which others may use after it.
fn connect_from(port: u16, to: SocketAddr) -> std::io::Result<(TcpStream, u16)> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::connect(&socket, &to)?;
    let stream = TcpStream::from(socket);
    let port = stream.local_addr()?.port();
    Ok((stream, port))
}

#[test]
fn a_peer_on_loopback_is_known_in_every_form_of_its_address() {
    let own = crate::identity::ServerIdentity::current().creds().uid();
    let mut asker = Asker::new();
    let forms = [
        ("127.0.0.1:0", "127.0.0.1"),
        ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ("[::1]:0", "::1"),
        ("[::]:0", "127.0.0.1"),
        ("[::]:0", "::ffff:127.0.0.1"),
        ("0.0.0.0:0", "127.3.2.1"),
    ];
    for (bound, target) in forms {
        let listener = match TcpListener::bind(bound) {
            Ok(listener) => listener,
            Err(error) => skip!("{bound}: {error}"),
        };
        let to = SocketAddr::new(
            target.parse().unwrap(),
            listener.local_addr().unwrap().port(),
        );
        let (accepted, client) = connected(&listener, to);
        assert_eq!(asker.owner(&accepted), Owner::User(own), "{bound} {target}");
        // The other way round the answer is the same.
        assert_eq!(asker.owner(&client), Owner::User(own), "{bound} {target}");
        if !can_switch() {
            continue;
        }
        let (accepted, _client) = as_stranger(|| connected(&listener, to));
        assert_eq!(
            asker.owner(&accepted),
            Owner::User(STRANGER),
            "{bound} {target}"
        );
    }
    assert_eq!(asker.probe(), Ok(()));
}

#[test]
fn who_says_that_it_sends_no_more_is_still_known() {
    if !can_switch() {
        skip!("connecting as another user needs root");
    }
    let mut asker = Asker::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let (accepted, mut client) = as_stranger(|| connected(&listener, to));
    client.write_all(b"call").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(asker.owner(&accepted), Owner::User(STRANGER));
}

#[test]
fn a_socket_that_was_closed_is_nobodys() {
    if !can_switch() {
        skip!("connecting as another user needs root");
    }
    let mut asker = Asker::new();
    for target in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(target).unwrap();
        let to = listener.local_addr().unwrap();
        for turn in 0..300 {
            let (accepted, mut client) = as_stranger(|| connected(&listener, to));
            client.write_all(b"call").unwrap();
            match turn % 3 {
                // Both ends have said that they send no more: the peer's waits (TIME_WAIT).
                0 => {
                    client.shutdown(Shutdown::Write).unwrap();
                    accepted.shutdown(Shutdown::Write).unwrap();
                    drop(client);
                }
                1 => drop(client),
                _ => reset(client),
            }
            // A program that another test starts has a copy of every socket until it runs: then it is
            // still held, and still the stranger's. It is never root's.
            let told = asker.owner(&accepted);
            let is_true = [Owner::Untold, Owner::User(STRANGER)].contains(&told);
            assert!(is_true, "{target} {turn}: {told:?}");
        }
    }
}

#[test]
fn a_port_that_changed_hands_tells_nothing_about_who_had_it() {
    if !can_switch() {
        skip!("connecting as another user needs root");
    }
    let mut asker = Asker::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    for _ in 0..100 {
        let (mut client, port) = as_stranger(|| connect_from(0, to)).unwrap();
        client.write_all(b"call").unwrap();
        let (accepted, _) = listener.accept().unwrap();
        reset(client);
        until_over(&accepted);
        // Root's, on the very same two addresses.
        let (_client, _) = connect_from(port, to).unwrap();
        let (roots, _) = listener.accept().unwrap();
        assert_eq!(asker.owner(&accepted), Owner::Untold);
        // The question alone would be answered with the next owner of the port.
        let ends = Ends::new(SocketAddr::from(([127, 0, 0, 1], port)), to);
        assert_eq!(asker.owner_of(ends), Owner::User(LocalUid(0)));
        assert_eq!(asker.owner(&roots), Owner::User(LocalUid(0)));
    }
}

/// The kernel answers with a listener where no socket is connected: one that listens on all addresses
/// fits every address that a peer may have.
#[test]
fn a_listener_is_not_the_peer() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ends = |peer: [u8; 4]| Ends {
        peer: SocketAddr::from((peer, port)),
        own: SocketAddr::from(([192, 0, 2, 1], 2049)),
    };
    let mut asker = Asker::new();
    let found = socket(asker.sockets.as_mut().unwrap(), ends([192, 0, 2, 77])).unwrap();
    let found = found.expect("the listener");
    assert_ne!(found.ends, ends([192, 0, 2, 77]));
    assert_eq!(found.owner(Some(65534)), Owner::Untold);
    assert_eq!(asker.owner_of(ends([192, 0, 2, 77])), Owner::Elsewhere);
    assert_eq!(asker.owner_of(ends([127, 0, 0, 9])), Owner::Untold);
}

#[test]
fn what_cannot_be_asked_is_untold_on_every_address_of_this_machine() {
    let blind = || Asker {
        sockets: Err(Errno::PERM),
        ..Asker::new()
    };
    let blinder = || Asker {
        routes: Err(Errno::PERM),
        ..blind()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (accepted, _client) = connected(&listener, listener.local_addr().unwrap());
    for mut asker in [blind(), blinder()] {
        assert_eq!(asker.owner(&accepted), Owner::Untold);
        assert!(asker.probe().unwrap_err().contains("netlink"));
        let elsewhere = Ends {
            peer: SocketAddr::from(([192, 0, 2, 77], 9)),
            own: SocketAddr::from(([192, 0, 2, 1], 2049)),
        };
        assert_eq!(asker.owner_of(elsewhere), Owner::Elsewhere);
    }
}

/// A connection from one address of this machine to another. The kernel makes the routes of an IPv6 address
/// some moments after it was given, and says until then that the network is unreachable.
fn until_connected(from: SocketAddr, to: SocketAddr) -> TcpStream {
    let family = if from.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let connect = || {
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &from)?;
        rustix::net::connect(&socket, &to)?;
        Ok::<_, Errno>(TcpStream::from(socket))
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match connect() {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{from} to {to}: {error}"),
        }
        std::thread::yield_now();
    }
}

/// Runs `work` in a network namespace of its own, with loopback up and two more addresses of each family.
fn in_own_network(work: impl FnOnce() + Send) -> core::result::Result<(), String> {
    let prepare = || {
        // SAFETY: a new network namespace takes no descriptor and no memory from this thread, which ends
        // with the test.
        let unshared =
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        unshared.map_err(|error| format!("no network namespace: {error}"))?;
        for line in [
            "link set lo up",
            "addr add 10.1.2.3/32 dev lo",
            "addr add 10.1.2.4/32 dev lo",
            "addr add fd00::3/128 dev lo nodad",
            "addr add fd00::4/128 dev lo nodad",
            "route add local 10.9.0.0/16 dev lo",
        ] {
            let done = Command::new("ip").args(line.split(' ')).status();
            if !done.is_ok_and(|status| status.success()) {
                return Err(format!("ip {line} failed"));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| prepare().map(|()| work()));
        inside
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn a_program_of_this_machine_is_known_by_any_of_its_addresses() {
    if !can_switch() {
        skip!("connecting as another user needs root");
    }
    let inside = in_own_network(|| {
        let mut asker = Asker::new();
        let pairs = [
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "127.0.0.1"),
            ("127.0.0.1", "10.1.2.4"),
            // No interface has this one, but what is sent to it stays here.
            ("10.9.1.1", "10.9.2.2"),
            ("fd00::3", "fd00::3"),
            ("fd00::3", "fd00::4"),
            ("fd00::4", "::1"),
        ];
        for (from, to) in pairs {
            let to: IpAddr = to.parse().unwrap();
            let from = SocketAddr::new(from.parse().unwrap(), 0);
            let listener = TcpListener::bind((to, 0)).unwrap();
            let target = listener.local_addr().unwrap();
            let _client = as_stranger(|| until_connected(from, target));
            let (accepted, _) = listener.accept().unwrap();
            assert_eq!(accepted.peer_addr().unwrap().ip(), from.ip());
            assert_eq!(asker.owner(&accepted), Owner::User(STRANGER), "{from} {to}");
            // Where the socket is gone, it was still one of this machine: its word is not another machine's.
            let gone = Ends::new(SocketAddr::new(from.ip(), 1), SocketAddr::new(to, 2));
            assert_eq!(asker.owner_of(gone), Owner::Untold, "{from} {to}");
        }
        for (peer, own) in [("10.8.0.1", "10.1.2.3"), ("fd00::9", "fd00::3")] {
            let end = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 7);
            let remote = Ends::new(end(peer), end(own));
            assert_eq!(asker.owner_of(remote), Owner::Elsewhere, "{peer}");
        }
    });
    if let Err(reason) = inside {
        skip!("{reason}");
    }
}

#[test]
fn an_answer_of_the_kernel_is_read_or_refused_at_any_length() {
    let mut body = vec![2, ESTABLISHED, 0, 0];
    body.extend(700_u16.to_be_bytes());
    body.extend(2049_u16.to_be_bytes());
    body.extend(sixteen(IpAddr::from([127, 0, 0, 1])));
    body.extend(sixteen(IpAddr::from([127, 0, 0, 2])));
    body.extend([0; 4 + 8 + 12]);
    body.extend(1000_u32.to_ne_bytes());
    body.extend(77_u32.to_ne_bytes());
    let answer = |body: &[u8]| netlink::Answer {
        kind: SOCK_DIAG_BY_FAMILY,
        body: body.to_vec(),
    };
    let socket = read_socket(&answer(&body)).unwrap();
    let ends = Ends {
        peer: "127.0.0.1:700".parse().unwrap(),
        own: "127.0.0.2:2049".parse().unwrap(),
    };
    assert_eq!((socket.ends, socket.uid, socket.inode), (ends, 1000, 77));
    assert_eq!(socket.owner(Some(65534)), Owner::User(LocalUid(1000)));
    for len in 0..body.len() {
        assert_eq!(read_socket(&answer(&body[..len])), None, "{len}");
    }
    let route = netlink::Answer {
        kind: RTM_NEWROUTE,
        body: vec![2; 12],
    };
    assert_eq!(is_local_route(&route), Some(true));
    for len in 0..route.body.len() {
        let body = route.body[..len].to_vec();
        let kind = RTM_NEWROUTE;
        assert_eq!(is_local_route(&netlink::Answer { kind, body }), None);
    }
}

#[test]
fn only_a_held_and_connected_socket_names_its_user() {
    let socket = |state, uid, inode| Socket {
        ends: Ends {
            peer: "127.0.0.1:700".parse().unwrap(),
            own: "127.0.0.2:2049".parse().unwrap(),
        },
        state,
        uid,
        inode,
    };
    for state in 0..=20 {
        let is_connected = [ESTABLISHED, FIN_WAIT1, FIN_WAIT2].contains(&state);
        let told = |uid, inode| socket(state, uid, inode).owner(Some(65534)) != Owner::Untold;
        assert_eq!(told(0, 1), is_connected);
        assert_eq!(told(1000, 1), is_connected);
        // Nobody holds it; no number for its user here; no user at all.
        assert!(!told(0, 0) && !told(1000, 0));
        assert!(!told(65534, 1) && !told(u32::MAX, 1));
        let nobody = socket(state, 65534, 1).owner(None);
        assert_eq!(nobody != Owner::Untold, is_connected);
    }
}

#[test]
fn a_map_of_all_users_is_told_from_others() {
    assert!(is_whole("         0          0 4294967295\n"));
    for other in ["0 1000 1\n", "0 1000 1\n1 100000 65536\n", "", "0 0"] {
        assert!(!is_whole(other), "{other}");
    }
}

#[test]
fn a_listener_of_another_network_is_asked_about_there() {
    if !can_switch() {
        skip!("entering a network namespace needs root");
    }
    let (tell, told) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let inside = std::thread::spawn(move || {
        in_own_network(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            let (accepted, _client) = as_stranger(|| connected(&listener, to));
            let peer = accepted.peer_addr().unwrap();
            tell.send((listener, accepted, peer)).unwrap();
            // The client stays until both were asked about.
            assert!(wait.recv().is_err());
        })
    });
    if let Ok((listener, accepted, peer)) = told.recv() {
        // The same two addresses on our side, and root's.
        let own = listener.local_addr().unwrap();
        let namesake = TcpListener::bind(own);
        let roots = namesake.as_ref().map(|_| connect_from(peer.port(), own));
        assert_eq!(
            Asker::for_listener(&listener).owner(&accepted),
            Owner::User(STRANGER)
        );
        let ours = Asker::new().owner(&accepted);
        assert_ne!(ours, Owner::Elsewhere, "it is of this machine");
        drop(roots);
    }
    drop(done);
    if let Err(reason) = inside.join().unwrap() {
        skip!("{reason}");
    }
}
