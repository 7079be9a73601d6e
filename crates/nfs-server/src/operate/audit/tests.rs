use std::net::{Ipv4Addr, SocketAddr};

use super::*;

fn read(port: u16, uid: u32, file: &[u8]) -> Deed {
    Deed {
        operation: Operation::Read,
        client: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        uid: Some(uid),
        on: Named::new(file, None),
        to: None,
        asked: Asked::default(),
    }
}

#[test]
fn a_read_is_the_first_of_its_user_address_and_file_once_in_a_while() {
    let mut firsts = Firsts::default();
    let now = Instant::now();
    let while_ = Duration::from_secs(limits::AUDIT_AGAIN_SECONDS);
    assert!(firsts.is_first(&read(1, 1, b"a"), now));
    // Another connection of the same client is no other client.
    assert!(!firsts.is_first(&read(2, 1, b"a"), now));
    assert!(firsts.is_first(&read(1, 2, b"a"), now));
    assert!(firsts.is_first(&read(1, 1, b"b"), now));
    let write = Deed {
        operation: Operation::Write,
        ..read(1, 1, b"a")
    };
    assert!(firsts.is_first(&write, now));
    assert!(!firsts.is_first(&read(1, 1, b"a"), now + while_ - Duration::from_secs(1)));
    assert!(firsts.is_first(&read(1, 1, b"a"), now + while_));
}

#[test]
fn what_is_remembered_of_reads_is_bounded() {
    let mut firsts = Firsts::default();
    let now = Instant::now();
    for file in 0..limits::AUDIT_FILES_MAX * 2 + 7 {
        assert!(firsts.is_first(&read(1, 1, &file.to_be_bytes()), now));
        assert!(firsts.seen.len() <= limits::AUDIT_FILES_MAX);
    }
}
