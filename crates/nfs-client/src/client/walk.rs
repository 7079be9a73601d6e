//! From a path to a handle: one LOOKUP per name.

use std::collections::VecDeque;

use nfs_wire::nfs3::{FileHandle, Ftype3};

use super::Client;
use crate::error::{ClientError, printable, refused};
use crate::limits::{SYMLINKS_MAX, WALK_NAMES_MAX};
use crate::nfs3::Node;
use crate::path::AsPath;
use crate::url::components;

impl Client {
    /// Walks `path` from the export's root; symbolic links are followed, the last name's too.
    ///
    /// Absolute links are taken as paths of the server's name space, in which the export has the path
    /// that was mounted. `..` at the root stays there.
    pub async fn resolve(&self, path: impl AsPath) -> Result<Node, ClientError> {
        self.walk(path.as_path(), true).await
    }

    /// As [`Self::resolve`], but a symbolic link in the last place is itself the result.
    pub async fn resolve_link(&self, path: impl AsPath) -> Result<Node, ClientError> {
        self.walk(path.as_path(), false).await
    }

    /// One name in one directory (LOOKUP).
    pub async fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Result<Node, ClientError> {
        match self.nfs.lookup(dir, name).await? {
            Ok(ok) => {
                let handle = ok.object;
                let attributes = match ok.obj_attributes {
                    Some(attributes) => attributes,
                    None => self.stat_handle(&handle).await?,
                };
                Ok(Node { handle, attributes })
            }
            Err(failure) => Err(refused("LOOKUP", name, failure.status)),
        }
    }

    async fn walk(&self, path: &[u8], follow_last: bool) -> Result<Node, ClientError> {
        let mut todo: VecDeque<Vec<u8>> = components(path).map(<[u8]>::to_vec).collect();
        // The directories passed, below the root: `..` goes back along them.
        let mut passed: Vec<Node> = Vec::new();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == b".." {
                passed.pop();
                continue;
            }
            let dir = passed.last().map_or(self.root, |node| node.handle);
            let node = self
                .lookup(&dir, &name)
                .await
                .map_err(|error| error.of(path))?;
            let is_link = node.attributes.ftype == Ftype3::Lnk;
            if !is_link || (todo.is_empty() && !follow_last) {
                passed.push(node);
                continue;
            }
            links += 1;
            if links > SYMLINKS_MAX {
                return Err(ClientError::SymlinkLoop {
                    path: printable(path),
                });
            }
            let target = self.readlink(&node.handle).await?;
            let inside = match target.first() {
                Some(b'/') => {
                    passed.clear();
                    self.inside_export(&target)
                        .ok_or_else(|| ClientError::OutsideExport {
                            path: printable(path),
                            target: printable(&target),
                        })?
                }
                _ => target,
            };
            let names: Vec<&[u8]> = components(&inside).collect();
            if names.len() + todo.len() > WALK_NAMES_MAX {
                return Err(ClientError::TooManyNames {
                    path: printable(path),
                });
            }
            for name in names.into_iter().rev() {
                todo.push_front(name.to_vec());
            }
        }
        match passed.pop() {
            Some(node) => Ok(node),
            None => {
                let attributes = self.stat_handle(&self.root).await?;
                Ok(Node {
                    handle: self.root,
                    attributes,
                })
            }
        }
    }

    /// An absolute path below the export's, relative to the export's root.
    fn inside_export(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut names = components(path);
        for expected in components(&self.export) {
            if names.next() != Some(expected) {
                return None;
            }
        }
        Some(names.collect::<Vec<_>>().join(&b'/'))
    }
}

/// A path cut into the path of its directory and its last name.
pub(super) fn parent_and_name(path: &[u8]) -> Result<(&[u8], &[u8]), ClientError> {
    let trimmed = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    let trimmed = path.get(..trimmed).unwrap_or_default();
    let at = trimmed
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let (parent, name) = trimmed.split_at(at);
    match name {
        b"" | b"." | b".." => Err(ClientError::NoName {
            path: printable(path),
        }),
        name => Ok((parent, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents() {
        let cut = |path| parent_and_name(path).unwrap();
        assert_eq!(cut(b"a"), (&b""[..], &b"a"[..]));
        assert_eq!(cut(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(cut(b"/a/b//"), (&b"/a/"[..], &b"b"[..]));
        for path in [&b""[..], b"/", b"//", b".", b"/a/..", b"a/./"] {
            assert!(
                matches!(parent_and_name(path), Err(ClientError::NoName { .. })),
                "{path:?}"
            );
        }
    }
}
