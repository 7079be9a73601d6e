//! Reading directories: page by page, or whole.
//!
//! A [`DirStream`] owns the place in one listing (cookie, verifier) and a fingerprint of each entry it
//! gave, 16 bytes: when the server calls its own cookie bad, or will not go on by READDIRPLUS, the listing
//! begins again and what was given already is left out. It never holds more than one page of entries.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use nfs_wire::nfs3::{Fattr3, FileHandle, Nfsstat3};
use tokio::task::JoinSet;

use super::Client;
use crate::error::{ClientError, RpcError, printable, refused};
use crate::limits::{LISTING_LOOKUPS_MAX, READDIR_ENTRIES_MAX, READDIR_RESTARTS_MAX};

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// The file's number on its file system.
    pub fileid: u64,
    /// Attributes, if they were asked for and the server gave them.
    pub attributes: Option<Fattr3>,
    /// Handle, if attributes were asked for and the server gave it.
    pub handle: Option<FileHandle>,
}

impl DirEntry {
    /// Whether it is the entry `.` or `..`.
    pub fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// A listing on its way, page by page. See [`Client::list`].
#[derive(Debug)]
#[must_use = "nothing is asked of the server before the next entry is"]
pub struct DirStream {
    client: Client,
    dir: FileHandle,
    /// Entries that come without attributes are looked up.
    with_attributes: bool,
    place: Place,
}

/// How far a listing has come, and what it gave. Decides what of a reply is new and where it goes on, without a
/// server.
#[derive(Debug)]
struct Place {
    form: Form,
    cookie: u64,
    cookieverf: [u8; 8],
    restarts: u32,
    /// Whether the listing was begun again, for whatever reason.
    restarted: bool,
    given: HashSet<(u64, u64)>,
    /// With more than these given, the listing is given up.
    given_max: usize,
    hasher: RandomState,
    over: bool,
}

/// How entries are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Names,
    Plus,
}

struct Part {
    entries: Vec<(u64, DirEntry)>,
    cookieverf: [u8; 8],
    eof: bool,
}

impl Client {
    /// The directory `dir`, page by page as the server gives it, `.` and `..` among the entries if the
    /// server lists them. With `with_attributes`, by READDIRPLUS; from a server without it, by READDIR
    /// and one LOOKUP per name.
    ///
    /// A name made or removed while the listing is on its way may be in it or not; all others are in it
    /// once.
    pub fn list(&self, dir: &FileHandle, with_attributes: bool) -> DirStream {
        let form = match with_attributes {
            true => Form::Plus,
            false => Form::Names,
        };
        DirStream {
            client: self.clone(),
            dir: *dir,
            with_attributes,
            place: Place::new(form, READDIR_ENTRIES_MAX),
        }
    }

    /// All entries of the directory `dir` at once, as [`Self::list`] gives them.
    ///
    /// An entry that goes away while the directory is read may come without attributes.
    pub async fn read_dir(
        &self,
        dir: &FileHandle,
        with_attributes: bool,
    ) -> Result<Vec<DirEntry>, ClientError> {
        let mut stream = self.list(dir, with_attributes);
        let mut entries = Vec::new();
        while let Some(page) = stream.next().await? {
            entries.extend(page);
        }
        Ok(entries)
    }

    async fn read_part(
        &self,
        dir: &FileHandle,
        form: Form,
        cookie: u64,
        cookieverf: [u8; 8],
    ) -> Result<Part, ClientError> {
        let bytes = self.transfer_sizes().directory;
        match form {
            Form::Names => match self.nfs.readdir(dir, cookie, cookieverf, bytes).await? {
                Ok(ok) => {
                    let entry = |entry: crate::nfs3::Entry3| {
                        let name = DirEntry {
                            name: entry.name,
                            fileid: entry.fileid,
                            attributes: None,
                            handle: None,
                        };
                        (entry.cookie, name)
                    };
                    Ok(Part {
                        entries: ok.entries.into_iter().map(entry).collect(),
                        cookieverf: ok.cookieverf,
                        eof: ok.eof,
                    })
                }
                Err(failure) => Err(refused("READDIR", &[], failure.status)),
            },
            Form::Plus => {
                let answer = self.nfs.readdirplus(dir, cookie, cookieverf, bytes, bytes);
                match answer.await? {
                    Ok(ok) => {
                        let entry = |entry: crate::nfs3::EntryPlus3| {
                            let name = DirEntry {
                                name: entry.name,
                                fileid: entry.fileid,
                                attributes: entry.name_attributes,
                                handle: entry.name_handle,
                            };
                            (entry.cookie, name)
                        };
                        Ok(Part {
                            entries: ok.entries.into_iter().map(entry).collect(),
                            cookieverf: ok.cookieverf,
                            eof: ok.eof,
                        })
                    }
                    Err(failure) => Err(refused("READDIRPLUS", &[], failure.status)),
                }
            }
        }
    }
}

impl DirStream {
    /// A listing that has nothing to come.
    pub(super) fn ended(client: &Client, dir: &FileHandle) -> Self {
        let mut stream = client.list(dir, true);
        stream.place.over = true;
        stream
    }

    /// The next entries; `None` after the last. Dropped before it is ready, it has taken nothing.
    ///
    /// # Errors
    /// [`ClientError::EndlessDirectory`] for a server that repeats itself or stops without saying so.
    /// After an error, and after `None`, there is nothing more to come.
    pub async fn next(&mut self) -> Result<Option<Vec<DirEntry>>, ClientError> {
        while !self.place.over {
            let place = &self.place;
            let read = self
                .client
                .read_part(&self.dir, place.form, place.cookie, place.cookieverf);
            match read.await {
                Ok(part) => {
                    let mut page = self.place.take(&part)?;
                    if self.with_attributes {
                        self.client.look_up_missing(&self.dir, &mut page).await;
                    }
                    self.place.advance(part, &page);
                    if !page.is_empty() {
                        return Ok(Some(page));
                    }
                }
                Err(error) => self.place.recover(error)?,
            }
        }
        Ok(None)
    }
}

impl Place {
    fn new(form: Form, given_max: usize) -> Self {
        Self {
            form,
            cookie: 0,
            cookieverf: [0; 8],
            restarts: 0,
            restarted: false,
            given: HashSet::new(),
            given_max,
            hasher: RandomState::new(),
            over: false,
        }
    }

    /// The entries of a part that were not given yet.
    fn take(&mut self, part: &Part) -> Result<Vec<DirEntry>, ClientError> {
        let last = part.entries.last().map(|(cookie, _)| *cookie);
        let moves = part.eof || last.is_some_and(|last| last != self.cookie);
        if !moves || self.given.len() > self.given_max {
            self.over = true;
            return Err(ClientError::EndlessDirectory);
        }
        let names = part.entries.iter().map(|(_, entry)| &entry.name);
        // A caller that copies or removes must never be led elsewhere by a name.
        if let Some(bad) = names.into_iter().find(|name| !is_name(name)) {
            self.over = true;
            return Err(ClientError::BadName {
                name: printable(bad),
            });
        }
        let entries = part.entries.iter().map(|(_, entry)| entry);
        let new = entries.filter(|entry| {
            !self.restarted || !self.given.contains(&fingerprint(&self.hasher, entry))
        });
        Ok(new.cloned().collect())
    }

    fn advance(&mut self, part: Part, page: &[DirEntry]) {
        let given = page.iter().map(|entry| fingerprint(&self.hasher, entry));
        self.given.extend(given);
        self.over = part.eof;
        if let Some((cookie, _)) = part.entries.last() {
            self.cookie = *cookie;
            self.cookieverf = part.cookieverf;
        }
    }

    /// Begins again where that may help; else the stream is over with the error.
    fn recover(&mut self, error: ClientError) -> Result<(), ClientError> {
        if self.form == Form::Plus && is_unsupported(&error) {
            self.form = Form::Names;
        } else if error.status() == Some(Nfsstat3::BadCookie)
            && self.restarts < READDIR_RESTARTS_MAX
        {
            self.restarts += 1;
        } else {
            self.over = true;
            return Err(error);
        }
        self.restarted = true;
        self.cookie = 0;
        self.cookieverf = [0; 8];
        Ok(())
    }
}

impl Client {
    /// Asks for the attributes that a page came without: they are optional in the reply (RFC 1813
    /// §3.3.17). A name that is gone by now stays without.
    async fn look_up_missing(&self, dir: &FileHandle, page: &mut [DirEntry]) {
        let is_missing = |entry: &DirEntry| {
            !entry.is_dot() && (entry.attributes.is_none() || entry.handle.is_none())
        };
        let mut missing: Vec<usize> = (0..page.len()).collect();
        missing.retain(|&index| page.get(index).is_some_and(is_missing));
        let mut lookups = JoinSet::new();
        let mut missing = missing.into_iter();
        loop {
            while lookups.len() < LISTING_LOOKUPS_MAX
                && let Some(index) = missing.next()
            {
                let Some(entry) = page.get(index) else { break };
                let (client, dir, name) = (self.clone(), *dir, entry.name.clone());
                lookups.spawn(async move { (index, client.lookup(&dir, &name).await) });
            }
            match lookups.join_next().await {
                None => return,
                Some(Ok((index, Ok(node)))) => {
                    if let Some(entry) = page.get_mut(index) {
                        entry.attributes = Some(node.attributes);
                        entry.handle = Some(node.handle);
                    }
                }
                Some(_) => {}
            }
        }
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// What tells an entry from all others of its directory.
fn fingerprint(hasher: &RandomState, entry: &DirEntry) -> (u64, u64) {
    (entry.fileid, hasher.hash_one(&entry.name))
}

fn is_unsupported(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(RpcError::ProcUnavail))
        || error.status() == Some(Nfsstat3::Notsupp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_without_an_end_is_given_up_at_the_cap() {
        const GIVEN_MAX: usize = 1000;
        let mut place = Place::new(Form::Names, GIVEN_MAX);
        let mut given = 0;
        // Each part moves on and brings new names.
        for cookie in 1.. {
            let entries = (0..64).map(|at| {
                let entry = DirEntry {
                    name: format!("{cookie}-{at}").into_bytes(),
                    fileid: at,
                    attributes: None,
                    handle: None,
                };
                (cookie, entry)
            });
            let part = Part {
                entries: entries.collect(),
                cookieverf: [0; 8],
                eof: false,
            };
            let page = match place.take(&part) {
                Ok(page) => page,
                Err(error) => {
                    assert!(matches!(error, ClientError::EndlessDirectory));
                    break;
                }
            };
            given += page.len();
            assert!(given <= GIVEN_MAX + 64, "it goes on and on");
            place.advance(part, &page);
        }
        assert!(given > GIVEN_MAX && place.over);
    }

    #[test]
    fn a_listing_begins_again_so_often_and_no_more() {
        let bad_cookie = || refused("READDIR", &[], Nfsstat3::BadCookie);
        let mut place = Place::new(Form::Names, READDIR_ENTRIES_MAX);
        for _ in 0..READDIR_RESTARTS_MAX {
            place.recover(bad_cookie()).unwrap();
        }
        assert!(place.recover(bad_cookie()).is_err() && place.over);
    }
}
