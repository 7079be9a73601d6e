//! `penstock ls`: names in directories of an NFS server.

use std::cmp::{Ordering, Reverse};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use nfs_client::client::DirEntry;
use nfs_client::nfs3::{Fattr3, FileHandle, Ftype3, Nfsstat3};
use nfs_client::{Client, ClientError, NfsUrl, Node, UrlPattern};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::limits::READLINKS_MAX;
use crate::patterns::{below, exports_if_above};
use crate::session::{self, Common, Session};
use crate::show;
use crate::values::owner::Names;
use crate::values::size::human;

/// List directories on an NFS server, without mounting it
///
/// Prints one name per line, sorted by their bytes; `.` and `..` are left out. A
/// URL of something that is not a directory prints that name. Where the path
/// leads to exports and is in none, they are listed. With -l, times are this
/// host's, and names of owners those that this host knows for the numbers.
///
/// Examples:
///
///   penstock ls nfs://localhost:20049/
///
///   penstock ls -lt nfs://server/export/photos
///
///   penstock ls --json 'nfs://server/export?uid=1000&gid=1000' | jq .name
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Args {
    /// Print type, mode, links, owner, group, size and time of change too
    #[arg(short, long, conflicts_with = "json")]
    long: bool,

    /// List `.` and `..` too, if the server does
    #[arg(short, long)]
    all: bool,

    /// List all names but `.` and `..`, which is so without it
    #[arg(short = 'A', long, conflicts_with = "all")]
    almost_all: bool,

    /// One name per line, which is so without it
    #[arg(short = '1')]
    one: bool,

    /// Append a sign of the type: / directory, @ symbolic link, | fifo, = socket, * program
    #[arg(short = 'F', long)]
    classify: bool,

    /// Print the number of each file (fileid) before it
    #[arg(short, long)]
    inode: bool,

    /// With -l, print owners and groups as numbers, as the server knows them
    #[arg(short = 'n', long, requires = "long")]
    numeric: bool,

    /// Show a directory itself, not what is in it
    #[arg(short, long)]
    directory: bool,

    /// List what is in the directories in it too, and so on
    #[arg(short = 'R', long, conflicts_with = "directory")]
    recursive: bool,

    /// Sort by time of change, the latest first
    #[arg(short = 't', long)]
    time: bool,

    /// Sort by size, the largest first
    #[arg(short = 'S', long, conflicts_with = "time")]
    size: bool,

    /// Sort the other way round
    #[arg(short, long)]
    reverse: bool,

    /// With -l, print sizes for people: 1.5G
    #[arg(short = 'h', long)]
    human_readable: bool,

    /// Colour names by type: always, never, or on a terminal unless NO_COLOR is set
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = show::When::Auto)]
    color: show::When,

    #[command(flatten)]
    common: Common,

    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,

    /// What to list: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

/// One entry, which becomes one line of the output.
struct Line {
    name: Vec<u8>,
    attributes: Option<Fattr3>,
    handle: Option<FileHandle>,
    /// The path that a symbolic link holds, if asked for.
    target: Option<Vec<u8>>,
}

/// What was named and is shown itself, as far as one directory has it.
struct Named {
    /// The address of the directory.
    dir: NfsUrl,
    client: Client,
    lines: Vec<Line>,
}

impl Args {
    /// Lists what the URLs name.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            let mut out = Output {
                args: &self,
                to: BufWriter::new(std::io::stdout().lock()),
                escaped: show::escape_on_stdout(),
                coloured: self.color.is_now(),
                headings: false,
                begun: false,
                names: Names::default(),
                zone: jiff::tz::TimeZone::system(),
            };
            let urls = session.expand(&self.urls).await;
            out.headings = self.recursive || urls.len() > 1;
            let (named, dirs) = self.operands(session, &urls, &mut out).await?;
            let alone = named.len() == 1;
            for Named {
                dir,
                client,
                mut lines,
            } in named
            {
                find_targets(&client, &mut lines).await;
                self.sort(&mut lines);
                out.named(&dir, alone, &lines)?;
            }
            for (url, client, dir) in dirs {
                self.list(session, (&url, &client, dir), &mut out).await?;
            }
            out.to.flush()?;
            Ok(())
        })
    }

    /// Looks at what was named: directories whose names are to be listed, and what is to be shown itself, together
    /// where one directory has it. Exports are listed at once.
    async fn operands(
        &self,
        session: &mut Session,
        urls: &[NfsUrl],
        out: &mut Output<'_>,
    ) -> anyhow::Result<(Vec<Named>, Vec<(NfsUrl, Client, FileHandle)>)> {
        let mut named: Vec<Named> = Vec::new();
        let mut dirs = Vec::new();
        for url in urls {
            let (client, start) = match self.start(session, url).await {
                Ok(found) => found,
                Err(error) => {
                    let options = session.mount_options();
                    let exports = exports_if_above(url, &error, options).await;
                    let lines: Vec<Line> = exports.into_iter().map(Line::export).collect();
                    match lines.is_empty() {
                        true => {
                            out.to.flush()?;
                            session.failed(url, error);
                        }
                        false => out.lines(Some(url), &lines)?,
                    }
                    continue;
                }
            };
            if start.attributes.ftype == Ftype3::Dir && !self.directory {
                dirs.push((url.clone(), client, start.handle));
                continue;
            }
            let line = Line {
                name: url.components().last().unwrap_or(b"/").to_vec(),
                attributes: Some(start.attributes),
                handle: Some(start.handle),
                target: None,
            };
            let dir = above(url);
            match named.last_mut() {
                Some(last) if last.dir == dir => last.lines.push(line),
                _ => named.push(Named {
                    dir,
                    client,
                    lines: vec![line],
                }),
            }
        }
        Ok((named, dirs))
    }

    fn wants_attributes(&self) -> bool {
        self.long
            || self.common.json
            || self.time
            || self.size
            || self.recursive
            || self.classify
            || self.inode
            || self.color.is_now()
    }

    /// Lists one directory, and with -R what is below it.
    async fn list(
        &self,
        session: &mut Session,
        (url, client, dir): (&NfsUrl, &Client, FileHandle),
        out: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        let mut todo = vec![(url.clone(), dir)];
        while let Some((url, dir)) = todo.pop() {
            let mut lines = match self.read(client, &dir).await {
                Ok(lines) => lines,
                Err(error) => {
                    out.to.flush()?;
                    session.failed(&url, error);
                    continue;
                }
            };
            self.sort(&mut lines);
            if self.long || self.common.json {
                find_targets(client, &mut lines).await;
            }
            out.lines(Some(&url), &lines)?;
            if self.recursive {
                let inside = lines.iter().filter(|line| line.is_dir() && !line.is_dot());
                let inside =
                    inside.filter_map(|line| Some((below(&url, &line.name), line.handle?)));
                let mut inside: Vec<_> = inside.collect();
                inside.reverse();
                todo.append(&mut inside);
            }
        }
        Ok(())
    }

    async fn start(
        &self,
        session: &mut Session,
        url: &NfsUrl,
    ) -> Result<(Client, Node), ClientError> {
        // `ls -l LINK` shows the link, `ls LINK` what it leads to, as ls does.
        if self.long || self.common.json || self.directory {
            session.resolve_link(url).await
        } else {
            match session.resolve(url).await {
                // A link that leads nowhere is there itself.
                Err(error) if error.status() == Some(Nfsstat3::Noent) => {
                    session.resolve_link(url).await.map_err(|_| error)
                }
                found => found,
            }
        }
    }

    async fn read(&self, client: &Client, dir: &FileHandle) -> Result<Vec<Line>, ClientError> {
        let mut stream = client.list(dir, self.wants_attributes());
        let mut lines = Vec::new();
        while let Some(page) = stream.next().await? {
            let page = page.into_iter().filter(|entry| self.all || !entry.is_dot());
            lines.extend(page.map(Line::new));
        }
        Ok(lines)
    }

    fn sort(&self, lines: &mut [Line]) {
        let by_name = |a: &Line, b: &Line| a.name.cmp(&b.name);
        let latest = |line: &Line| {
            let mtime = line.attributes.map(|a| (a.mtime.seconds, a.mtime.nseconds));
            Reverse(mtime)
        };
        let largest = |line: &Line| Reverse(line.attributes.map(|a| a.size));
        lines.sort_unstable_by(|a, b| {
            let order = if self.time {
                latest(a).cmp(&latest(b))
            } else if self.size {
                largest(a).cmp(&largest(b))
            } else {
                Ordering::Equal
            };
            let order = order.then_with(|| by_name(a, b));
            if self.reverse { order.reverse() } else { order }
        });
    }
}

/// The address of the directory that has what `url` names.
fn above(url: &NfsUrl) -> NfsUrl {
    let mut names: Vec<&[u8]> = url.components().collect();
    names.pop();
    url.with_path([b"/", names.join(&b'/').as_slice()].concat())
}

/// Asks where the symbolic links among the lines point. One that is gone meanwhile points nowhere.
async fn find_targets(client: &Client, lines: &mut [Line]) {
    let mut calls = JoinSet::new();
    let links = lines.iter().enumerate().filter_map(|(index, line)| {
        let is_link = line.attributes.is_some_and(|a| a.ftype == Ftype3::Lnk);
        Some((index, line.handle.filter(|_| is_link)?))
    });
    let mut links = links.collect::<Vec<_>>().into_iter();
    loop {
        while calls.len() < READLINKS_MAX
            && let Some((index, handle)) = links.next()
        {
            let client = client.clone();
            calls.spawn(async move { (index, client.readlink(&handle).await) });
        }
        match calls.join_next().await {
            None => return,
            Some(Ok((index, target))) => {
                if let Some(line) = lines.get_mut(index) {
                    line.target = target.ok();
                }
            }
            Some(Err(_)) => {}
        }
    }
}

impl Line {
    fn new(entry: DirEntry) -> Self {
        Self {
            name: entry.name,
            attributes: entry.attributes,
            handle: entry.handle,
            target: None,
        }
    }

    /// A name that leads to exports, and has nothing else.
    fn export(name: Vec<u8>) -> Self {
        Self {
            name,
            attributes: None,
            handle: None,
            target: None,
        }
    }

    fn is_dir(&self) -> bool {
        self.attributes.is_some_and(|a| a.ftype == Ftype3::Dir)
    }

    fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// The sign of a type that ls -F has.
fn sign(attributes: &Fattr3) -> &'static str {
    match attributes.ftype {
        Ftype3::Dir => "/",
        Ftype3::Lnk => "@",
        Ftype3::Fifo => "|",
        Ftype3::Sock => "=",
        Ftype3::Reg if attributes.mode & 0o111 != 0 => "*",
        Ftype3::Reg | Ftype3::Blk | Ftype3::Chr => "",
    }
}

/// Standard output for the lines, and how they are to look.
struct Output<'a> {
    args: &'a Args,
    to: BufWriter<std::io::StdoutLock<'static>>,
    escaped: bool,
    coloured: bool,
    /// Whether each directory has its URL above its entries.
    headings: bool,
    begun: bool,
    names: Names,
    zone: jiff::tz::TimeZone,
}

impl Output<'_> {
    fn lines(&mut self, dir: Option<&NfsUrl>, lines: &[Line]) -> std::io::Result<()> {
        if let Some(dir) = dir.filter(|_| self.headings && !self.args.common.json) {
            if self.begun {
                self.to.write_all(b"\n")?;
            }
            writeln!(self.to, "{dir}:")?;
        }
        self.begun = true;
        for line in lines {
            self.line(dir, line)?;
        }
        Ok(())
    }

    /// Lines of what was named in `dir`: by its whole address, unless all is in that directory.
    fn named(&mut self, dir: &NfsUrl, alone: bool, lines: &[Line]) -> std::io::Result<()> {
        for line in lines {
            match alone || self.args.common.json {
                true => self.line(Some(dir), line)?,
                false => {
                    let address = below(dir, &line.name).to_string();
                    let line = Line {
                        name: address.into_bytes(),
                        target: line.target.clone(),
                        ..*line
                    };
                    self.line(Some(dir), &line)?;
                }
            }
        }
        self.begun |= !lines.is_empty();
        Ok(())
    }

    fn line(&mut self, dir: Option<&NfsUrl>, line: &Line) -> std::io::Result<()> {
        if self.args.inode && !self.args.common.json {
            match &line.attributes {
                Some(attributes) => write!(self.to, "{:>8} ", attributes.fileid)?,
                None => write!(self.to, "{:>8} ", "?")?,
            }
        }
        if self.args.common.json {
            self.json(dir, line)?;
        } else if self.args.long {
            self.long(line)?;
        } else {
            self.name(&line.name, line.attributes.as_ref())?;
        }
        self.to.write_all(b"\n")
    }

    fn name(&mut self, name: &[u8], attributes: Option<&Fattr3>) -> std::io::Result<()> {
        let colour = attributes.filter(|_| self.coloured).and_then(show::colour);
        if let Some(colour) = colour {
            write!(self.to, "{colour}")?;
        }
        show::write_name(&mut self.to, name, self.escaped)?;
        if let Some(colour) = colour {
            write!(self.to, "{colour:#}")?;
        }
        let sign = attributes.filter(|_| self.args.classify).map_or("", sign);
        self.to.write_all(sign.as_bytes())
    }

    fn long(&mut self, line: &Line) -> std::io::Result<()> {
        match &line.attributes {
            Some(a) => {
                let size = match a.ftype {
                    Ftype3::Blk | Ftype3::Chr => format!("{}, {}", a.rdev.major, a.rdev.minor),
                    _ if self.args.human_readable => human(a.size),
                    _ => a.size.to_string(),
                };
                let width = if self.args.human_readable { 6 } else { 12 };
                let (user, group) = match self.args.numeric {
                    true => (a.uid.to_string(), a.gid.to_string()),
                    false => {
                        let user = self.names.user(a.uid).to_owned();
                        (user, self.names.group(a.gid).to_owned())
                    }
                };
                write!(
                    self.to,
                    "{} {:>3} {user:>8} {group:>8} {size:>width$} {} ",
                    show::mode_text(a.ftype, a.mode),
                    a.nlink,
                    show::local_time_text(a.mtime, &self.zone)
                )?;
            }
            // The entry went away, or the server keeps its attributes from us.
            None => write!(
                self.to,
                "?????????? {:>3} {:>8} {:>8} {:>12} {:25} ",
                "?", "?", "?", "?", "?"
            )?,
        }
        self.name(&line.name, line.attributes.as_ref())?;
        if let Some(target) = &line.target {
            self.to.write_all(b" -> ")?;
            show::write_name(&mut self.to, target, self.escaped)?;
        }
        Ok(())
    }

    fn json(&mut self, dir: Option<&NfsUrl>, line: &Line) -> std::io::Result<()> {
        let mut object = Map::new();
        if let Some(dir) = dir {
            let url = match line.name.as_slice() {
                b"/" => dir.clone(),
                name => below(dir, name),
            };
            object.insert("url".to_owned(), url.to_string().into());
        }
        show::put_json_name(&mut object, "name", &line.name);
        if let Some(attributes) = &line.attributes {
            show::put_json_attributes(&mut object, attributes);
        }
        if let Some(target) = &line.target {
            show::put_json_name(&mut object, "target", target);
        }
        write!(self.to, "{}", Value::Object(object))
    }
}
