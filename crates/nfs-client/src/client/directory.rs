//! Reading whole directories.

use nfs_wire::nfs3::{Fattr3, FileHandle, Nfsstat3};

use super::error::refused;
use super::{Client, ClientError};
use crate::error::RpcError;
use crate::limits::{READDIR_ENTRIES_MAX, READDIR_RESTARTS_MAX};

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

/// How entries are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Names,
    Plus,
}

/// Part of a directory.
struct Part {
    entries: Vec<(u64, DirEntry)>,
    cookieverf: [u8; 8],
    eof: bool,
}

impl Client {
    /// All entries of the directory `dir`, `.` and `..` among them if the server lists them, in the
    /// server's order. With `with_attributes`, by READDIRPLUS; from a server without it, by READDIR and
    /// one LOOKUP per name.
    ///
    /// An entry that goes away while the directory is read may come without attributes.
    pub async fn read_dir(
        &self,
        dir: &FileHandle,
        with_attributes: bool,
    ) -> Result<Vec<DirEntry>, ClientError> {
        if !with_attributes {
            return self.read_all(dir, Form::Names).await;
        }
        let mut entries = match self.read_all(dir, Form::Plus).await {
            Err(error) if is_unsupported(&error) => self.read_all(dir, Form::Names).await?,
            result => result?,
        };
        for entry in &mut entries {
            if entry.attributes.is_some() || entry.name == b"." || entry.name == b".." {
                continue;
            }
            // Attributes are optional in the reply (RFC 1813 §3.3.17), and a name may be gone by now.
            if let Ok(node) = self.lookup(dir, &entry.name).await {
                entry.attributes = Some(node.attributes);
                entry.handle = Some(node.handle);
            }
        }
        Ok(entries)
    }

    async fn read_all(&self, dir: &FileHandle, form: Form) -> Result<Vec<DirEntry>, ClientError> {
        let mut restarts = 0;
        'again: loop {
            let mut entries = Vec::new();
            let mut cookie = 0;
            let mut cookieverf = [0; 8];
            loop {
                let part = match self.read_part(dir, form, cookie, cookieverf).await {
                    Ok(part) => part,
                    Err(error)
                        if error.status() == Some(Nfsstat3::BadCookie)
                            && restarts < READDIR_RESTARTS_MAX =>
                    {
                        restarts += 1;
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                };
                let last = part.entries.last().map(|(cookie, _)| *cookie);
                entries.extend(part.entries.into_iter().map(|(_, entry)| entry));
                if part.eof {
                    return Ok(entries);
                }
                match last {
                    Some(last) if last != cookie && entries.len() <= READDIR_ENTRIES_MAX => {
                        cookie = last;
                        cookieverf = part.cookieverf;
                    }
                    _ => return Err(ClientError::EndlessDirectory),
                }
            }
        }
    }

    async fn read_part(
        &self,
        dir: &FileHandle,
        form: Form,
        cookie: u64,
        cookieverf: [u8; 8],
    ) -> Result<Part, ClientError> {
        let bytes = self.transfer.directory;
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
                    let entries = ok.entries.into_iter().map(entry).collect();
                    Ok(Part {
                        entries,
                        cookieverf: ok.cookieverf,
                        eof: ok.eof,
                    })
                }
                Err(failure) => Err(refused("READDIR", &[], failure.status)),
            },
            Form::Plus => {
                match self
                    .nfs
                    .readdirplus(dir, cookie, cookieverf, bytes, bytes)
                    .await?
                {
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
                        let entries = ok.entries.into_iter().map(entry).collect();
                        Ok(Part {
                            entries,
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

fn is_unsupported(error: &ClientError) -> bool {
    matches!(error, ClientError::Rpc(RpcError::ProcUnavail))
        || error.status() == Some(Nfsstat3::Notsupp)
}
