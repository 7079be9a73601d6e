//! What of a recording is played, and on which files: pure.
//!
//! The names in a recording are numbers, so files and names are made up. What a call needs and the recording did not see
//! being made is there when the replay begins; what it saw being made is made by that call. Calls that cannot be played
//! are left out and counted, with the reason.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;

use nfs_client::nfs_wire::nfs3::StableHow;

use crate::error::LoadError;
use crate::limits;
use crate::recording::{Call, End, Entry, Kind, Reader, RecordingError};

/// An object of the script, by its place in [`Script::objects`].
pub type Object = usize;
/// A made-up name: its number in the directory.
pub type Name = u32;

/// A recording, ready to be played.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The files and directories, each behind the directory that it is in.
    pub objects: Vec<Place>,
    /// The calls, in the order in which they began.
    pub plays: Vec<Play>,
    /// Of each client how many connections it had.
    pub clients: Vec<usize>,
    /// Why calls are left out, and how many.
    pub left_out: BTreeMap<String, u64>,
    /// Calls of the recording.
    pub calls: u64,
    /// Calls that the recording says are missing.
    pub lost: u64,
    /// Whether the recording was cut off.
    pub is_cut: bool,
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// Version of the server that was recorded.
    pub server: String,
}

/// A file or directory of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is.
    pub form: Form,
    /// The directory that it is in, and its name there; `None` for one of a name of its own at the top.
    pub name: Option<(Object, Name)>,
    /// Bytes that it has when the replay begins; `None` if a call of the replay makes it.
    pub size: Option<u64>,
}

/// What an object of a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// A call that is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Play {
    /// What it does.
    pub act: Act,
    /// Which client makes it.
    pub client: usize,
    /// When it began, in nanoseconds since the first one.
    pub at_ns: u64,
    /// Nanoseconds that it took when it was recorded.
    pub took_ns: u64,
    /// What has to be waited for, for each object that it is about.
    pub turns: Vec<Turn>,
}

/// The place of a call among those of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The object.
    pub object: Object,
    /// So many calls on it begin earlier.
    pub behind: usize,
    /// So many of them, in the order of their ends, are over before it begins.
    pub after: usize,
    /// Its place in the order of ends.
    pub end: usize,
}

/// What a played call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the procedure of that name, with what it is on"
)]
pub enum Act {
    Getattr(Object),
    Access(Object),
    /// Attributes that change nothing.
    Setattr(Object),
    /// The size is set.
    Resize(Object, u64),
    /// The last one is what is found.
    Lookup(Object, Name, Option<Object>),
    Read(Object, u64, u32),
    Write(Object, u64, u32, StableHow),
    Commit(Object, u64, u32),
    /// The last one is what is made.
    Create(Object, Name, Object),
    Mkdir(Object, Name, Object),
    /// The last one is what loses its name.
    Remove(Object, Name, Object),
    Rmdir(Object, Name, Object),
    /// The last one is what gets another name.
    Rename(Object, Name, Object, Name, Object),
    /// `true` where the listing goes on behind what its client was told of the directory last; the most bytes.
    Readdir(Object, bool, u32),
    Readlink(Object),
    /// The last one is what is made.
    Symlink(Object, Name, Object),
    /// A file gets one name more, in this directory.
    Link(Object, Object, Name),
    Fsstat(Object),
    Fsinfo(Object),
    Pathconf(Object),
}

/// The groups that the report has figures for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// COMMIT.
    Commit,
    /// All else.
    Metadata,
}

impl Group {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Commit, Self::Metadata];

    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Commit => "COMMIT",
            Self::Metadata => "names and attributes",
        }
    }
}

impl Act {
    /// The object that it is on: for one that is about a name, the directory.
    #[must_use]
    pub const fn on(&self) -> Object {
        match *self {
            Self::Getattr(on)
            | Self::Access(on)
            | Self::Setattr(on)
            | Self::Resize(on, _)
            | Self::Lookup(on, ..)
            | Self::Read(on, ..)
            | Self::Write(on, ..)
            | Self::Commit(on, ..)
            | Self::Create(on, ..)
            | Self::Mkdir(on, ..)
            | Self::Remove(on, ..)
            | Self::Rmdir(on, ..)
            | Self::Rename(on, ..)
            | Self::Readdir(on, ..)
            | Self::Readlink(on)
            | Self::Symlink(on, ..)
            | Self::Link(on, ..)
            | Self::Fsstat(on)
            | Self::Fsinfo(on)
            | Self::Pathconf(on) => on,
        }
    }

    /// The group that it counts in.
    #[must_use]
    pub const fn group(&self) -> Group {
        match self {
            Self::Read(..) => Group::Read,
            Self::Write(..) => Group::Write,
            Self::Commit(..) => Group::Commit,
            _ => Group::Metadata,
        }
    }
}

impl Script {
    /// Reads a recording.
    ///
    /// # Errors
    /// It is none, it is damaged, it is longer than can be replayed, or nothing of it can be played.
    pub fn read(input: impl Read) -> Result<Self, LoadError> {
        Self::read_up_to(limits::REPLAYED_CALLS_MAX, input)
    }

    /// Reads a recording that has so many calls at most.
    pub(super) fn read_up_to(most: usize, input: impl Read) -> Result<Self, LoadError> {
        let refused = |error: RecordingError| LoadError::Setting(error.to_string());
        let mut reader = Reader::new(input).map_err(refused)?;
        let (mut calls, mut lost) = (Vec::new(), 0_u64);
        while let Some(entry) = reader.next_entry().map_err(refused)? {
            match entry {
                Entry::Call(call) => calls.push(call),
                Entry::Lost(more) => lost = lost.saturating_add(more),
            }
            if calls.len() > most {
                return Err(LoadError::Setting(format!(
                    "the recording has more than {most} calls, which is the most that is replayed: record with --for, \
                     --client or --export"
                )));
            }
        }
        let script = Self {
            lost,
            is_cut: reader.end() == Some(End::Cut),
            began_ns: reader.header().began_ns,
            server: reader.header().server.clone(),
            ..Self::of(calls)
        };
        script.check()?;
        Ok(script)
    }

    /// Makes a script of calls.
    #[must_use]
    pub fn of(mut calls: Vec<Call>) -> Self {
        calls.sort_by_key(|call| call.at_ns);
        let mut writing = Writing::new(&calls);
        for call in &calls {
            writing.take(call);
        }
        writing.finish(calls.len() as u64)
    }

    /// Bytes of the files that are there when a replay begins.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.objects.iter().filter_map(|object| object.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Seconds from the first call to the last.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.plays
            .last()
            .map_or(0.0, |play| play.at_ns as f64 / 1e9)
    }

    fn check(&self) -> Result<(), LoadError> {
        if self.plays.is_empty() {
            return Err(LoadError::Setting(
                "nothing in the recording can be played: record while clients work".to_owned(),
            ));
        }
        if self.bytes() > limits::FILE_BYTES_MAX {
            return Err(LoadError::Setting(format!(
                "the files of the recording would take {} bytes, and {} are the most that are made",
                self.bytes(),
                limits::FILE_BYTES_MAX
            )));
        }
        Ok(())
    }
}

/// A name of the recording, as far as its calls were gone through.
#[derive(Clone, Copy, Debug)]
struct Named {
    number: Name,
    /// What has the name now.
    now: Option<Object>,
}

/// A script on its way.
struct Writing {
    script: Script,
    /// The numbers that the recording has for directories.
    directories: HashSet<u64>,
    /// Those of symbolic links.
    links: HashSet<u64>,
    objects: HashMap<u64, Object>,
    names: HashMap<(Object, u64), Named>,
    /// Of each directory how many names it has had.
    counts: HashMap<Object, Name>,
    clients: HashMap<u32, (usize, BTreeSet<u32>)>,
    /// The times of each object's calls: beginning, end, and which play it is.
    times: HashMap<Object, Vec<(i128, i128, usize)>>,
    first_ns: i64,
}

impl Writing {
    fn new(calls: &[Call]) -> Self {
        let (mut directories, mut links) = (HashSet::new(), HashSet::new());
        for call in calls {
            match call.kind() {
                Kind::Readdir => directories.extend(call.on),
                Kind::Mkdir | Kind::Rename | Kind::Link => directories.extend(call.to),
                Kind::Readlink => links.extend(call.on),
                Kind::Symlink => links.extend(call.to),
                _ => {}
            }
            if call.name.is_some() {
                directories.extend(call.on);
            }
        }
        Self {
            script: Script::default(),
            directories,
            links,
            objects: HashMap::new(),
            names: HashMap::new(),
            counts: HashMap::new(),
            clients: HashMap::new(),
            times: HashMap::new(),
            first_ns: calls.first().map_or(0, |call| call.at_ns),
        }
    }

    fn take(&mut self, call: &Call) {
        let act = match self.act(call) {
            Ok(act) => act,
            Err(why) => {
                let words = format!("{}: {why}", call.name());
                *self.script.left_out.entry(words).or_default() += 1;
                return;
            }
        };
        let count = self.clients.len();
        let (client, connections) = self
            .clients
            .entry(call.client)
            .or_insert_with(|| (count, BTreeSet::new()));
        if connections.len() < limits::REPLAYED_CONNECTIONS_MAX {
            connections.insert(call.connection);
        }
        let client = *client % limits::CONNECTIONS_MAX;
        let index = self.script.plays.len();
        for object in about(&act) {
            let times = self.times.entry(object).or_default();
            let begin = i128::from(call.at_ns);
            // No call is over when it begins, whatever the clock said: so what is waited for began earlier.
            times.push((begin, begin + i128::from(call.took_ns.max(1)), index));
        }
        let at_ns = call.at_ns.wrapping_sub(self.first_ns).cast_unsigned();
        self.script.plays.push(Play {
            act,
            client,
            at_ns,
            took_ns: call.took_ns,
            turns: Vec::new(),
        });
    }

    /// What is played of a call.
    ///
    /// # Errors
    /// Why it is not.
    fn act(&mut self, call: &Call) -> Result<Act, &'static str> {
        /// NFS3ERR_NOENT and NFS4ERR_NOENT.
        const NOENT: u32 = 2;
        let kind = call.kind();
        if call.status == NOENT && kind == Kind::Lookup {
            return self.missing(call);
        }
        if call.status != 0 {
            return Err("it failed when it was recorded");
        }
        if call.follows && matches!(kind, Kind::Getattr | Kind::Access) {
            return Err("part of a COMPOUND whose main operation is played");
        }
        match kind {
            Kind::Read | Kind::Write | Kind::Commit => self.data(call, kind),
            Kind::Getattr => Ok(Act::Getattr(self.on(call)?)),
            Kind::Access => Ok(Act::Access(self.on(call)?)),
            Kind::Setattr => {
                let on = self.on(call)?;
                Ok(match call.range {
                    Some((size, _)) => Act::Resize(on, within(size)?),
                    None => Act::Setattr(on),
                })
            }
            Kind::Fsstat => Ok(Act::Fsstat(self.on(call)?)),
            Kind::Fsinfo => Ok(Act::Fsinfo(self.on(call)?)),
            Kind::Pathconf => Ok(Act::Pathconf(self.on(call)?)),
            Kind::Readdir => match call.range {
                Some((cookie, most)) => {
                    let most = u32::try_from(most).unwrap_or(u32::MAX);
                    let most = most.clamp(1024, limits::PIECE_BYTES_MAX);
                    Ok(Act::Readdir(self.on(call)?, cookie != 0, most))
                }
                None => Err("the recording has no range of it"),
            },
            Kind::Readlink => Ok(Act::Readlink(self.on(call)?)),
            Kind::Lookup => self.found(call),
            Kind::Open if call.how == Some(1) => self.made(call, Form::File),
            Kind::Open => self.found(call),
            Kind::Create => self.made(call, Form::File),
            Kind::Mkdir => self.made(call, Form::Directory),
            Kind::Symlink => self.made(call, Form::Link),
            Kind::Link => self.linked(call),
            Kind::Remove | Kind::Rmdir => self.removed(call, kind),
            Kind::Rename => self.renamed(call),
            Kind::Null | Kind::Close | Kind::Other => Err("it is not replayed"),
        }
    }

    fn data(&mut self, call: &Call, kind: Kind) -> Result<Act, &'static str> {
        let on = self.on(call)?;
        let (offset, len) = call.range.ok_or("the recording has no range of it")?;
        let len = u32::try_from(len).map_err(|_| "its range is out of bounds")?;
        if kind == Kind::Commit {
            return Ok(Act::Commit(on, within(offset)?, len));
        }
        if len > limits::RECORD_BYTES_MAX {
            return Err("its range is out of bounds");
        }
        let moved = call.moved.unwrap_or(0).min(len.into());
        let end = within(offset.saturating_add(moved))?;
        within(offset.saturating_add(len.into()))?;
        if let Some(size) = self
            .script
            .objects
            .get_mut(on)
            .and_then(|one| one.size.as_mut())
        {
            *size = end.max(*size);
        }
        if kind == Kind::Read {
            return Ok(Act::Read(on, offset, len));
        }
        let how = call.how.and_then(|how| StableHow::try_from(how).ok());
        Ok(Act::Write(
            on,
            offset,
            len,
            how.ok_or("its stable_how is unknown")?,
        ))
    }

    /// A name that was looked for and is not there.
    fn missing(&mut self, call: &Call) -> Result<Act, &'static str> {
        let directory = self.on(call)?;
        let named = self.name(directory, call.name, |_| None)?;
        match named.now {
            None => Ok(Act::Lookup(directory, named.number, None)),
            Some(_) => Err(UNSEEN),
        }
    }

    /// A name that was looked for and found.
    fn found(&mut self, call: &Call) -> Result<Act, &'static str> {
        let directory = self.on(call)?;
        let to = call.to;
        let named = self.name(directory, call.name, |writing| {
            Some((to, writing.form_of(to)))
        })?;
        let Some(now) = named.now else {
            return Err(UNSEEN);
        };
        let is_found = to.and_then(|to| self.objects.get(&to).copied());
        let found = is_found.unwrap_or(now);
        Ok(Act::Lookup(directory, named.number, Some(found)))
    }

    fn made(&mut self, call: &Call, form: Form) -> Result<Act, &'static str> {
        let directory = self.on(call)?;
        let is_seen = call.to.is_some_and(|to| self.objects.contains_key(&to));
        let to = call.to;
        // One that was seen before was there, and is opened.
        let named = self.name(directory, call.name, |_| is_seen.then_some((to, form)))?;
        if let Some(now) = named.now {
            return match form {
                Form::Directory | Form::Link => Err(UNSEEN),
                Form::File => Ok(Act::Create(directory, named.number, now)),
            };
        }
        let made = self.script.objects.len();
        self.add(Place {
            form,
            name: Some((directory, named.number)),
            size: None,
        })?;
        if let (Some(to), false) = (to, is_seen) {
            self.objects.insert(to, made);
        }
        self.set(directory, call.name, Some(made));
        Ok(match form {
            Form::Directory => Act::Mkdir(directory, named.number, made),
            Form::Link => Act::Symlink(directory, named.number, made),
            Form::File => Act::Create(directory, named.number, made),
        })
    }

    fn removed(&mut self, call: &Call, kind: Kind) -> Result<Act, &'static str> {
        let directory = self.on(call)?;
        let form = match kind {
            Kind::Rmdir => Form::Directory,
            _ => Form::File,
        };
        let named = self.name(directory, call.name, |_| Some((None, form)))?;
        let Some(now) = named.now else {
            return Err(UNSEEN);
        };
        self.set(directory, call.name, None);
        let is_directory = self
            .script
            .objects
            .get(now)
            .is_some_and(|one| one.form == Form::Directory);
        Ok(match is_directory {
            true => Act::Rmdir(directory, named.number, now),
            false => Act::Remove(directory, named.number, now),
        })
    }

    fn renamed(&mut self, call: &Call) -> Result<Act, &'static str> {
        let from = self.on(call)?;
        let to = self.object(call.to.ok_or(NO_OBJECT)?)?;
        let old = self.name(from, call.name, |_| Some((None, Form::File)))?;
        let new = self.name(to, call.to_name, |_| None)?;
        let Some(now) = old.now else {
            return Err(UNSEEN);
        };
        self.set(from, call.name, None);
        self.set(to, call.to_name, Some(now));
        Ok(Act::Rename(from, old.number, to, new.number, now))
    }

    /// A name more for a file, which as any other name may be removed and renamed.
    fn linked(&mut self, call: &Call) -> Result<Act, &'static str> {
        let file = self.on(call)?;
        let directory = self.object(call.to.ok_or(NO_OBJECT)?)?;
        let named = self.name(directory, call.to_name, |_| None)?;
        if named.now.is_some() {
            return Err(UNSEEN);
        }
        self.set(directory, call.to_name, Some(file));
        Ok(Act::Link(file, directory, named.number))
    }

    fn on(&mut self, call: &Call) -> Result<Object, &'static str> {
        self.object(call.on.ok_or(NO_OBJECT)?)
    }

    /// The object of a number; one that was not seen before is at the top when the replay begins.
    fn object(&mut self, number: u64) -> Result<Object, &'static str> {
        if let Some(object) = self.objects.get(&number) {
            return Ok(*object);
        }
        let object = self.add(Place {
            form: self.form_of(Some(number)),
            name: None,
            size: Some(0),
        })?;
        self.objects.insert(number, object);
        Ok(object)
    }

    /// What a name is; one that was not seen before is as `first` says: nothing, or an object, by its number, if it has
    /// one, and what it is.
    fn name(
        &mut self,
        directory: Object,
        name: Option<u64>,
        first: impl FnOnce(&Self) -> Option<(Option<u64>, Form)>,
    ) -> Result<Named, &'static str> {
        let name = name.ok_or("the recording has no name of it")?;
        if let Some(named) = self.names.get(&(directory, name)) {
            return Ok(*named);
        }
        let count = self.counts.entry(directory).or_default();
        let number = *count;
        *count += 1;
        let now = match first(self) {
            None => None,
            Some((to, form)) => {
                // What has a place already stays there, and something else stands in for it under this name.
                let to = to.filter(|to| !self.objects.contains_key(to));
                let made = self.add(Place {
                    form,
                    name: Some((directory, number)),
                    size: Some(0),
                })?;
                self.objects.extend(to.map(|to| (to, made)));
                Some(made)
            }
        };
        let named = Named { number, now };
        self.names.insert((directory, name), named);
        Ok(named)
    }

    fn set(&mut self, directory: Object, name: Option<u64>, now: Option<Object>) {
        let named = name.and_then(|name| self.names.get_mut(&(directory, name)));
        if let Some(named) = named {
            named.now = now;
        }
    }

    fn form_of(&self, number: Option<u64>) -> Form {
        match number {
            Some(number) if self.directories.contains(&number) => Form::Directory,
            Some(number) if self.links.contains(&number) => Form::Link,
            _ => Form::File,
        }
    }

    fn add(&mut self, place: Place) -> Result<Object, &'static str> {
        let object = self.script.objects.len();
        if object >= limits::REPLAYED_OBJECTS_MAX {
            return Err("the recording has more files than are made");
        }
        self.script.objects.push(place);
        Ok(object)
    }

    fn finish(mut self, calls: u64) -> Script {
        for (object, times) in self.times {
            for (index, turn) in turns(object, &times) {
                if let Some(play) = self.script.plays.get_mut(index) {
                    play.turns.push(turn);
                }
            }
        }
        for play in &mut self.script.plays {
            play.turns.sort_by_key(|turn| turn.object);
        }
        let mut clients: Vec<(usize, usize)> = self
            .clients
            .into_values()
            .map(|(client, connections)| (client, connections.len()))
            .collect();
        clients.sort_unstable();
        clients.truncate(limits::CONNECTIONS_MAX);
        self.script.clients = clients.into_iter().map(|(_, count)| count).collect();
        self.script.calls = calls;
        self.script
    }
}

const NO_OBJECT: &str = "the recording has no object of it";
const UNSEEN: &str = "it does not fit what the recording has seen before";

fn within(offset: u64) -> Result<u64, &'static str> {
    match offset <= limits::FILE_BYTES_MAX {
        true => Ok(offset),
        false => Err("its range is out of bounds"),
    }
}

/// The objects that a call is about, each once.
fn about(act: &Act) -> BTreeSet<Object> {
    let further = match *act {
        Act::Lookup(_, _, found) => [found, None],
        Act::Create(_, _, made) | Act::Mkdir(_, _, made) | Act::Symlink(_, _, made) => {
            [Some(made), None]
        }
        Act::Link(_, directory, _) => [Some(directory), None],
        Act::Remove(_, _, removed) | Act::Rmdir(_, _, removed) => [Some(removed), None],
        Act::Rename(_, _, to, _, renamed) => [Some(to), Some(renamed)],
        _ => [None, None],
    };
    let further = further.into_iter().flatten();
    std::iter::once(act.on()).chain(further).collect()
}

/// The turns of an object's calls, each with its play, by when they began and ended; they are in the order in which they
/// began.
fn turns(object: Object, times: &[(i128, i128, usize)]) -> Vec<(usize, Turn)> {
    let mut by_end: Vec<usize> = (0..times.len()).collect();
    by_end.sort_by_key(|at| times.get(*at).map(|(_, end, _)| *end));
    let ends: Vec<i128> = by_end
        .iter()
        .filter_map(|at| times.get(*at).map(|(_, end, _)| *end))
        .collect();
    let mut places = vec![0; times.len()];
    for (end, at) in by_end.into_iter().enumerate() {
        if let Some(place) = places.get_mut(at) {
            *place = end;
        }
    }
    let each = times.iter().zip(places).enumerate();
    each.map(|(behind, ((begin, _, index), end))| {
        let turn = Turn {
            object,
            behind,
            after: ends.partition_point(|end| end <= begin),
            end,
        };
        (*index, turn)
    })
    .collect()
}
