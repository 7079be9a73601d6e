//! `penstock find`: finds files by name, type, size, time and mode, and removes them if asked to.
//!
//! The tests mean what they mean in find(1); a pure function, [`Tests::hold`], decides.

mod removal;

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::str::FromStr;

use nfs_client::client::{Found, TreeOptions, Visit};
use nfs_client::glob::Glob;
use nfs_client::nfs3::{Fattr3, Ftype3, Nfstime3};
use nfs_client::{Client, ClientError, NfsUrl, Node};
use serde_json::{Map, Value};

use crate::session::{self, Common, Session};
use crate::show;
use crate::values::mode::ModeChange;
use crate::values::time;
use removal::Removal;

/// Find files in trees on an NFS server
///
/// Prints the URL of each thing for which all tests hold, directories before what is in
/// them. The tests mean what they mean in find(1): +N is more than N, -N less, N exactly.
/// The URLs are ready to be given to other commands, whatever bytes the names hold.
/// Symbolic links are not followed.
///
/// With --delete, what would be printed is removed instead, many at once; a directory after
/// all that was found in it, and only if it is empty then. It goes by file handles, as
/// `penstock rm -r` does. The root of an export stays.
///
/// Examples:
///
///   penstock find nfs://localhost:20049/ --name '*.log' --size +10M
///
///   penstock find nfs://server/export/scratch --type f --mtime +30 --delete
///
///   penstock find nfs://server/export --perm /022 --print0 | xargs -0 penstock chmod go-w
///
///   penstock find --json nfs://server/export --newer nfs://server/export/stamp | jq -r .path
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// The last name matches the pattern: *, ?, [a-z], [!0-9]
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    name: Vec<Glob>,

    /// As --name, but small and capital letters are alike
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    iname: Vec<Glob>,

    /// The whole path on the server matches the pattern, in which * goes across /
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    path: Vec<Glob>,

    /// It is of one of these types: f file, d directory, l link, p fifo, s socket, b and c devices
    #[arg(long = "type", value_name = "LETTERS", value_delimiter = ',')]
    types: Vec<Type>,

    /// Its length in units, rounded up: c bytes, k, M, G; without one, blocks of 512 bytes
    #[arg(long, value_name = "[+-]N[ckMG]", allow_hyphen_values = true)]
    size: Vec<Size>,

    /// Its contents changed so many times 24 hours ago, rounded down
    #[arg(long, value_name = "[+-]DAYS", allow_hyphen_values = true)]
    mtime: Vec<Compare>,

    /// Its contents changed so many minutes ago
    #[arg(long, value_name = "[+-]MINUTES", allow_hyphen_values = true)]
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
    #[arg(long, value_name = "[-/]MODE", allow_hyphen_values = true)]
    perm: Vec<Perm>,

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

    /// Print one JSON object per line: url, path and all attributes
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    common: Common,

    /// Where to look: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Finds in all trees.
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
            let ignoring_case = |glob: &Glob| glob.clone().ignoring_case();
            let tests = Tests {
                args: &self,
                iname: self.iname.iter().map(ignoring_case).collect(),
                newer,
                now: time::now(),
            };
            let mut out = BufWriter::new(std::io::stdout().lock());
            for url in &self.urls {
                if let Err(error) = self.look(session, url, &tests, &mut out).await? {
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

    async fn look(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        tests: &Tests<'_>,
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
        if self.delete {
            return self
                .delete(session, url, (client, node), options, tests, out)
                .await;
        }
        let mut walk = client.tree(node, &url.path, options);
        // A directory that may be empty, until the walk tells what is in it.
        let mut maybe_empty: Option<Found> = None;
        while let Some(visit) = walk.next().await {
            let held = maybe_empty.take();
            match visit {
                Visit::Enter(found) if tests.hold(&found) => {
                    if !self.empty {
                        self.print(out, url, &found)?;
                    } else if found.depth < options.depth_max {
                        maybe_empty = Some(found);
                    } else {
                        // The walk does not look into it.
                        match is_empty(&client, &found).await {
                            Ok(true) => self.print(out, url, &found)?,
                            Ok(false) => {}
                            Err(error) => session.failed(&url.with_path(found.path), error),
                        }
                    }
                }
                Visit::File(found) if tests.hold(&found) => self.print(out, url, &found)?,
                Visit::Leave(_) => {
                    if let Some(found) = held {
                        self.print(out, url, &found)?;
                    }
                }
                Visit::Failed { path, error } => {
                    out.flush()?;
                    session.failed(&url.with_path(path), error);
                }
                Visit::Enter(_) | Visit::File(_) => {}
            }
        }
        Ok(Ok(()))
    }

    /// Removes what the tests hold for below `url`.
    async fn delete(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        (client, node): (Client, Node),
        options: TreeOptions,
        tests: &Tests<'_>,
        out: &mut impl Write,
    ) -> anyhow::Result<Result<(), ClientError>> {
        let root = match removal::root(session, url).await {
            Ok(Some(root)) => root,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let walk = client.tree(node, &url.path, options);
        let mut removal = Removal::new(url, client, root, self.empty);
        let print = |found: &Found| {
            if self.verbose {
                // A removal does not stop because nobody reads of it.
                let _unread = self.print(out, url, found);
            }
        };
        removal
            .run(session, walk, |found| tests.hold(found), print)
            .await;
        Ok(Ok(()))
    }

    /// Something restricts what is found.
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
        if self.json {
            let mut object = Map::new();
            object.insert("url".to_owned(), url.to_string().into());
            show::put_json_name(&mut object, "path", &found.path);
            show::put_json_attributes(&mut object, &found.node.attributes);
            return writeln!(out, "{}", Value::Object(object));
        }
        match self.print0 {
            true => write!(out, "{url}\0"),
            false => writeln!(out, "{url}"),
        }
    }
}

/// Whether nothing is in a directory.
async fn is_empty(client: &Client, dir: &Found) -> Result<bool, ClientError> {
    let mut listing = client.list(&dir.node.handle, false);
    while let Some(page) = listing.next().await? {
        if page.iter().any(|entry| !entry.is_dot()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// When the contents of the file at `place` changed; `None` after having told why that is not known.
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

/// What has to hold for a thing to be printed.
struct Tests<'a> {
    args: &'a Args,
    /// [`Args::iname`], ready to be matched.
    iname: Vec<Glob>,
    newer: Option<Nfstime3>,
    now: Nfstime3,
}

impl Tests<'_> {
    /// All tests hold; of a directory, [`Args::empty`] is still to be seen.
    fn hold(&self, found: &Found) -> bool {
        let (args, a) = (self.args, &found.node.attributes);
        let name = found.name();
        found.depth >= args.mindepth
            && args.name.iter().all(|glob| glob.matches(name))
            && self.iname.iter().all(|glob| glob.matches(name))
            && args.path.iter().all(|glob| glob.matches(&found.path))
            && (args.types.is_empty() || args.types.iter().any(|wanted| wanted.0 == a.ftype))
            && args.uid.is_none_or(|uid| uid == a.uid)
            && args.gid.is_none_or(|gid| gid == a.gid)
            && args.perm.iter().all(|perm| perm.holds(a.mode))
            && (!args.empty || found.is_dir() || (a.ftype == Ftype3::Reg && a.size == 0))
            && self.size_and_time_hold(a)
    }

    fn size_and_time_hold(&self, a: &Fattr3) -> bool {
        let age = u64::from(self.now.seconds.saturating_sub(a.mtime.seconds));
        let key = |time: Nfstime3| (time.seconds, time.nseconds);
        self.args.size.iter().all(|size| size.holds(a.size))
            && self.args.mtime.iter().all(|days| days.holds(age / 86_400))
            // As find(1): minutes are compared as they are, without rounding.
            && self.args.mmin.iter().all(|minutes| minutes.holds_scaled(age, 60))
            && self.newer.is_none_or(|newer| key(a.mtime) > key(newer))
    }
}

/// Permission bits to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Perm {
    /// These and no others.
    Exactly(u32),
    /// All of these; 0 holds for everything.
    All(u32),
    /// One of these; 0 holds for everything, as in find(1).
    Any(u32),
}

impl Perm {
    fn holds(self, mode: u32) -> bool {
        let mode = mode & 0o7777;
        match self {
            Self::Exactly(bits) => mode == bits,
            Self::All(bits) => mode & bits == bits,
            Self::Any(bits) => bits == 0 || mode & bits != 0,
        }
    }
}

impl FromStr for Perm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (make, mode): (fn(u32) -> Self, _) = match text.as_bytes().first() {
            Some(b'-') => (Self::All, &text[1..]),
            Some(b'/') => (Self::Any, &text[1..]),
            _ => (Self::Exactly, text),
        };
        let change: ModeChange = mode.parse()?;
        // A symbolic mode is what it makes of no permissions at all.
        Ok(make(change.apply(0, false, 0)))
    }
}

/// A number to compare with: `+N`, `-N` or `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    More(u64),
    Less(u64),
    Equal(u64),
}

impl Compare {
    fn holds(self, number: u64) -> bool {
        match self {
            Self::More(than) => number > than,
            Self::Less(than) => number < than,
            Self::Equal(to) => number == to,
        }
    }

    /// As [`Self::holds`], with `number` in parts of which `scale` make a unit. Equal is within the unit
    /// that ends there.
    fn holds_scaled(self, number: u64, scale: u64) -> bool {
        match self {
            Self::More(than) => number > than.saturating_mul(scale),
            Self::Less(than) => number < than.saturating_mul(scale),
            Self::Equal(to) => number.div_ceil(scale) == to,
        }
    }
}

impl FromStr for Compare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (make, number): (fn(u64) -> Self, _) = match text.as_bytes().first() {
            Some(b'+') => (Self::More, &text[1..]),
            Some(b'-') => (Self::Less, &text[1..]),
            _ => (Self::Equal, text),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| digits);
        number
            .map(make)
            .ok_or_else(|| format!("'{text}' is not a number to compare with: write 7, +7 or -7"))
    }
}

/// A length to compare with, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    units: Compare,
    unit_bytes: u64,
}

impl Size {
    fn holds(self, bytes: u64) -> bool {
        self.units.holds(bytes.div_ceil(self.unit_bytes))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit_bytes) = match text.as_bytes().last() {
            Some(b'c') => (&text[..text.len() - 1], 1),
            Some(b'w') => (&text[..text.len() - 1], 2),
            Some(b'b') => (&text[..text.len() - 1], 512),
            Some(b'k') => (&text[..text.len() - 1], 1 << 10),
            Some(b'M') => (&text[..text.len() - 1], 1 << 20),
            Some(b'G') => (&text[..text.len() - 1], 1 << 30),
            _ => (text, 512),
        };
        let bad = |_| format!("'{text}' is not a length: write 100c, +10M or -4k");
        let units = number.parse().map_err(bad)?;
        Ok(Self { units, unit_bytes })
    }
}

/// A type of file by find's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type(Ftype3);

impl FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "f" => Ftype3::Reg,
            "d" => Ftype3::Dir,
            "l" => Ftype3::Lnk,
            "p" => Ftype3::Fifo,
            "s" => Ftype3::Sock,
            "b" => Ftype3::Blk,
            "c" => Ftype3::Chr,
            _ => return Err("give f, d, l, p, s, b or c; several with commas: f,l".to_owned()),
        }))
    }
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
            let size: Size = text.parse().unwrap();
            assert_eq!(size.holds(bytes), expected, "{text} and {bytes}");
        }
        for text in ["", "+", "c", "1x", "++1", "1.5k", "-", "é", "1é", "k1"] {
            assert!(text.parse::<Size>().is_err(), "{text} is taken");
        }
    }

    #[test]
    fn comparisons() {
        let compare = |text: &str| text.parse::<Compare>().unwrap();
        assert!(compare("+2").holds(3) && !compare("+2").holds(2));
        assert!(compare("-2").holds(1) && !compare("-2").holds(2));
        assert!(compare("2").holds(2) && !compare("2").holds(3));
        assert!(compare("-5").holds_scaled(299, 60) && !compare("-5").holds_scaled(300, 60));
        assert!(compare("+5").holds_scaled(301, 60) && !compare("+5").holds_scaled(300, 60));
        assert!(compare("5").holds_scaled(300, 60) && !compare("5").holds_scaled(240, 60));
        assert!(compare("5").holds_scaled(241, 60) && !compare("5").holds_scaled(301, 60));
        for text in ["", "x", "+-1", "99999999999999999999"] {
            assert!(text.parse::<Compare>().is_err(), "{text} is taken");
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
            let perm: Perm = text.parse().unwrap();
            assert_eq!(perm.holds(mode), expected, "{text} and {mode:o}");
        }
        for text in ["", "-", "/", "888", "+022", "--644", "u", "é"] {
            assert!(text.parse::<Perm>().is_err(), "{text} is taken");
        }
    }

    #[test]
    fn types() {
        assert_eq!("d".parse(), Ok(Type(Ftype3::Dir)));
        assert!("x".parse::<Type>().is_err() && "".parse::<Type>().is_err());
    }
}
