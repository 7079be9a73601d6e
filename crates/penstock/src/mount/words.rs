//! The words of `-o`, as mount commands take them. Pure.
//!
//! Each word is one of three: it changes something, it says what is so anyway ([`SO_ALREADY`]), or something else would
//! happen than it asks for, and it is refused with the reason ([`REFUSED`]).

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nfs_client::Hint;
use nfs_client::limits::{NCONNECT_MAX, TIMEOUT_MAX as CALL_TIMEOUT_MAX};
use nfs_fuse::limits::{THREADS_MAX, TIMEOUT_MAX};

/// The meaning of one word of the list behind `-o`, as mount commands take them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    ReadOnly(bool),
    AllowOther,
    DefaultPermissions(bool),
    Cached,
    Suid(bool),
    Dev(bool),
    Exec(bool),
    Nconnect(u32),
    AttrTimeout(Duration),
    EntryTimeout(Duration),
    BothTimeouts(Duration),
    Timeout(Duration),
    RetryAfter(Duration),
    ReadBytes(u32),
    WriteBytes(u32),
    Port(u16),
    MountPort(u16),
    Threads(usize),
    Hint(Hint),
    Log(PathBuf),
    /// It is so already.
    Nothing,
}

/// All words of one `-o`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(Vec<Word>);

/// What the words of the command line come to; later words win.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) read_only: bool,
    pub(super) allow_other: bool,
    pub(super) default_permissions: Option<bool>,
    pub(super) cached: bool,
    pub(super) suid: bool,
    pub(super) dev: bool,
    pub(super) no_exec: bool,
    pub(super) nconnect: Option<u32>,
    pub(super) attr_timeout: Option<Duration>,
    pub(super) entry_timeout: Option<Duration>,
    pub(super) call_timeout: Option<Duration>,
    pub(super) retry_after: Option<Duration>,
    pub(super) read_bytes: Option<u32>,
    pub(super) write_bytes: Option<u32>,
    pub(super) port: Option<u16>,
    pub(super) mount_port: Option<u16>,
    pub(super) threads: Option<usize>,
    pub(super) hint: Option<Hint>,
    pub(super) log: Option<PathBuf>,
}

/// Words that say what is so anyway, or that are meant for others: for mount(8), systemd.mount(5) and who reads
/// fstab(5).
const SO_ALREADY: &[&str] = &[
    // This client: NFSv3 over TCP, AUTH_SYS, locks on this machine, close-to-open, answers to signals.
    "vers=3",
    "nfsvers=3",
    "v3",
    "proto=tcp",
    "tcp",
    "mountproto=tcp",
    "mountvers=3",
    "sec=sys",
    "nolock",
    "local_lock=all",
    "noacl",
    "cto",
    "intr",
    "async",
    "fg",
    "rdirplus",
    "lookupcache=all",
    "xprtsec=none",
    "nofsc",
    // The server keeps the times of access as it likes, as with the kernel's client (nfs(5)).
    "noatime",
    "nodiratime",
    "relatime",
    "atime",
    "diratime",
    "norelatime",
    // For others.
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "_rnetdev",
    "loud",
    "silent",
];

/// Words that ask for something else than would happen, and why.
const REFUSED: &[(&str, &str)] = &[
    ("lock", "locks are kept on this machine only: write nolock"),
    (
        "local_lock",
        "locks are kept on this machine only: write local_lock=all",
    ),
    (
        "vers",
        "only NFSv3 can be mounted so; the kernel's client mounts NFSv4: -t nfs -o vers=4.2",
    ),
    (
        "nfsvers",
        "only NFSv3 can be mounted so; the kernel's client mounts NFSv4: -t nfs -o vers=4.2",
    ),
    (
        "v4",
        "only NFSv3 can be mounted so; the kernel's client mounts NFSv4: -t nfs -o vers=4.2",
    ),
    ("mountvers", "MOUNT is spoken in version 3 only"),
    ("proto", "calls go over TCP only"),
    ("mountproto", "calls go over TCP only"),
    ("udp", "calls go over TCP only"),
    ("rdma", "calls go over TCP only"),
    (
        "sec",
        "calls carry AUTH_SYS only: the kernel's client has Kerberos",
    ),
    ("xprtsec", "there is no TLS: the kernel's client has it"),
    ("acl", "there are no ACLs: the server still heeds its own"),
    (
        "nocto",
        "what one has closed, another sees when it opens the file: that stays so",
    ),
    ("nordirplus", "directories are read by READDIRPLUS"),
    (
        "lookupcache",
        "names are remembered for entry_timeout=SECONDS, present and absent ones",
    ),
    (
        "acregmin",
        "attributes are remembered for attr_timeout=SECONDS",
    ),
    (
        "acregmax",
        "attributes are remembered for attr_timeout=SECONDS",
    ),
    (
        "acdirmin",
        "attributes are remembered for attr_timeout=SECONDS",
    ),
    (
        "acdirmax",
        "attributes are remembered for attr_timeout=SECONDS",
    ),
    (
        "sync",
        "a file opened with O_SYNC waits for each write; for all files of a mount there is no such thing",
    ),
    (
        "dirsync",
        "changes of names are on stable storage when they return, on a server that keeps the protocol",
    ),
    (
        "strictatime",
        "the server keeps the times of access as it likes",
    ),
    (
        "lazytime",
        "the server keeps the times of access as it likes",
    ),
    (
        "bg",
        "a mount that fails is not tried again: x-systemd.automount mounts when somebody looks",
    ),
    ("fsc", "nothing is kept on a disk here"),
    (
        "remount",
        "what is mounted cannot be changed: unmount it, and mount it anew",
    ),
    ("bind", "mount --bind needs no help of ours"),
    (
        "uid",
        "who the calls are made as is said in the address: nfs://HOST/PATH?uid=N&gid=N",
    ),
    (
        "gid",
        "who the calls are made as is said in the address: nfs://HOST/PATH?uid=N&gid=N",
    ),
];

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').filter(|word| !word.is_empty());
        Ok(Self(words.map(word).collect::<Result<_, _>>()?))
    }
}

impl Words {
    /// The words that are known, and what is said of the others.
    pub(super) fn known(text: &str) -> (Self, Vec<String>) {
        let words = text.split(',').filter(|text| !text.is_empty());
        let (known, wrong): (Vec<_>, Vec<_>) = words.map(word).partition(Result::is_ok);
        let known = known.into_iter().filter_map(Result::ok).collect();
        (
            Self(known),
            wrong.into_iter().filter_map(Result::err).collect(),
        )
    }
}

fn word(text: &str) -> Result<Word, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let is_for_others = name.starts_with("x-") || name == "comment";
    if SO_ALREADY.contains(&text) || is_for_others {
        return Ok(Word::Nothing);
    }
    if let Some(word) = of_this_machine(name, value).or_else(|| of_the_client(name, value)) {
        return word;
    }
    if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(format!("{text}: {why}"));
    }
    Err(format!(
        "{text}: there is no such option; `penstock mount --help` lists them, and -s of mount(8) leaves out what is \
         not known"
    ))
}

/// Words about how this machine sees the files.
fn of_this_machine(name: &str, value: Option<&str>) -> Option<Result<Word, String>> {
    Some(Ok(match (name, value) {
        ("ro", None) => Word::ReadOnly(true),
        ("rw", None) => Word::ReadOnly(false),
        ("suid", None) => Word::Suid(true),
        ("nosuid", None) => Word::Suid(false),
        ("dev", None) => Word::Dev(true),
        ("nodev", None) => Word::Dev(false),
        ("exec", None) => Word::Exec(true),
        ("noexec", None) => Word::Exec(false),
        ("allow_other", None) => Word::AllowOther,
        ("default_permissions", None) => Word::DefaultPermissions(true),
        ("no_default_permissions", None) => Word::DefaultPermissions(false),
        ("cached", None) => Word::Cached,
        ("noac", None) => Word::BothTimeouts(Duration::ZERO),
        ("ac", None) => Word::Nothing,
        ("actimeo", Some(value)) => return Some(seconds(name, value).map(Word::BothTimeouts)),
        ("attr_timeout", Some(value)) => return Some(seconds(name, value).map(Word::AttrTimeout)),
        ("entry_timeout", Some(value)) => {
            return Some(seconds(name, value).map(Word::EntryTimeout));
        }
        ("threads", Some(value)) => {
            let most = u64::try_from(THREADS_MAX).unwrap_or(1);
            let count = number(name, value, most);
            return Some(count.map(|count| Word::Threads(usize::try_from(count).unwrap_or(1))));
        }
        ("log", Some(file)) if !file.is_empty() => Word::Log(PathBuf::from(file)),
        _ => return None,
    }))
}

/// Words about how the server is called.
fn of_the_client(name: &str, value: Option<&str>) -> Option<Result<Word, String>> {
    let of = |most: u32, make: fn(u32) -> Word, value: &str| {
        let read = number(name, value, u64::from(most));
        read.map(|count| make(u32::try_from(count).unwrap_or(most)))
    };
    let port = |make: fn(u16) -> Word, value: &str| {
        let read = number(name, value, u64::from(u16::MAX));
        read.map(|count| make(u16::try_from(count).unwrap_or(u16::MAX)))
    };
    Some(match (name, value) {
        ("hard", None) => Ok(Word::Timeout(CALL_TIMEOUT_MAX)),
        // An error after `timeout`.
        ("soft" | "softerr", None) => Ok(Word::Nothing),
        ("timeout", Some(value)) => match seconds(name, value) {
            Ok(timeout) if timeout.is_zero() => {
                Err("timeout: at least a part of a second".to_owned())
            }
            timeout => timeout.map(Word::Timeout),
        },
        ("timeo", Some(value)) => number(name, value, 6000)
            .map(|tenths| Word::RetryAfter(Duration::from_millis(tenths * 100))),
        // Calls are sent again until their time is over.
        ("retrans", Some(value)) => number(name, value, u64::from(u32::MAX)).map(|_| Word::Nothing),
        ("nconnect", Some(value)) => of(NCONNECT_MAX, Word::Nconnect, value),
        ("rsize", Some(value)) => of(u32::MAX, Word::ReadBytes, value),
        ("wsize", Some(value)) => of(u32::MAX, Word::WriteBytes, value),
        ("port", Some(value)) => port(Word::Port, value),
        ("mountport", Some(value)) => port(Word::MountPort, value),
        ("hint", Some(value)) => match value.parse() {
            Ok(hint) => Ok(Word::Hint(hint)),
            Err(unknown) => Err(format!("hint: {unknown}, not {value:?}")),
        },
        _ => return None,
    })
}

fn number(name: &str, value: &str, most: u64) -> Result<u64, String> {
    match value.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("{name}: a number from 1 to {most}, not {value:?}")),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let most = TIMEOUT_MAX.as_secs();
    let plain = value.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let seconds = value.parse::<f64>().ok().filter(|_| plain);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if time <= TIMEOUT_MAX => Ok(time),
        _ => Err(format!(
            "{name}: seconds from 0 to {most}, such as 0.5, not {value:?}"
        )),
    }
}

impl Asked {
    /// What the words of all `-o` come to, in their order.
    pub(super) fn of(all: &[Words]) -> Self {
        let mut asked = Self::default();
        for word in all.iter().flat_map(|words| &words.0) {
            match word {
                Word::ReadOnly(yes) => asked.read_only = *yes,
                Word::AllowOther => asked.allow_other = true,
                Word::DefaultPermissions(yes) => asked.default_permissions = Some(*yes),
                Word::Cached => asked.cached = true,
                Word::Suid(yes) => asked.suid = *yes,
                Word::Dev(yes) => asked.dev = *yes,
                Word::Exec(yes) => asked.no_exec = !yes,
                Word::Nconnect(count) => asked.nconnect = Some(*count),
                Word::AttrTimeout(time) => asked.attr_timeout = Some(*time),
                Word::EntryTimeout(time) => asked.entry_timeout = Some(*time),
                Word::BothTimeouts(time) => {
                    asked.attr_timeout = Some(*time);
                    asked.entry_timeout = Some(*time);
                }
                Word::Timeout(time) => asked.call_timeout = Some(*time),
                Word::RetryAfter(time) => asked.retry_after = Some(*time),
                Word::ReadBytes(bytes) => asked.read_bytes = Some(*bytes),
                Word::WriteBytes(bytes) => asked.write_bytes = Some(*bytes),
                Word::Port(port) => asked.port = Some(*port),
                Word::MountPort(port) => asked.mount_port = Some(*port),
                Word::Threads(count) => asked.threads = Some(*count),
                Word::Hint(hint) => asked.hint = Some(*hint),
                Word::Log(file) => asked.log = Some(file.clone()),
                Word::Nothing => {}
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_words_win() {
        let all: Vec<Words> = [
            "ro,allow_other,hint=random",
            "rw,,attr_timeout=0.5,nconnect=4,hint=sequential",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let expected = Asked {
            allow_other: true,
            nconnect: Some(4),
            hint: Some(Hint::Sequential),
            attr_timeout: Some(Duration::from_millis(500)),
            ..Asked::default()
        };
        assert_eq!(Asked::of(&all), expected);
    }

    #[test]
    fn words_of_other_clients_say_what_is_so_or_are_refused() {
        let fstab = "rw,dev,nosuid,noexec,hard,vers=3,nolock,_netdev,nofail,noatime,x-systemd.automount,sec=sys,\
                     timeo=600,retrans=2,rsize=65536,actimeo=30,port=20049,log=/var/log/x";
        let asked = Asked::of(&[fstab.parse().unwrap()]);
        let expected = Asked {
            dev: true,
            no_exec: true,
            call_timeout: Some(CALL_TIMEOUT_MAX),
            retry_after: Some(Duration::from_secs(60)),
            read_bytes: Some(65536),
            attr_timeout: Some(Duration::from_secs(30)),
            entry_timeout: Some(Duration::from_secs(30)),
            port: Some(20049),
            log: Some("/var/log/x".into()),
            ..Asked::default()
        };
        assert_eq!(asked, expected);
        for (text, why) in [
            ("vers=4.2", "only NFSv3"),
            ("nfsvers=4", "only NFSv3"),
            ("lock", "write nolock"),
            ("local_lock=none", "write local_lock=all"),
            ("proto=udp", "TCP only"),
            ("sec=krb5p", "AUTH_SYS only"),
            ("sync", "O_SYNC"),
            ("bg", "x-systemd.automount"),
            ("remount", "mount it anew"),
            ("uid=7", "?uid=N&gid=N"),
            ("nolocks", "there is no such option"),
        ] {
            let told = text.parse::<Words>().unwrap_err();
            assert!(
                told.starts_with(&format!("{text}: ")) && told.contains(why),
                "{told}"
            );
        }
        let (known, wrong) = Words::known("ro,frobnicate,lock");
        assert!(Asked::of(&[known]).read_only);
        assert_eq!(wrong.len(), 2);
    }

    #[test]
    fn wrong_words_are_told() {
        for text in [
            "roo",
            "ro=1",
            "nconnect",
            "nconnect=0",
            "nconnect=17",
            "threads=-1",
            "hint",
            "hint=fast",
            "attr_timeout=",
            "attr_timeout=-1",
            "attr_timeout=1e3",
            "attr_timeout=inf",
            "entry_timeout=4000",
            "timeout=0",
        ] {
            assert!(text.parse::<Words>().is_err(), "{text}");
        }
    }
}
