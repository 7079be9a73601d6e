//! The hidden `penstock complete`: what an address that is being typed may go on with, for the completion scripts.
//!
//! A shell waits for it at each press of a key, so it says what it found within [`COMPLETE_WITHIN`], and nothing of
//! what went wrong.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_client::connection::Reconnect;
use nfs_client::nfs3::Ftype3;
use nfs_client::{Client, ClientError, MountOptions, NfsUrl, Version};

use crate::limits::{COMPLETE_ENTRIES_MAX, COMPLETE_WITHIN, COMPLETIONS_MAX};
use crate::patterns::exports_if_above;

/// Print what an address may go on with, one a line
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The address as far as it is typed
    #[arg(allow_hyphen_values = true)]
    word: OsString,
}

impl Args {
    /// Prints whole addresses that begin with the word.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(typed) = self.word.to_str().and_then(Typed::of) else {
            return Ok(ExitCode::SUCCESS);
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?;
        let mut names = Vec::new();
        runtime.block_on(async {
            // What was found by then is offered.
            let _late = tokio::time::timeout(COMPLETE_WITHIN, typed.find(&mut names)).await;
        });
        // A name that nobody resolves holds up a thread.
        runtime.shutdown_background();
        names.sort_unstable();
        names.truncate(COMPLETIONS_MAX);
        let mut out = std::io::stdout().lock();
        for name in names.iter().filter_map(|name| typed.completed(name)) {
            // A shell that is gone needs nothing.
            if writeln!(out, "{name}").is_err() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// An address as far as it is typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed<'a> {
    /// The directory whose names are looked for.
    dir: NfsUrl,
    /// What the name begins with.
    begins: Vec<u8>,
    /// All that is typed in front of the name.
    before: &'a str,
    /// It is of the form `nfs://`, where `%XX` is a byte.
    encodes: bool,
}

impl<'a> Typed<'a> {
    /// `None` for what is no address, or has no path yet, or has come to its options.
    fn of(word: &'a str) -> Option<Self> {
        if !NfsUrl::is_meant_by(word) {
            return None;
        }
        let (encodes, place) = match word.split_once("://") {
            Some((_, place)) => (true, place),
            None => (false, word),
        };
        if !place.contains('/') || encodes && place.contains('?') {
            return None;
        }
        let url: NfsUrl = word.parse().ok()?;
        let at = url.path.iter().rposition(|&byte| byte == b'/')?;
        let (above, begins) = url.path.split_at_checked(at + 1)?;
        Some(Self {
            dir: url.with_path(above),
            begins: begins.to_vec(),
            before: word.get(..=word.rfind('/')?)?,
            encodes,
        })
    }

    /// Adds the names there are to `found`, those of directories with a `/` at their ends.
    async fn find(&self, found: &mut Vec<Vec<u8>>) {
        let mut options = MountOptions::default();
        options.connect.reconnect = Reconnect::Never;
        options.connect.call_timeout = COMPLETE_WITHIN;
        options.connect.connect_timeout = COMPLETE_WITHIN;
        let Err(error) = self.list(&self.dir, &options, found).await else {
            return;
        };
        let exports = exports_if_above(&self.dir, &error, &options).await;
        let exports = exports.into_iter().filter(|name| self.takes(name));
        found.extend(exports.map(|name| [name.as_slice(), b"/"].concat()));
        if found.is_empty() && self.dir.version == Version::V3 {
            let version = Version::V4;
            let dir = NfsUrl {
                version,
                ..self.dir.clone()
            };
            // Nothing is offered of a server that has neither.
            let _neither = self.list(&dir, &options, found).await;
        }
    }

    async fn list(
        &self,
        dir: &NfsUrl,
        options: &MountOptions,
        found: &mut Vec<Vec<u8>>,
    ) -> Result<(), ClientError> {
        let (client, path) = Client::mount_with(dir, options).await?;
        let node = client.resolve(&path).await?;
        let mut stream = client.list(&node.handle, true);
        let mut seen = 0;
        while let Some(page) = stream.next().await? {
            seen += page.len();
            for entry in page.into_iter().filter(|entry| self.takes(&entry.name)) {
                let is_dir = entry.attributes.is_some_and(|a| a.ftype == Ftype3::Dir);
                let end: &[u8] = if is_dir { b"/" } else { b"" };
                found.push([entry.name.as_slice(), end].concat());
            }
            if seen >= COMPLETE_ENTRIES_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Whether a name is offered: hidden ones to who asks for them.
    fn takes(&self, name: &[u8]) -> bool {
        let is_dot = name == b"." || name == b"..";
        let hidden = name.starts_with(b".") && !self.begins.starts_with(b".");
        name.starts_with(&self.begins) && !is_dot && !hidden
    }

    /// The whole word; `None` for a name that cannot stand in a shell's word as it is.
    fn completed(&self, name: &[u8]) -> Option<String> {
        let name = match self.encodes {
            true => {
                let path = [b"/", name].concat();
                let url = NfsUrl {
                    host: "h".to_owned(),
                    path,
                    ..NfsUrl::default()
                };
                url.to_string().strip_prefix("nfs://h/")?.to_owned()
            }
            false => {
                let name = std::str::from_utf8(name).ok()?;
                let plain = |char: char| char.is_alphanumeric() || "-_.,+@%:/".contains(char);
                name.chars().all(plain).then(|| name.to_owned())?
            }
        };
        Some(format!("{}{name}", self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed() {
        let typed = Typed::of("nfs://h:99/a%20b/c%C3").unwrap();
        assert_eq!(typed.dir.to_string(), "nfs://h:99/a%20b/");
        assert_eq!(
            (typed.begins.as_slice(), typed.before),
            (&b"c\xc3"[..], "nfs://h:99/a%20b/")
        );
        let whole = typed.completed("c\u{fc} (1)/".as_bytes());
        assert_eq!(
            whole.as_deref(),
            Some("nfs://h:99/a%20b/c%C3%BC%20%281%29/")
        );
        let typed = Typed::of("h:/x/y").unwrap();
        assert_eq!(typed.completed(b"yes").as_deref(), Some("h:/x/yes"));
        assert_eq!(typed.completed(b"y s"), None);
        assert!(typed.takes(b"yes") && !typed.takes(b"no"));
        let typed = Typed::of("nfs://h/").unwrap();
        assert!(typed.takes(b"x") && !typed.takes(b".x") && !typed.takes(b".."));
        for word in [
            "nfs://",
            "nfs://h",
            "nfs://h/x?ver",
            "nfs://h/%C",
            "x/y",
            "",
            "-v",
        ] {
            assert_eq!(Typed::of(word), None, "{word}");
        }
    }
}
