//! The two ends of a copy: what the places named are, and what goes where.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use nfs_wire::nfs3::Ftype3;

use super::dir::{Dir, Side};
use super::error::TransferError;
use super::file::is_same_file;
use super::item::Item;
use super::job::Destination;
use super::local;
use super::options::{Follow, Options};
use super::place::{Location, Open, Place, Remote};
use super::stream::{Stream, is_stream};
use super::threads::blocking;
use crate::client::Client;
use crate::error::ClientError;
use crate::limits::TREE_DEPTH_MAX;
use crate::url::NfsUrl;

/// A source: something in a directory.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) dir: Dir,
    pub(super) item: Item,
    /// How it is reached if it is no file but a stream.
    pub(super) stream: Option<Stream>,
    /// It was named as `.`, `..` or `/`: it has no name to take along, only what it holds.
    pub(super) nameless: bool,
}

/// Where a copy goes to.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Into this directory, under the source's name.
    Into(Box<Dir>),
    /// To this name; of a directory that is there, what the source holds goes into it.
    Onto(Box<Named>),
    /// Through this stream.
    Stream(Box<Sink>),
}

/// A destination that takes bytes in order.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    dir: Dir,
    name: Vec<u8>,
    stream: Stream,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub(super) struct Named {
    dir: Dir,
    name: Vec<u8>,
    there: Option<Item>,
    /// The directory that has the name, open.
    opened: Option<Dir>,
}

/// The last name of a path, and whether a `/` follows it. `None` for a path that ends in none.
fn last_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = path.iter().rposition(|&byte| byte != b'/')? + 1;
    let path = path.get(..end)?;
    let at = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    match path.split_at(at) {
        (_, b"" | b"." | b"..") => None,
        parts => Some(parts),
    }
}

/// Finds what the source `place` names.
pub(super) async fn start(place: &Place, options: &Options) -> Result<Start, TransferError> {
    let follow = match options.follow {
        Follow::Always => true,
        Follow::Never => place.wants_directory(),
        Follow::Auto => !options.recursive || place.wants_directory(),
    };
    match place {
        Place::Local(path) => {
            let (parent, name) = match last_name(path.as_os_str().as_bytes()) {
                Some((parent, name)) => (bytes_path(parent), Some(name.to_vec())),
                None => (path.as_path(), None),
            };
            let dir = open_here(parent, place).await?;
            let nameless = name.is_none();
            let name = name.unwrap_or_else(|| b".".to_vec());
            let Side::Local(fd) = &dir.side else {
                return Err(not_a_directory(place, ""));
            };
            let item = dir.local(fd, &name, "stat", move |fd, name| {
                local::look_up(fd, name, follow)
            });
            let item = item.await?;
            // With -r, what is no file is made anew, as it is below the places named.
            let is_stream = !options.recursive && is_stream(item.attributes.ftype);
            Ok(Start {
                item,
                stream: is_stream.then_some(Stream::Named),
                dir,
                nameless,
            })
        }
        Place::Open(open) => start_of_open(open),
        Place::Remote(remote) => {
            let Remote { client, path, url } = &**remote;
            let node = match follow {
                true => client.resolve(path).await,
                false => client.resolve_link(path).await,
            };
            let node = node.map_err(|error| of_url(error, url))?;
            let (name, nameless) = match last_name(&url.path) {
                Some((_, name)) => (name.to_vec(), false),
                None => (b".".to_vec(), true),
            };
            let dir = remote_dir(client, url, nameless);
            let item = Item {
                name,
                attributes: node.attributes,
                handle: Some(node.handle),
                follow,
                times_cut: false,
            };
            Ok(Start {
                dir,
                item,
                stream: None,
                nameless,
            })
        }
    }
}

/// This error, about a whole URL: a path alone does not say which server it is on.
fn of_url(error: ClientError, url: &NfsUrl) -> ClientError {
    error.of(url.to_string().as_bytes())
}

/// The directory that holds a remote source. Only what it is called is needed: the source's handle is
/// known.
fn remote_dir(client: &Client, url: &NfsUrl, nameless: bool) -> Dir {
    let location = Location::Remote(url.clone());
    Dir {
        side: Side::Remote {
            client: Arc::new(client.clone()),
            handle: *client.root(),
        },
        location: match nameless {
            true => location,
            false => location.parent(),
        },
    }
}

/// A source that is open already.
fn start_of_open(open: &Open) -> Result<Start, TransferError> {
    let (dir, name) = beside(open);
    let place = Location::Local(open.name.clone());
    let attributes = local::attributes_of(&open.fd);
    let item = Item {
        name,
        attributes: attributes.map_err(|error| TransferError::local(&place, "stat", error))?,
        handle: None,
        follow: true,
        times_cut: false,
    };
    Ok(Start {
        dir,
        item,
        stream: Some(Stream::Open(open.fd.clone())),
        nameless: false,
    })
}

/// What an open descriptor is called, as a directory and a name: the directory is never looked into.
fn beside(open: &Open) -> (Dir, Vec<u8>) {
    let location = Location::Local(open.name.clone());
    let name = open.name.file_name().unwrap_or(open.name.as_os_str());
    let dir = Dir {
        side: Side::Local(open.fd.clone()),
        location: location.parent(),
    };
    (dir, name.as_bytes().to_vec())
}

fn bytes_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

async fn open_here(path: &Path, place: &Place) -> Result<Dir, TransferError> {
    let own = path.to_path_buf();
    let opened = blocking(move || local::open_path(&own)).await;
    let fd = opened.map_err(|error| TransferError::local(&place.location(), "open", error))?;
    Ok(Dir {
        side: Side::Local(Arc::new(fd)),
        location: Location::Local(path.to_path_buf()),
    })
}

fn not_a_directory(place: &Place, cure: &'static str) -> TransferError {
    TransferError::NotADirectory {
        place: Box::new(place.location()),
        cure,
    }
}

/// Finds out where a copy of `sources` sources to `place` goes.
pub(super) async fn end(
    place: &Place,
    sources: usize,
    options: &Options,
) -> Result<End, TransferError> {
    let (dir, name, there) = match place {
        Place::Local(path) => end_here(path, place).await?,
        Place::Remote(remote) => end_there(remote).await?,
        Place::Open(open) if sources > 1 || options.into => {
            return Err(TransferError::NotADirectory {
                place: Box::new(Location::Local(open.name.clone())),
                cure: ": it takes one source",
            });
        }
        Place::Open(open) => {
            let (dir, name) = beside(open);
            let stream = Stream::Open(open.fd.clone());
            return Ok(End::Stream(Box::new(Sink { dir, name, stream })));
        }
    };
    let is_dir = there
        .as_ref()
        .is_some_and(|there| there.attributes.ftype == Ftype3::Dir);
    let opened = match (&there, is_dir) {
        (Some(there), true) => {
            let mut opened = dir.open_dir(there).await?;
            opened.location = place.location();
            Some(opened)
        }
        _ => None,
    };
    match opened {
        Some(opened) if !options.onto => Ok(End::Into(Box::new(opened))),
        _ if options.into => Err(not_a_directory(place, ": make it first")),
        _ if sources > 1 => Err(not_a_directory(
            place,
            ": several sources need a directory; make it first",
        )),
        None if place.wants_directory() && (there.is_some() || !options.recursive) => Err(
            not_a_directory(place, ": make it first, or leave the '/' away"),
        ),
        None if is_sink(&dir, &there, options) => Ok(End::Stream(Box::new(Sink {
            dir,
            name,
            stream: Stream::Named,
        }))),
        opened => Ok(End::Onto(Box::new(Named {
            dir,
            name,
            there,
            opened,
        }))),
    }
}

/// Whether what was found takes bytes in order: a mirror makes files of it, or nothing.
fn is_sink(dir: &Dir, there: &Option<Item>, options: &Options) -> bool {
    let is_stream = there
        .as_ref()
        .is_some_and(|there| is_stream(there.attributes.ftype));
    is_stream && options.mirror.is_none() && matches!(dir.side, Side::Local(_))
}

type Found = (Dir, Vec<u8>, Option<Item>);

async fn end_here(path: &Path, place: &Place) -> Result<Found, TransferError> {
    let (parent, name) = match last_name(path.as_os_str().as_bytes()) {
        Some((parent, name)) => (bytes_path(parent), name.to_vec()),
        None => (path, b".".to_vec()),
    };
    let dir = open_here(parent, place).await?;
    let Side::Local(fd) = &dir.side else {
        return Err(not_a_directory(place, ""));
    };
    let found = dir.local(fd, &name, "stat", |fd, name| {
        // A link that leads nowhere is there itself.
        let found = local::look_up(fd, name, true).or_else(|_| local::look_up(fd, name, false));
        match found {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    });
    let found = found.await?;
    Ok((dir, name, found))
}

async fn end_there(remote: &Remote) -> Result<Found, TransferError> {
    let Remote { client, path, url } = remote;
    let location = Location::Remote(url.clone());
    let shared = Arc::new(client.clone());
    let dir = |handle, location| Dir {
        side: Side::Remote {
            client: shared.clone(),
            handle,
        },
        location,
    };
    let Some((parent, name)) = last_name(path) else {
        let node = client.resolve(path).await;
        let node = node.map_err(|error| of_url(error, url))?;
        let item = Item {
            name: b".".to_vec(),
            attributes: node.attributes,
            handle: Some(node.handle),
            follow: true,
            times_cut: false,
        };
        return Ok((dir(*client.root(), location), b".".to_vec(), Some(item)));
    };
    let above = location.parent();
    let node = client.resolve(parent).await;
    let node = node.map_err(|error| error.of(&above.name()))?;
    let parent = dir(node.handle, above);
    let mut found = parent.look_up(name).await?;
    if let Some(item) = &mut found
        && item.attributes.ftype == Ftype3::Lnk
        && let Ok(node) = client.resolve(path).await
    {
        item.attributes = node.attributes;
        item.handle = Some(node.handle);
        item.follow = true;
    }
    Ok((parent, name.to_vec(), found))
}

impl Named {
    /// The directory that has the name, open; `None` if nothing has it, or a file.
    pub(super) fn opened(&self) -> Option<&Dir> {
        self.opened.as_ref()
    }
}

impl End {
    /// Where the source `start` goes: directory, name, and what is known to be there.
    pub(super) fn of(&self, start: &Start) -> (Dir, Vec<u8>, Destination) {
        match self {
            Self::Into(dir) => (
                Dir::clone(dir),
                start.item.name.clone(),
                Destination::Unknown,
            ),
            Self::Onto(named) => {
                let there = named.there.clone();
                let there = there.map_or(Destination::Unknown, Destination::Taken);
                (named.dir.clone(), named.name.clone(), there)
            }
            Self::Stream(sink) => (
                sink.dir.clone(),
                sink.name.clone(),
                Destination::Stream(sink.stream.clone()),
            ),
        }
    }

    /// The directory that what `start` holds goes into, if it is there already.
    pub(super) fn merged(&self, start: &Start) -> Option<Dir> {
        match self {
            Self::Into(dir) => start.nameless.then(|| Dir::clone(dir)),
            Self::Onto(named) => named.opened.clone(),
            Self::Stream(_) => None,
        }
    }
}

/// Whether `dir` is the directory `source` of `start`'s side, or lies in it.
pub(super) async fn is_inside(dir: &Dir, start: &Start) -> bool {
    if !dir.is_same_side(&start.dir) {
        return false;
    }
    let mut at = dir.clone();
    for _ in 0..TREE_DEPTH_MAX {
        let Some(here) = itself(&at).await else {
            return false;
        };
        if is_same_file(&start.dir, &start.item, &at, &here) {
            return true;
        }
        // A directory of an export's root leads out of it; who asks further gets the root again.
        if let (Side::Remote { client, handle }, _) = (&at.side, &here)
            && handle == client.root()
        {
            return false;
        }
        let Ok(Some(mut up)) = at.look_up(b"..").await else {
            return false;
        };
        up.follow = true;
        if is_same_file(&at, &here, &at, &up) {
            return false;
        }
        let Ok(parent) = at.open_dir(&up).await else {
            return false;
        };
        at = parent;
    }
    false
}

/// The directory as an item.
pub(super) async fn itself(dir: &Dir) -> Option<Item> {
    match &dir.side {
        Side::Local(_) => dir.look_up(b".").await.ok().flatten(),
        Side::Remote { client, handle } => {
            let attributes = client.stat_handle(handle).await.ok()?;
            Some(Item {
                name: b".".to_vec(),
                attributes,
                handle: Some(*handle),
                follow: true,
                times_cut: false,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names() {
        let table = [
            ("a", ("", "a")),
            ("/a", ("/", "a")),
            ("x/a//", ("x/", "a")),
            ("x/..a", ("x/", "..a")),
        ];
        for (path, (parent, name)) in table {
            let expected = Some((parent.as_bytes(), name.as_bytes()));
            assert_eq!(last_name(path.as_bytes()), expected, "{path}");
        }
        for path in ["x/..", "x/.", ".", "/", ""] {
            assert_eq!(last_name(path.as_bytes()), None, "{path}");
        }
    }
}
