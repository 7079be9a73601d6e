//! Tables of good and bad URLs, and noise.

use proptest::prelude::*;

use super::options::{ID_CURE, NCONNECT_CURE, VERSION_CURE};
use super::*;

fn url(host: &str, path: &[u8]) -> NfsUrl {
    NfsUrl {
        host: host.to_owned(),
        path: path.to_vec(),
        ..NfsUrl::default()
    }
}

#[test]
fn good_urls() {
    let table: &[(&str, NfsUrl)] = &[
        ("nfs://h/", url("h", b"/")),
        ("NFS://h/", url("h", b"/")),
        ("nfs://server.example/a/b", url("server.example", b"/a/b")),
        ("nfs://h//abs", url("h", b"//abs")),
        (
            "nfs://127.0.0.1:20049/x",
            NfsUrl {
                port: Some(20049),
                ..url("127.0.0.1", b"/x")
            },
        ),
        ("nfs://[::1]/x", url("::1", b"/x")),
        (
            "nfs://[::1]:1/x",
            NfsUrl {
                port: Some(1),
                ..url("::1", b"/x")
            },
        ),
        ("nfs://[fe80::1%25eth0]/x", url("fe80::1%eth0", b"/x")),
        ("nfs://[fe80::1%eth0]/x", url("fe80::1%eth0", b"/x")),
        ("nfs://h/a%20b%2Fc%ff", url("h", b"/a b/c\xff")),
        ("nfs://h/a%3Fb%23c%25", url("h", b"/a?b#c%")),
        ("nfs://h/gr\u{fc}n", url("h", "/gr\u{fc}n".as_bytes())),
        ("nfs://h/a b", url("h", b"/a b")),
        ("nfs://h/x?", url("h", b"/x")),
        ("nfs://h/x?version=3", url("h", b"/x")),
        (
            "nfs://h/x?version=4.1",
            NfsUrl {
                version: Version::V41,
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h/x?version=4.2",
            NfsUrl {
                version: Version::V42,
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h/x?nfsport=7&",
            NfsUrl {
                port: Some(7),
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h:7/x?nfsport=7",
            NfsUrl {
                port: Some(7),
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h/x?mountport=65535",
            NfsUrl {
                mount_port: Some(65535),
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h/x?uid=0&gid=4294967294",
            NfsUrl {
                uid: Some(0),
                gid: Some(4294967294),
                ..url("h", b"/x")
            },
        ),
        (
            "nfs://h/x?nconnect=16",
            NfsUrl {
                nconnect: Some(16),
                ..url("h", b"/x")
            },
        ),
    ];
    for (text, expected) in table {
        let parsed = NfsUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&parsed, expected, "{text}");
        let again = NfsUrl::parse(&parsed.to_string());
        assert_eq!(again.as_ref(), Ok(expected), "{text} -> {parsed}");
    }
}

#[test]
fn refused_urls() {
    let bad = |option: &str, value: &str, cure| UrlError::BadValue {
        option: option.to_owned(),
        value: value.to_owned(),
        cure,
    };
    let table: &[(&str, UrlError)] = &[
        ("", UrlError::Scheme),
        (":/x", UrlError::Scheme),
        ("./h:/x", UrlError::Scheme),
        ("a:b:/x", UrlError::Scheme),
        ("h:x", UrlError::Scheme),
        ("us@h:/x", UrlError::UserInfo),
        ("http://h/x", UrlError::Scheme),
        ("nfs://", UrlError::NoHost),
        ("nfs:///x", UrlError::NoHost),
        ("nfs://:2049/x", UrlError::NoHost),
        ("nfs://u@h/x", UrlError::UserInfo),
        ("nfs://h%41/x", UrlError::BadHost("h%41".into())),
        ("nfs://::1/x", UrlError::BadHost("::1".into())),
        ("nfs://[::1/x", UrlError::BadHost("[::1".into())),
        ("nfs://[::1]2/x", UrlError::BadHost("[::1]2".into())),
        ("nfs://[h]/x", UrlError::BadHost("[h]".into())),
        ("nfs://[fe80::1%]/x", UrlError::BadHost("[fe80::1%]".into())),
        ("nfs://h:/x", UrlError::BadPort("".into())),
        ("nfs://h:0/x", UrlError::BadPort("0".into())),
        ("nfs://h:65536/x", UrlError::BadPort("65536".into())),
        ("nfs://h:+1/x", UrlError::BadPort("+1".into())),
        ("nfs://h/x?nfsport=a", UrlError::BadPort("a".into())),
        (
            "nfs://h:1/x?nfsport=2",
            UrlError::TwoPorts {
                port: 1,
                nfsport: 2,
            },
        ),
        ("nfs://h/%", UrlError::BadEscape { at: 1 }),
        ("nfs://h/a%4", UrlError::BadEscape { at: 2 }),
        ("nfs://h/a%zz", UrlError::BadEscape { at: 2 }),
        ("nfs://h/a%00b", UrlError::Nul),
        ("nfs://h/x#y", UrlError::Fragment),
        (
            "nfs://h/x?colour=red",
            UrlError::UnknownOption("colour".into()),
        ),
        (
            "nfs://h/x?uid=1&uid=1",
            UrlError::RepeatedOption("uid".into()),
        ),
        ("nfs://h/x?uid=", bad("uid", "", ID_CURE)),
        (
            "nfs://h/x?uid=4294967295",
            bad("uid", "4294967295", ID_CURE),
        ),
        ("nfs://h/x?gid=-1", bad("gid", "-1", ID_CURE)),
        ("nfs://h/x?version=4.0", bad("version", "4.0", VERSION_CURE)),
        ("nfs://h/x?version=5", bad("version", "5", VERSION_CURE)),
        (
            "nfs://h/x?nconnect=17",
            bad("nconnect", "17", NCONNECT_CURE),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(NfsUrl::parse(text).as_ref(), Err(expected), "{text}");
    }
}

#[test]
fn lengths_are_capped() {
    let long = format!("nfs://h/{}", "a".repeat(URL_BYTES_MAX));
    assert_eq!(
        NfsUrl::parse(&long),
        Err(UrlError::TooLong { len: long.len() })
    );
    let path = format!("nfs://h/{}", "a".repeat(URL_PATH_BYTES_MAX));
    assert_eq!(
        NfsUrl::parse(&path),
        Err(UrlError::PathTooLong {
            len: URL_PATH_BYTES_MAX + 1
        })
    );
}

#[test]
fn components_leave_out_what_names_nothing() {
    let url = NfsUrl::parse("nfs://h//a/./b//%2e%2e/").unwrap();
    let names: Vec<&[u8]> = url.components().collect();
    assert_eq!(names, [&b"a"[..], b"b", b".."]);
}

#[test]
fn settings() {
    let plain = || url("h", b"/");
    let seconds = Duration::from_secs;
    let table: &[(&str, NfsUrl)] = &[
        (
            "rsize=65536&wsize=512",
            NfsUrl {
                read_bytes: Some(65536),
                write_bytes: Some(512),
                ..plain()
            },
        ),
        (
            "rsize=99999999999",
            NfsUrl {
                read_bytes: Some(u32::MAX),
                ..plain()
            },
        ),
        (
            "readdir-buffer=8192,32768",
            NfsUrl {
                directory_bytes: Some(32768),
                ..plain()
            },
        ),
        (
            "hint=sequential",
            NfsUrl {
                hint: Some(Hint::Sequential),
                ..plain()
            },
        ),
        (
            "hint=willneed",
            NfsUrl {
                hint: Some(Hint::WILL_NEED_ALL),
                ..plain()
            },
        ),
        (
            "timeo=600&timeout=30",
            NfsUrl {
                retry_after: Some(seconds(60)),
                call_timeout: Some(seconds(30)),
                ..plain()
            },
        ),
        (
            "retrans=0",
            NfsUrl {
                reconnect: Some(Reconnect::ForNewCalls),
                ..plain()
            },
        ),
        (
            "autoreconnect=0&retrans=0",
            NfsUrl {
                reconnect: Some(Reconnect::Never),
                ..plain()
            },
        ),
        (
            "readonly&if=eth0.7",
            NfsUrl {
                read_only: true,
                interface: Some("eth0.7".into()),
                ..plain()
            },
        ),
        ("readonly=0", plain()),
        ("retrans=2&autoreconnect=-1", plain()),
        ("tcp-syncnt=3&debug=9&dircache=1", plain()),
        ("auto-traverse-mounts=0&sec=sys&xprtsec=none", plain()),
    ];
    for (options, expected) in table {
        let text = format!("nfs://h/?{options}");
        let parsed = NfsUrl::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&parsed, expected, "{text}");
        let again = NfsUrl::parse(&parsed.to_string());
        assert_eq!(again.as_ref(), Ok(expected), "{text} -> {parsed}");
    }
}

#[test]
fn settings_that_do_not_fit() {
    for options in [
        "rsize=511",
        "rsize=64k",
        "wsize=",
        "readdir-buffer=1,2",
        "hint=",
        "hint=dontneed",
        "timeout=0",
        "timeout=1000001",
        "timeo=0",
        "retrans=-1",
        "autoreconnect=always",
        "readonly=yes",
        "if=",
        "if=a/b",
        "if=sixteen-letters-",
        "tcp-syncnt=x",
        "dircache=2",
        "auto-traverse-mounts=1",
        "sec=krb5",
        "xprtsec=tls",
    ] {
        match NfsUrl::parse(&format!("nfs://h/?{options}")) {
            Err(UrlError::BadValue { option, cure, .. }) => {
                assert!(
                    options.starts_with(&option) && !cure.is_empty(),
                    "{options}"
                );
            }
            other => panic!("{options}: {other:?}"),
        }
    }
}

proptest! {
    /// Whatever the text: a URL or an error, and a URL writes itself so that it parses to the same.
    #[test]
    fn any_text_is_parsed_or_refused(text in any::<String>(), tail in "[ -~]{0,60}") {
        for text in [text, format!("nfs://h/{tail}"), format!("nfs://{tail}"), format!("nfs://h/?{tail}")] {
            if let Ok(url) = NfsUrl::parse(&text) {
                prop_assert_eq!(NfsUrl::parse(&url.to_string()), Ok(url.clone()));
                // What is printed is no pattern.
                let printed = url.to_string().parse::<UrlPattern>();
                prop_assert!(printed.is_ok_and(|printed| !printed.is_pattern()));
            }
            let _no_panic = text.parse::<UrlPattern>();
        }
    }

    /// Texts put together from the pieces that URLs are made of.
    #[test]
    fn any_pieces_are_parsed_or_refused(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("nfs://"), Just("h"), Just("[::1]"), Just("%25"), Just("%"), Just("%00"), Just("/"),
                Just(":"), Just("1"), Just("?"), Just("&"), Just("="), Just("uid"), Just("timeo"),
                Just("retrans"), Just("readonly"), Just("if"), Just("rsize"), Just("65536"), Just("0"),
                Just("-"), Just(","), Just("readdir-buffer"), Just("@"), Just("\u{fc}"),
            ],
            0..20,
        )
    ) {
        for text in [pieces.concat(), format!("nfs://h/{}", pieces.concat())] {
            if let Ok(url) = NfsUrl::parse(&text) {
                prop_assert_eq!(NfsUrl::parse(&url.to_string()), Ok(url));
            }
        }
    }
}

#[test]
fn patterns_in_addresses() {
    let read = |text: &str| text.parse::<UrlPattern>().unwrap();
    // Text, the directory of the first pattern, and how many names there are from it on.
    for (text, base, names) in [
        ("nfs://h/a/b", "nfs://h/a/b", 0),
        ("nfs://h", "nfs://h/", 0),
        ("nfs://h/a/*.log", "nfs://h/a", 1),
        ("nfs://h/*", "nfs://h/", 1),
        (
            "nfs://[::1]:99/a//[ab]/./x/?uid=7",
            "nfs://[::1]:99/a/?uid=7",
            2,
        ),
        ("nfs://h/%2A/%5Ba]/a[", "nfs://h/%2A/%5Ba%5D/a%5B", 0),
        ("h:/a/b?/c", "nfs://h/a", 2),
        ("[::1]:/*", "nfs://[::1]/", 1),
    ] {
        let pattern = read(text);
        assert_eq!(pattern.base().to_string(), base, "{text}");
        assert_eq!(pattern.names().len(), names, "{text}");
        assert_eq!(pattern.is_pattern(), names > 0, "{text}");
        assert_eq!(pattern.to_string(), text);
        assert_eq!(pattern.literal(), &text.parse().unwrap());
    }
    assert!(read("nfs://h/*/").directories_only());
    assert!(!read("nfs://h/*").directories_only());
    for (text, name, fits) in [
        ("nfs://h/*", "a b", true),
        ("nfs://h/*", ".hidden", false),
        ("nfs://h/.*", ".hidden", true),
        ("nfs://h/%2E*", ".hidden", true),
        ("nfs://h/[.]*", ".hidden", false),
        ("nfs://h/%2A*", "*x", true),
        ("nfs://h/%2A*", "ax", false),
        ("nfs://h/\\*x*", "*xy", true),
        ("nfs://h/\\*x*", "axy", false),
        ("nfs://h/%C3%BC*", "\u{fc}x", true),
        ("nfs://h/[%2D%5D]x", "]x", true),
        ("h:/%2A*", "%2Ax", true),
        ("h:/a?", "ab", true),
    ] {
        assert_eq!(
            read(text).names()[0].matches(name.as_bytes()),
            fits,
            "{text} {name}"
        );
    }
    for text in [
        // In nfs://, the first ? begins the options.
        "nfs://h/a??",
        "nfs://h/[[:nope:]]",
        "nfs://h/%FF*",
        "nfs://h/[b-a]",
        "h:/[b-a]",
    ] {
        assert!(text.parse::<UrlPattern>().is_err(), "{text}");
    }
}

#[test]
fn addresses_as_people_type_them() {
    for (text, expected) in [
        ("nfs://h", "nfs://h/"),
        ("nfs://h:2049", "nfs://h:2049/"),
        ("nfs://h?uid=0", "nfs://h/?uid=0"),
        ("h:/x/y", "nfs://h/x/y"),
        // As mount(8) takes it: nothing in the path means anything else.
        ("h:/a%20?b#c", "nfs://h/a%2520%3Fb%23c"),
        ("[fe80::1]:/x", "nfs://[fe80::1]/x"),
        ("10.0.0.1:/", "nfs://10.0.0.1/"),
    ] {
        let url: NfsUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), expected, "{text}");
        assert!(NfsUrl::is_meant_by(text), "{text}");
    }
    for text in ["./h:/x", "/h:/x", "a/b", "h", "C:x", "http://h/x", "a:b"] {
        assert!(!NfsUrl::is_meant_by(text), "{text}");
    }
}
