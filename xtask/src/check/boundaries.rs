//! Who may do what: each crate's and module's territory, as DESIGN and ARCHITECTURE.md draw it.

use super::source::{Source, has_word, names_from};
use super::{Finding, Tree};

/// A file that may do what its territory otherwise forbids, and why.
struct Exception {
    path: &'static str,
    reason: &'static str,
}

/// Files of nfs-server outside `vfs/` that open files which are not an export's.
const OPENS_OWN_FILES: &[Exception] = &[
    Exception {
        path: "crates/nfs-server/src/host/call_notes.rs",
        reason: "keeps the notes of calls in the state directory",
    },
    Exception {
        path: "crates/nfs-server/src/host/confinement.rs",
        reason: "finds where exports really lie, and raises the descriptor limit while it may",
    },
    Exception {
        path: "crates/nfs-server/src/host/congestion.rs",
        reason: "what the kernel lets a process choose, in /proc/sys",
    },
    Exception {
        path: "crates/nfs-server/src/exports/values.rs",
        reason: "looks whether an exported directory is there",
    },
    Exception {
        path: "crates/nfs-server/src/operate/audit/log.rs",
        reason: "writes the audit's file in the state directory",
    },
    Exception {
        path: "crates/nfs-server/src/operate/calls/crash.rs",
        reason: "writes what the last calls were into the state directory, when the process dies",
    },
    Exception {
        path: "crates/nfs-server/src/operate/control.rs",
        reason: "makes and removes the control socket",
    },
    Exception {
        path: "crates/nfs-server/src/operate/control/client.rs",
        reason: "finds the control socket",
    },
    Exception {
        path: "crates/nfs-server/src/server.rs",
        reason: "sets what holds for the whole process: umask, descriptor limit",
    },
    Exception {
        path: "crates/nfs-server/src/host/state_dir.rs",
        reason: "owns the state directory: handle key, lock, control socket",
    },
    Exception {
        path: "crates/nfs-server/src/state/records.rs",
        reason: "makes the file of clients' records in the state directory",
    },
    Exception {
        path: "crates/nfs-server/src/state/records/kept.rs",
        reason: "keeps that file open, and puts it back where it was removed",
    },
];

/// What nfs-wire and nfs-state may not take from the standard library: they have no surroundings.
const SURROUNDINGS: &[&str] = &["net", "fs", "time", "thread", "process", "env", "os"];

/// Checks one file against the rules of the territories, and adds what breaks them to `findings`.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let path = source.path.as_str();
    if path.starts_with("crates/nfs-wire/src/") {
        let rule = "nfs-wire turns bytes into types and back: no I/O, no clock, no threads";
        has_no_surroundings(source, rule, findings);
    }
    if path.starts_with("crates/nfs-state/src/") {
        let rule = "nfs-state decides and does nothing: no I/O, no clock, no threads";
        has_no_surroundings(source, rule, findings);
    }
    unsafe_stays_in_nfs_io(source, findings);
    if path.starts_with("crates/nfs-server/src/") {
        only_vfs_opens_files(source, findings);
        only_fh_decodes_handles(source, findings);
    }
    if path.starts_with("crates/") && !path.ends_with("/limits.rs") {
        caps_live_in_limits(source, findings);
    }
}

/// Each crate that queues, caches or decodes names its caps in one file.
pub(crate) fn check_limits_files(tree: &Tree, findings: &mut Vec<Finding>) {
    for name in [
        "nfs-wire",
        "nfs-state",
        "nfs-io",
        "nfs-server",
        "nfs-client",
        "nfs-fuse",
        "nfs-load",
    ] {
        let path = format!("crates/{name}/src/limits.rs");
        if tree.text(&path).is_none() {
            let rule =
                "every queue, cache, table, loop and wire length has a named cap in limits.rs";
            findings.push(Finding::new(
                &path,
                0,
                rule,
                "add the file and move the caps there",
            ));
        }
    }
}

/// An exception that nothing needs any more is a hole in the rule.
pub(crate) fn check_exceptions_used(tree: &Tree, findings: &mut Vec<Finding>) {
    for exception in OPENS_OWN_FILES {
        let source = tree
            .sources
            .iter()
            .find(|source| source.path == exception.path);
        if source.is_none_or(|source| lines_that_open_files(source).is_empty()) {
            let rule = "an exception of `cargo xtask check` is needed";
            let cure = format!(
                "remove it from boundaries.rs (it said: {})",
                exception.reason
            );
            findings.push(Finding::new(exception.path, 0, rule, cure));
        }
    }
}

fn has_no_surroundings(source: &Source, rule: &'static str, findings: &mut Vec<Finding>) {
    for (number, line) in source.product_lines() {
        let joined = source.joined_use(number);
        for name in names_from(&joined, "std") {
            if SURROUNDINGS.contains(&name.as_str()) {
                let cure = format!(
                    "take what std::{name} gives as an argument, or move the code up a crate \
                     (addresses as plain data are in core::net)"
                );
                findings.push(Finding::new(&source.path, number, rule, cure));
            }
        }
        if has_word(line, "tokio") || has_word(line, "rustix") {
            findings.push(Finding::new(
                &source.path,
                number,
                rule,
                "move the code up a crate",
            ));
        }
    }
}

fn unsafe_stays_in_nfs_io(source: &Source, findings: &mut Vec<Finding>) {
    let home = source.path.starts_with("crates/nfs-io/");
    for (number, line) in source.numbered() {
        let allows =
            has_word(line, "unsafe_code") && !line.contains("forbid") && !line.contains("deny");
        if !home && (has_word(line, "unsafe") || allows) {
            let rule = "only nfs-io has unsafe code";
            let cure =
                "put a safe function into nfs-io, next to the calls of its kind, and call that";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
        let needs_reason = opens_unsafe_block(line) && home;
        if needs_reason && !source.explained(number, "SAFETY:") {
            let rule = "each unsafe block has a `// SAFETY:` line above it";
            let cure = "name the invariant that makes it sound and who keeps it";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

fn opens_unsafe_block(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find("unsafe") {
        let after = rest[at + "unsafe".len()..].trim_start();
        if has_word(line, "unsafe") && (after.starts_with('{') || after.starts_with("impl")) {
            return true;
        }
        rest = &rest[at + "unsafe".len()..];
    }
    false
}

fn only_vfs_opens_files(source: &Source, findings: &mut Vec<Finding>) {
    let inside = source.path.starts_with("crates/nfs-server/src/vfs/")
        || source.path == "crates/nfs-server/src/vfs.rs";
    if inside || OPENS_OWN_FILES.iter().any(|e| e.path == source.path) {
        return;
    }
    for number in lines_that_open_files(source) {
        let rule = "only nfs-server/src/vfs/ touches the files of an export";
        let cure = "move the call into vfs/; if the file is the server's own (state, config), \
                    list it with its reason in xtask/src/check/boundaries.rs";
        findings.push(Finding::new(&source.path, number, rule, cure));
    }
}

fn lines_that_open_files(source: &Source) -> Vec<usize> {
    let opens = |number: usize| {
        let joined = source.joined_use(number);
        ["nfs_io", "std", "rustix", "tokio"]
            .iter()
            .any(|base| takes_calls_from_fs(&joined, base))
    };
    source
        .product_lines()
        .map(|(number, _)| number)
        .filter(|number| opens(*number))
        .collect()
}

/// Whether a line can call what is in `base::fs`. Types alone (`nfs_io::fs::Stat`) open nothing.
fn takes_calls_from_fs(line: &str, base: &str) -> bool {
    let inner = names_from(line, &format!("{base}::fs"));
    let types = !inner.is_empty()
        && inner
            .iter()
            .all(|name| name.starts_with(char::is_uppercase));
    !types && names_from(line, base).iter().any(|name| name == "fs")
}

fn only_fh_decodes_handles(source: &Source, findings: &mut Vec<Finding>) {
    let home = source.path.ends_with("/fh.rs");
    let vfs = source.path.starts_with("crates/nfs-server/src/vfs/");
    for (number, line) in source.product_lines() {
        // These hash calls, and have no key of handles.
        let hashing = ["host/call_notes.rs", "rpc/reply_cache.rs", "state/mod.rs"];
        let hashes_calls = hashing
            .iter()
            .any(|name| source.path == format!("crates/nfs-server/src/{name}"));
        let macs = has_word(line, "siphasher") && !hashes_calls;
        let bytes = has_word(line, "KernelHandle") || macs;
        let opens = has_word(line, "open_by_handle") && !vfs;
        if !home && (bytes || opens) {
            let rule = "only fh.rs turns a handle's bytes into what they name";
            let cure = "take the handle apart with HandleKey::open; nothing else may know what it is made of";
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

/// A cap is a constant whose name says so: `..._MAX`, `MAX_...`, `..._CAP`, `..._LIMIT`.
fn caps_live_in_limits(source: &Source, findings: &mut Vec<Finding>) {
    for (number, line) in source.product_lines() {
        let Some(name) = const_name(line) else {
            continue;
        };
        let parts: Vec<&str> = name.split('_').collect();
        let is_cap = parts
            .iter()
            .any(|p| matches!(*p, "MAX" | "CAP" | "LIMIT" | "CAPACITY"));
        if is_cap {
            let rule =
                "every queue, cache, table, loop and wire length has a named cap in limits.rs";
            let cure = format!("move {name} to the crate's limits.rs");
            findings.push(Finding::new(&source.path, number, rule, cure));
        }
    }
}

fn const_name(line: &str) -> Option<String> {
    // An associated constant belongs to a type, such as the longest fragment there can be.
    let mut words = line;
    if let Some(rest) = words.strip_prefix("pub") {
        words = rest.trim_start();
        if words.starts_with('(') {
            words = words.split_once(')')?.1.trim_start();
        }
    }
    let rest = words
        .strip_prefix("const ")
        .or_else(|| words.strip_prefix("static "))?;
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    rest[name.len()..].starts_with(':').then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let mut findings = Vec::new();
        check(&Source::parse(path, text), &mut findings);
        findings.into_iter().map(|f| (f.line, f.rule)).collect()
    }

    #[test]
    fn wire_may_not_know_a_clock_or_a_socket() {
        let path = "crates/nfs-wire/src/xdr.rs";
        assert_eq!(found(path, "use std::time::Instant;").len(), 1);
        assert_eq!(
            found(path, "use std::{\n    fmt,\n    net::IpAddr,\n};").len(),
            1
        );
        assert_eq!(found(path, "fn f() { tokio::spawn(g()); }").len(), 1);
        assert!(found(path, "use std::fmt;\n// std::net is for others").is_empty());
        assert!(found(path, "#[cfg(test)]\nmod tests {\n use std::fs;\n}").is_empty());
        assert!(found("crates/nfs-client/src/lib.rs", "use std::net::IpAddr;").is_empty());
    }

    #[test]
    fn unsafe_elsewhere_is_caught() {
        assert_eq!(
            found("crates/nfs-server/src/shard.rs", "let x = unsafe { y() };").len(),
            1
        );
        assert_eq!(
            found("tests/nfs-test/src/main.rs", "unsafe impl Send for X {}").len(),
            1
        );
        assert_eq!(
            found("crates/nfs-client/src/lib.rs", "#![allow(unsafe_code)]").len(),
            1
        );
        assert!(found("crates/nfs-client/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn unsafe_without_a_reason_is_caught() {
        let path = "crates/nfs-io/src/sys.rs";
        assert_eq!(found(path, "fn f() {\n    unsafe { g() }\n}").len(), 1);
        assert!(
            found(
                path,
                "fn f() {\n    // SAFETY: g has no preconditions.\n    unsafe { g() }\n}"
            )
            .is_empty()
        );
        assert!(found(path, "unsafe fn f() {}").is_empty());
    }

    #[test]
    fn files_outside_vfs_are_caught() {
        assert_eq!(
            found(
                "crates/nfs-server/src/front/nfs3/read.rs",
                "use nfs_io::{budget, fs};"
            )
            .len(),
            1
        );
        assert_eq!(
            found(
                "crates/nfs-server/src/front/nfs3/read.rs",
                "nfs_io::fs::statx(fd)"
            )
            .len(),
            1
        );
        assert!(found("crates/nfs-server/src/vfs/open.rs", "use nfs_io::fs;").is_empty());
        let types = "use nfs_io::fs::{FileKind, Stat};";
        assert!(found("crates/nfs-server/src/front/nfs3/convert.rs", types).is_empty());
    }

    #[test]
    fn handle_bytes_outside_fh_are_caught() {
        assert_eq!(
            found(
                "crates/nfs-server/src/front/nfs3/lookup.rs",
                "let h = KernelHandle::new(b);"
            )
            .len(),
            1
        );
        let vfs = "crates/nfs-server/src/vfs/resolve.rs";
        assert!(found(vfs, "fs::open_by_handle(fd, &kernel)").is_empty());
        assert_eq!(found(vfs, "use nfs_io::fs::handle::KernelHandle;").len(), 1);
        assert!(
            found(
                "crates/nfs-server/src/vfs/fh.rs",
                "use siphasher::sip128::SipHasher24;"
            )
            .is_empty()
        );
    }

    #[test]
    fn caps_outside_limits_are_caught() {
        let path = "crates/nfs-server/src/net/connection.rs";
        assert_eq!(found(path, "const IN_FLIGHT_MAX: usize = 64;").len(), 1);
        assert_eq!(
            found(path, "pub(crate) const MAX_NAME: usize = 255;").len(),
            1
        );
        assert_eq!(found(path, "static QUEUE_LIMIT: usize = 9;").len(), 1);
        assert!(found(path, "const HEADER_BYTES: usize = 4;").is_empty());
        assert!(
            found(
                "crates/nfs-server/src/limits.rs",
                "pub const IN_FLIGHT_MAX: usize = 64;"
            )
            .is_empty()
        );
    }
}
