//! The object that a call makes: a file, a directory or a node of another kind, its attributes, and who it is to the
//! server from then on.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nfs_io::fs::{self, OFlags, ResolveFlags, Stat};
use nfs_io::identity::Guard;
use nfs_io::{Creds, Errno, LocalGid};

use super::super::again::{Noted, left_to_set};
use super::super::attributes::apply;
use super::super::gate::Changing;
use super::super::lookup::open_entry;
use super::super::object::OVERRIDES;
use super::super::resolve::{table_failed, take_back};
use super::super::stable::Flush;
use super::super::{Access, Error, FileKind, Object, Result, SetAttributes};
use super::{Created, NewNode, Precondition};
use crate::host::call_notes::Change;
use crate::vfs::handle_table::HandleTable;
use crate::vfs::{Target, Vfs};

/// The modes of what is made by calls that give none: for the owner alone.
const FILE_MODE_DEFAULT: u32 = 0o600;
const DIRECTORY_MODE_DEFAULT: u32 = 0o700;

pub(super) fn create_node(
    vfs: &Arc<Vfs>,
    directory: &Target,
    name: &[u8],
    node: &NewNode,
    set: &SetAttributes,
) -> Result<(Created, Vec<Flush>)> {
    if set.size.is_some_and(|size| i64::try_from(size).is_err()) {
        return Err(Error::Errno(Errno::FBIG));
    }
    let set = &of_new_object(*set, &directory.actor.creds);
    let table = vfs.table(&directory.tree);
    let _turn = table.map(|_| directory.object.names_turn.read());
    // Nothing is made whose handle could not be given.
    table
        .map_or(Ok(()), HandleTable::check_writable)
        .map_err(table_failed)?;
    let noted = directory.noted(Change::Make, name);
    let made = match node {
        NewNode::File(precondition) => make_file(vfs, directory, name, *precondition, set, &noted)?,
        other => make_other(directory, name, other, set, &noted)?,
    };
    let stat = made.stat;
    let object = vfs
        .intern(&directory.object, &directory.tree, name, made.path, &stat)
        .inspect_err(|_| {
            if made.is_new {
                take_back(directory, name, &stat);
            }
        })?;
    if let Some(file) = made.file {
        keep_open(vfs, &object, file);
    }
    let attributes = vfs.attributes_as_told(&object, stat)?;
    let created = Created {
        object,
        is_new: made.is_new,
        attributes,
    };
    Ok((created, made.flushes))
}

/// Keeps a new file's descriptor for the WRITEs that are likely to come, as far as there are many descriptors. Where
/// none comes the sweep closes it.
fn keep_open(vfs: &Vfs, object: &Arc<Object>, file: Arc<OwnedFd>) {
    let budget = vfs.files.budget();
    // What the file's mode does not let it open again, a server without privileges must keep open.
    let has_to = !*OVERRIDES;
    // Elsewhere an open file is the business of somebody else, who may have to be asked to close it.
    if has_to || object.mount.local && budget.has_plenty() {
        object.adopt_write_fd(file, budget, &vfs.writers);
    }
}

/// Set-user-ID and set-group-ID in a mode.
const SET_ID: u32 = 0o6000;

/// The mode that a new object is to have with the set-id bits that were asked for. Of the rest it keeps what the kernel
/// made, since a default ACL may have left less than was asked for; what a call that was cut off left behind may have
/// more. A directory's set-group-ID comes from the directory above it.
const fn made_with(made: u32, asked: u32) -> u32 {
    made & (asked | 0o2000) | asked & SET_ID
}

/// A change of owner takes set-user-ID and set-group-ID from a file: the mode is set again after it.
fn loses_set_id(set: &SetAttributes, mode: u32) -> bool {
    mode & SET_ID != 0 && (set.uid.is_some() || set.gid.is_some())
}

/// An owner that only a privileged user may give away is not asked for, and the creator has the object
/// already: some clients send their own ids along, under which they may not be known here.
fn of_new_object(set: SetAttributes, creds: &Creds) -> SetAttributes {
    if creds.uid().0 == 0 {
        return set;
    }
    SetAttributes {
        uid: None,
        gid: set.gid.filter(|gid| creds.in_group(LocalGid(*gid))),
        ..set
    }
}

/// An object that a call made or found at its name.
struct Made {
    /// An `O_PATH` descriptor of it.
    path: OwnedFd,
    /// Its attributes, as the call leaves it.
    stat: Stat,
    /// Whether this call made the object; false for one that was there.
    is_new: bool,
    /// The descriptor that made the file, open for writing.
    file: Option<Arc<OwnedFd>>,
    /// What has to be flushed besides the directory.
    flushes: Vec<Flush>,
}

impl Made {
    fn found(path: OwnedFd, stat: Stat) -> Self {
        Self {
            path,
            stat,
            is_new: false,
            file: None,
            flushes: vec![],
        }
    }
}

/// Makes a regular file, or takes the one that is there as far as `precondition` allows.
fn make_file(
    vfs: &Arc<Vfs>,
    directory: &Target,
    name: &[u8],
    precondition: Precondition,
    set: &SetAttributes,
    noted: &Noted<'_>,
) -> Result<Made> {
    let (mode, rest) = match precondition {
        // Nobody may use the file before the client has set its attributes.
        Precondition::Marked(mark) => (0, mark.to_set()),
        Precondition::Unchecked | Precondition::Guarded => {
            let mode = set.mode.unwrap_or(FILE_MODE_DEFAULT) & 0o7777;
            let rest = if loses_set_id(set, mode) {
                *set
            } else {
                set.without_mode()
            };
            (mode, rest)
        }
    };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW;
    let made = {
        let _identity = Guard::enter(&directory.actor.creds)?;
        fs::openat_create(directory.object.path(), name, flags, mode)
    };
    match made {
        // Clients that open a file to cut it say a size of 0, which it has already.
        Ok(fd) => finish_file(directory, fd, &left_to_set(&rest, 0), noted),
        Err(Errno::EXIST) => {
            let made = noted.made(directory, name, &NewNode::File(precondition));
            // What cannot be opened for writing was not left half made by this call.
            let made = made.and_then(|(path, stat)| {
                let fd = fs::reopen(path.as_fd(), OFlags::WRONLY).ok()?;
                Some((fd, left_to_set(&rest, stat.size)))
            });
            match made {
                Some((fd, left)) => finish_file(directory, fd, &left, noted),
                None => existing_file(vfs, directory, name, precondition, set),
            }
        }
        Err(errno) => Err(errno.into()),
    }
}

fn finish_file(
    directory: &Target,
    fd: OwnedFd,
    rest: &SetAttributes,
    noted: &Noted<'_>,
) -> Result<Made> {
    let path = fs::reopen(fd.as_fd(), OFlags::PATH)?;
    let stat = fs::statx(path.as_fd())?;
    noted.made_it(&stat);
    let fd = Arc::new(fd);
    if rest.is_empty() {
        return Ok(Made {
            path,
            stat,
            is_new: true,
            file: Some(fd),
            flushes: vec![],
        });
    }
    if let Some(size) = rest.size {
        let _identity = Guard::enter(&directory.actor.creds)?;
        fs::truncate(fd.as_fd(), size)?;
    }
    // Set again after the change of owner.
    let mode = rest.mode;
    let mode = mode.map(|asked| made_with(stat.permissions(), asked));
    let without_size = SetAttributes {
        size: None,
        mode,
        ..*rest
    };
    apply(
        path.as_fd(),
        &directory.actor.creds,
        &without_size,
        FileKind::Regular,
    )?;
    let stat = fs::statx(path.as_fd())?;
    Ok(Made {
        path,
        stat,
        is_new: true,
        file: Some(Arc::clone(&fd)),
        flushes: vec![Flush::Inode {
            id: (stat.dev, stat.ino),
            fd,
        }],
    })
}

fn existing_file(
    vfs: &Arc<Vfs>,
    directory: &Target,
    name: &[u8],
    precondition: Precondition,
    set: &SetAttributes,
) -> Result<Made> {
    let (fd, stat) = open_entry(directory, name, ResolveFlags::empty())?;
    let regular = stat.kind() == FileKind::Regular;
    match precondition {
        Precondition::Unchecked if regular => {
            let Some(size) = set.size else {
                return Ok(Made::found(fd, stat));
            };
            let again = fs::reopen(fd.as_fd(), OFlags::PATH)?;
            let object = vfs.intern(&directory.object, &directory.tree, name, again, &stat)?;
            let target = directory.with_object(Arc::clone(&object));
            object.check_io(&target.actor, Access::WRITE, &stat)?;
            Object::check_sealed(&stat)?;
            let file = object.write_fd(vfs.files.budget(), &vfs.writers)?;
            // WRITEs of other clients that overlap this must not tell it as their own.
            let _change = object.begin_change(target.actor.author);
            let _changing = Changing::of(object.gate(&vfs.gates));
            let _identity = Guard::enter(&target.actor.creds)?;
            fs::truncate(file.as_fd(), size)?;
            object.io.truncated(stat.size, size);
            Ok(Made {
                stat: fs::statx(fd.as_fd())?,
                path: fd,
                is_new: false,
                file: None,
                flushes: vec![Flush::Inode {
                    id: (stat.dev, stat.ino),
                    fd: file,
                }],
            })
        }
        Precondition::Marked(mark) if regular && mark.is_on(&stat) => Ok(Made::found(fd, stat)),
        _ => Err(Error::Exists),
    }
}

/// Makes an object that is no regular file: a directory, a symbolic link, a named pipe, a socket or a device.
fn make_other(
    directory: &Target,
    name: &[u8],
    node: &NewNode,
    set: &SetAttributes,
    noted: &Noted<'_>,
) -> Result<Made> {
    let file_mode = set.mode.unwrap_or(FILE_MODE_DEFAULT) & 0o7777;
    let directory_mode = set.mode.unwrap_or(DIRECTORY_MODE_DEFAULT) & 0o7777;
    let (fd, stat) = match make_entry(directory, name, node, (file_mode, directory_mode)) {
        Ok(()) => open_entry(directory, name, ResolveFlags::empty())?,
        Err(Error::Errno(Errno::EXIST)) => noted
            .made(directory, name, node)
            .ok_or(Error::Errno(Errno::EXIST))?,
        Err(error) => return Err(error),
    };
    noted.made_it(&stat);
    let kind = stat.kind();
    // mkdir takes no set-user-ID and set-group-ID bits: those are set afterwards.
    let asked = match *node == NewNode::Directory {
        true => Some(directory_mode).filter(|mode| mode & SET_ID != 0),
        false => loses_set_id(set, file_mode).then_some(file_mode),
    };
    let mode = asked.map(|asked| made_with(stat.permissions(), asked));
    let rest = SetAttributes {
        size: None,
        mode,
        ..*set
    };
    if rest.is_empty() {
        return Ok(Made {
            is_new: true,
            ..Made::found(fd, stat)
        });
    }
    apply(fd.as_fd(), &directory.actor.creds, &rest, kind)?;
    let flush = match fs::reopen(fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(opened) => Flush::Inode {
            id: (stat.dev, stat.ino),
            fd: Arc::new(opened),
        },
        Err(_) => Flush::FileSystem {
            fd: directory.object.mount.flush_fd(),
        },
    };
    Ok(Made {
        stat: fs::statx(fd.as_fd())?,
        path: fd,
        is_new: true,
        file: None,
        flushes: vec![flush],
    })
}

/// `modes`: of a file or device, and of a directory.
fn make_entry(directory: &Target, name: &[u8], node: &NewNode, modes: (u32, u32)) -> Result<()> {
    let parent = directory.object.path();
    let (file_mode, directory_mode) = modes;
    let _identity = Guard::enter(&directory.actor.creds)?;
    let none = (0, 0);
    match node {
        NewNode::Directory => fs::mkdirat(parent, name, directory_mode)?,
        NewNode::Symlink { target } => fs::symlinkat(target, parent, name)?,
        NewNode::Fifo => fs::mknodat(parent, name, FileKind::Fifo, file_mode, none)?,
        NewNode::Socket => fs::mknodat(parent, name, FileKind::Socket, file_mode, none)?,
        NewNode::CharacterDevice { major, minor } => {
            let numbers = (*major, *minor);
            fs::mknodat(parent, name, FileKind::CharDevice, file_mode, numbers)?;
        }
        NewNode::BlockDevice { major, minor } => {
            let numbers = (*major, *minor);
            fs::mknodat(parent, name, FileKind::BlockDevice, file_mode, numbers)?;
        }
        NewNode::File(_) => return Err(Error::BadType),
    }
    Ok(())
}
