//! `penstock find`: finds files by name, type, size, time and mode, and removes them if asked to.
//! [`Find`] and [`RemoveFound`] do it; the values of the options are read here.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use nfs_client::client::{Found, TreeOptions};
use nfs_client::nfs3::{FileHandle, Ftype3, Nfstime3};
use nfs_client::trees::{Compare, Criteria, Find, Length, Permissions, RemoveFound, Step};
use nfs_client::{ClientError, NfsUrl, UrlPattern};
use serde_json::{Map, Value};

use nfs_io::glob::{Glob, GlobError};

use crate::message;
use crate::session::{self, Common, Session};
use crate::show;
use crate::values::mode::ModeChange;
use crate::values::time;

/// Find files in trees on an NFS server
///
/// Prints the URL of each thing for which all tests hold, directories before what
/// is in them. The tests mean what they mean in find(1): +N is more than N, -N
/// less, N exactly. The URLs are ready to be given to other commands, whatever
/// bytes the names hold. Symbolic links are not followed.
///
/// With --delete, what would be printed is removed instead, many at once; a
/// directory after all that was found in it, and only if it is empty then. It
/// goes by file handles, as `penstock rm -r` does. The root of an export stays.
///
/// Examples:
///
///   penstock find nfs://localhost:20049/ --name '*.log' --size +10M
///
///   penstock find nfs://server/export/scratch --type f --mtime +30 --delete
///
///   penstock find nfs://server/e --perm /022 -0 | xargs -0 penstock chmod go-w
///
///   penstock find --json nfs://server/e --newer nfs://server/e/a | jq -r .path
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// The last name matches the pattern: *, ?, [a-z], [!0-9]
    #[arg(long, value_name = "PATTERN", value_parser = glob, allow_hyphen_values = true)]
    name: Vec<Glob>,

    /// As --name, but small and capital letters are alike
    #[arg(long, value_name = "PATTERN", value_parser = glob, allow_hyphen_values = true)]
    iname: Vec<Glob>,

    /// The whole path on the server matches the pattern, in which * goes across /
    #[arg(long, value_name = "PATTERN", value_parser = glob, allow_hyphen_values = true)]
    path: Vec<Glob>,

    /// It is of one of these types: f file, d directory, l link, p fifo, s socket, b and c devices
    #[arg(long = "type", value_name = "LETTERS", value_delimiter = ',', value_parser = file_type)]
    types: Vec<Ftype3>,

    /// Its length in units, rounded up: c bytes, k, M, G; without one, blocks of 512 bytes
    #[arg(long, value_name = "[+-]N[ckMG]", allow_hyphen_values = true, value_parser = length)]
    size: Vec<Length>,

    /// Its contents changed so many times 24 hours ago, rounded down
    #[arg(long, value_name = "[+-]DAYS", value_parser = compare, allow_hyphen_values = true)]
    mtime: Vec<Compare>,

    /// Its contents changed so many minutes ago
    #[arg(long, value_name = "[+-]MINUTES", value_parser = compare, allow_hyphen_values = true)]
    mmin: Vec<Compare>,

    /// Its contents changed after those of this file: a URL or a local path
    #[arg(long, value_name = "URL|PATH")]
    newer: Option<String>,

    /// It belongs to this user
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,

    /// It belongs to this group
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,

    /// Its permission bits are MODE, have all bits of -MODE, or any of /MODE: 644, -4000, /o+w
    #[arg(long, value_name = "[-/]MODE", allow_hyphen_values = true, value_parser = permissions)]
    perm: Vec<Permissions>,

    /// It is a file of length 0, or a directory with nothing in it
    #[arg(long)]
    empty: bool,

    /// Go down so many levels below the URL; 0 is what the URL names alone
    #[arg(long, value_name = "N")]
    maxdepth: Option<usize>,

    /// Leave out what is fewer levels below the URL
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    mindepth: usize,

    /// Remove what the tests hold for; at least one test, or --mindepth, has to be given
    #[arg(long)]
    delete: bool,

    /// With --delete, print what was removed too
    #[arg(short, long, requires = "delete")]
    verbose: bool,

    /// End each URL with a NUL byte, not a newline
    #[arg(short = '0', long, conflicts_with = "json")]
    print0: bool,

    #[command(flatten)]
    common: Common,

    /// Where to look: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

impl Args {
    /// Finds in all trees, or removes what is found there.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.delete && !self.has_tests() {
            let cure = "give --delete a test, such as --mtime +30, or --mindepth 1 to empty a \
                        directory; `penstock rm -r` removes whole trees";
            return Err(crate::exit::UsageError(cure.to_owned()).into());
        }
        session::run(&self.common, async |session| {
            let newer = match &self.newer {
                None => None,
                Some(place) => match reference(session, place).await? {
                    Some(time) => Some(time),
                    None => return Ok(()),
                },
            };
            let criteria = self.criteria(newer);
            let mut out = BufWriter::new(std::io::stdout().lock());
            for url in &session.expand(&self.urls).await {
                if let Err(error) = self.look(session, url, &criteria, &mut out).await? {
                    out.flush()?;
                    session.failed(url, error);
                }
                if self.delete && session.stop().is_set() {
                    break;
                }
            }
            out.flush()?;
            Ok(())
        })
    }

    /// The tests, and when the reference file changed.
    fn criteria(&self, newer: Option<Nfstime3>) -> Criteria {
        let ignoring_case = self.iname.iter().cloned().map(Glob::ignoring_case);
        Criteria {
            names: self.name.iter().cloned().chain(ignoring_case).collect(),
            paths: self.path.clone(),
            types: self.types.clone(),
            lengths: self.size.clone(),
            days: self.mtime.clone(),
            minutes: self.mmin.clone(),
            newer,
            uid: self.uid,
            gid: self.gid,
            permissions: self.perm.clone(),
            empty: self.empty,
            depth_min: self.mindepth,
            now: time::now(),
        }
    }

    async fn look(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        criteria: &Criteria,
        out: &mut impl Write,
    ) -> anyhow::Result<Result<(), ClientError>> {
        let (client, node) = match session.resolve_link(url).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let options = TreeOptions {
            depth_max: self.maxdepth.unwrap_or(usize::MAX),
            ..TreeOptions::default()
        };
        let criteria = criteria.clone();
        if self.delete {
            let root_entry = match root_entry(session, url).await {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let removal = RemoveFound::new(&client, node, &url.path, root_entry, options, criteria);
            self.delete(session, url, removal, out).await;
            return Ok(Ok(()));
        }
        let mut find = Find::new(&client, node, &url.path, options, criteria);
        while let Some(step) = find.next().await {
            match step {
                Step::Done(found) => self.print(out, url, &found)?,
                Step::Failed { path, error } => {
                    out.flush()?;
                    session.failed(&url.with_path(path), error);
                }
            }
        }
        Ok(Ok(()))
    }

    /// Tells of the removal of what is found to its end, or until it is to stop.
    async fn delete(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        mut removal: RemoveFound,
        out: &mut impl Write,
    ) {
        let stop = session.stop();
        let mut stopped = false;
        let mut removed = 0_u64;
        loop {
            let step = tokio::select! {
                biased;
                () = stop.asked(), if !stopped => {
                    removal.stop();
                    stopped = true;
                    continue;
                }
                step = removal.next() => step,
            };
            match step {
                None => break,
                Some(Step::Done(found)) => {
                    removed += 1;
                    if self.verbose || self.common.json {
                        // A removal does not stop because nobody reads of it.
                        let _unread = self.print(out, url, &found);
                    }
                }
                Some(Step::Failed { path, error }) => {
                    let _unread = out.flush();
                    session.failed(&url.with_path(path), error);
                }
            }
        }
        if stopped {
            message::warn(format_args!(
                "interrupted: {removed} removed below {url}; run it again to go on"
            ));
        }
    }

    /// Whether any option restricts what is found.
    fn has_tests(&self) -> bool {
        let patterns = self.name.len() + self.iname.len() + self.path.len();
        let numbers = self.size.len() + self.mtime.len() + self.mmin.len() + self.perm.len();
        patterns + numbers + self.types.len() > 0
            || self.newer.is_some()
            || self.uid.is_some()
            || self.gid.is_some()
            || self.empty
            || self.mindepth > 0
    }

    fn print(&self, out: &mut impl Write, url: &NfsUrl, found: &Found) -> std::io::Result<()> {
        let url = url.with_path(found.path.as_slice());
        if self.common.json {
            let mut object = Map::new();
            object.insert("url".to_owned(), url.to_string().into());
            show::put_json_name(&mut object, "path", &found.path);
            show::put_json_attributes(&mut object, &found.node.attributes);
            if self.delete {
                object.insert("done".to_owned(), "removed".into());
            }
            return writeln!(out, "{}", Value::Object(object));
        }
        match self.print0 {
            true => write!(out, "{url}\0"),
            false => writeln!(out, "{url}"),
        }
    }
}

/// The directory that `url` is in, and its name there; `Some(None)` for the root of an export, `None` after
/// having refused the URL.
async fn root_entry(
    session: &mut Session,
    url: &NfsUrl,
) -> Result<Option<Option<(FileHandle, Vec<u8>)>>, ClientError> {
    let mut names = url.path.split(|&byte| byte == b'/');
    let last = names.rfind(|name| !name.is_empty());
    if matches!(last, Some(b"." | b"..")) {
        session.refused(url, "ends in . or .., below which nothing is removed");
        return Ok(None);
    }
    let (client, path) = session.at(url).await?;
    if nfs_client::url::components(&path).next().is_none() {
        return Ok(Some(None));
    }
    let (parent, name) = client.parent(&path).await?;
    Ok(Some(Some((parent, name.to_vec()))))
}

/// The time at which the contents of the file at `place` changed, a URL or a local path; `None` after having
/// told why it is not known.
async fn reference(session: &mut Session, place: &str) -> anyhow::Result<Option<Nfstime3>> {
    if !place.contains("://") {
        use anyhow::Context as _;
        let told = || format!("{place}: cannot be looked at");
        let changed = std::fs::metadata(place).and_then(|metadata| metadata.modified());
        return Ok(Some(time::of(changed.with_context(told)?)));
    }
    let url: NfsUrl = place
        .parse()
        .map_err(|error| crate::exit::UsageError(format!("--newer {place}: {error}")))?;
    let asked = async {
        let (client, path) = session.at(&url).await?;
        client.stat(&path).await
    };
    match asked.await {
        Ok(attributes) => Ok(Some(attributes.mtime)),
        Err(error) => {
            session.failed(&url, error);
            Ok(None)
        }
    }
}

/// A pattern for names, with what is wrong with it in a sentence.
fn glob(text: &str) -> Result<Glob, String> {
    let read = text.parse();
    read.map_err(|error: GlobError| format!("the pattern has {error}"))
}

/// Permission bits to compare with: `MODE`, `-MODE` or `/MODE`. A symbolic mode is what it makes of no
/// permissions at all.
fn permissions(text: &str) -> Result<Permissions, String> {
    let (make, mode): (fn(u32) -> Permissions, _) = match text.as_bytes().first() {
        Some(b'-') => (Permissions::All, text.get(1..)),
        Some(b'/') => (Permissions::Any, text.get(1..)),
        _ => (Permissions::Exactly, Some(text)),
    };
    let change: ModeChange = mode.unwrap_or_default().parse()?;
    Ok(make(change.apply(0, false, 0)))
}

/// A number to compare with: `+N` is more, `-N` less, `N` exactly.
fn compare(text: &str) -> Result<Compare, String> {
    let (make, number): (fn(u64) -> Compare, _) = match text.as_bytes().first() {
        Some(b'+') => (Compare::More, text.get(1..)),
        Some(b'-') => (Compare::Less, text.get(1..)),
        _ => (Compare::Equal, Some(text)),
    };
    let number = number.unwrap_or_default();
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| digits);
    number
        .map(make)
        .ok_or_else(|| format!("'{text}' is not a number to compare with: write 7, +7 or -7"))
}

/// A length to compare with: a number as for [`compare`], and a letter for its unit; without one, blocks
/// of 512 bytes.
fn length(text: &str) -> Result<Length, String> {
    let units: &[(char, u64)] = &[
        ('c', 1),
        ('w', 2),
        ('b', 512),
        ('k', 1 << 10),
        ('M', 1 << 20),
        ('G', 1 << 30),
    ];
    let unit = units
        .iter()
        .find_map(|&(letter, bytes)| Some((text.strip_suffix(letter)?, bytes)));
    let (number, unit_bytes) = unit.unwrap_or((text, 512));
    let bad = |_| format!("'{text}' is not a length: write 100c, +10M or -4k");
    let units = compare(number).map_err(bad)?;
    Ok(Length { units, unit_bytes })
}

/// A type of file by find's letter.
fn file_type(text: &str) -> Result<Ftype3, String> {
    Ok(match text {
        "f" => Ftype3::Reg,
        "d" => Ftype3::Dir,
        "l" => Ftype3::Lnk,
        "p" => Ftype3::Fifo,
        "s" => Ftype3::Sock,
        "b" => Ftype3::Blk,
        "c" => Ftype3::Chr,
        _ => return Err("give f, d, l, p, s, b or c; several with commas: f,l".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_units() {
        let table: &[(&str, u64, bool)] = &[
            ("1", 512, true),
            ("1", 513, false),
            ("+1", 513, true),
            ("0", 0, true),
            ("100c", 100, true),
            ("-100c", 99, true),
            ("-100c", 100, false),
            // One byte is one megabyte, rounded up: find(1)'s most famous surprise.
            ("-1M", 1, false),
            ("-1M", 0, true),
            ("1M", 1, true),
            ("+4k", 4097, true),
            ("+4k", 4096, false),
            ("1G", u64::MAX, false),
        ];
        for &(text, bytes, expected) in table {
            assert_eq!(
                length(text).unwrap().holds(bytes),
                expected,
                "{text} and {bytes}"
            );
        }
        for text in ["", "+", "c", "1x", "++1", "1.5k", "-", "é", "1é", "k1"] {
            assert!(length(text).is_err(), "{text} is taken");
        }
    }

    #[test]
    fn comparisons() {
        let compared = |text: &str| compare(text).unwrap();
        assert!(compared("+2").holds(3) && !compared("+2").holds(2));
        assert!(compared("-2").holds(1) && !compared("-2").holds(2));
        assert!(compared("2").holds(2) && !compared("2").holds(3));
        assert!(compared("-5").holds_scaled(299, 60) && !compared("-5").holds_scaled(300, 60));
        assert!(compared("+5").holds_scaled(301, 60) && !compared("+5").holds_scaled(300, 60));
        assert!(compared("5").holds_scaled(300, 60) && !compared("5").holds_scaled(240, 60));
        assert!(compared("5").holds_scaled(241, 60) && !compared("5").holds_scaled(301, 60));
        for text in ["", "x", "+-1", "99999999999999999999"] {
            assert!(compare(text).is_err(), "{text} is taken");
        }
    }

    #[test]
    fn permission_bits() {
        let table: &[(&str, u32, bool)] = &[
            ("644", 0o644, true),
            ("644", 0o4644, false),
            ("-4000", 0o4755, true),
            ("-4001", 0o4754, false),
            ("/022", 0o620, true),
            ("/022", 0o744, false),
            ("/0", 0o744, true),
            ("-0", 0o000, true),
            ("u+w", 0o200, true),
            ("-u+w,g+w", 0o664, true),
            ("-u+w,g+w", 0o644, false),
            ("/o+w", 0o602, true),
            ("-g+s", 0o2755, true),
        ];
        for &(text, mode, expected) in table {
            assert_eq!(
                permissions(text).unwrap().hold(mode),
                expected,
                "{text} and {mode:o}"
            );
        }
        for text in ["", "-", "/", "888", "+022", "--644", "u", "é"] {
            assert!(permissions(text).is_err(), "{text} is taken");
        }
    }

    #[test]
    fn types() {
        assert_eq!(file_type("d"), Ok(Ftype3::Dir));
        assert!(file_type("x").is_err() && file_type("").is_err());
    }
}
