//! What else answers on a port that was taken for an RPC server's, told by its first bytes.

use crate::error::Foreign;

/// The protocol whose server begins with these bytes; `None` for those that none of ours begins with.
pub(super) fn foreign(first: &[u8]) -> Option<Foreign> {
    // RFC 8446 §5.1: an alert (21) or a handshake (22) of TLS 1.0 to 1.3, major version 3.
    if let [21 | 22, 3, 0..=4, ..] = first {
        return Some(Foreign::Tls);
    }
    let starts = |text: &[u8]| first.starts_with(text);
    let table = [
        (&b"HTTP/"[..], Foreign::Http),
        // Servers that take the call for a request of HTTP/0.9 answer with the page alone.
        (b"<!DOCTYPE ", Foreign::Http),
        (b"<html", Foreign::Http),
        (b"SSH-", Foreign::Ssh),
        // RFC 5321 §4.2 and RFC 959 §5.4: both greet with 220.
        (b"220 ", Foreign::Mail),
        (b"220-", Foreign::Mail),
        (b"RFB ", Foreign::Vnc),
    ];
    let found = table.into_iter().find(|(text, _)| starts(text));
    found.map(|(_, foreign)| foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_by_their_first_bytes() {
        let table: [(&[u8], Option<Foreign>); 9] = [
            (b"HTTP/1.1 400 Bad Request\r\n", Some(Foreign::Http)),
            (b"<!DOCTYPE HTML>", Some(Foreign::Http)),
            (b"SSH-2.0-OpenSSH_9.9\r\n", Some(Foreign::Ssh)),
            // An alert: fatal, unexpected_message.
            (&[21, 3, 1, 0, 2, 2, 10], Some(Foreign::Tls)),
            (&[21, 3, 9, 0, 2, 2, 10], None),
            (b"220 mail.example ESMTP\r\n", Some(Foreign::Mail)),
            (b"RFB 003.008\n", Some(Foreign::Vnc)),
            (&[0x80, 0, 0, 24], None),
            (b"", None),
        ];
        for (first, expected) in table {
            assert_eq!(foreign(first), expected, "{first:?}");
        }
    }
}
