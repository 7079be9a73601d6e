//! What patterns in a path stand for.

use nfs_wire::nfs3::{Ftype3, Nfsstat3};

use crate::client::Client;
use crate::error::ClientError;
use crate::limits::PATTERN_MATCHES_MAX;
use crate::url::NamePattern;

/// What patterns in a path stand for.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Paths below where the first pattern was looked for: names joined by `/`, in the order of their bytes.
    pub paths: Vec<Vec<u8>>,
    /// Paths, of the same kind, that could not be looked at, and why.
    pub failed: Vec<(Vec<u8>, ClientError)>,
}

/// Finds what is below the directory `path` of the export with names like `names`, one below the other. With
/// `directories_only`, nothing else, and each with a `/` at its end. Symbolic links on the way are followed; one
/// in the last place is itself what matches.
///
/// Costs the listing of each directory in which a pattern is looked for, one after the other.
///
/// # Errors
/// The directory itself cannot be looked at, or more than [`PATTERN_MATCHES_MAX`] names match.
pub async fn matching(
    client: &Client,
    path: &[u8],
    names: &[NamePattern],
    directories_only: bool,
) -> Result<Matches, ClientError> {
    let mut found = Matches {
        paths: vec![Vec::new()],
        failed: Vec::new(),
    };
    for (depth, name) in names.iter().enumerate() {
        let mut next = Vec::new();
        for dir in std::mem::take(&mut found.paths) {
            match name {
                NamePattern::Name(name) => next.push(below(&dir, name)),
                NamePattern::Like(_) => match list(client, &below(path, &dir), name).await {
                    Ok(names) => next.extend(names.iter().map(|name| below(&dir, name))),
                    Err(error) if depth == 0 => return Err(error),
                    Err(error) if leads_nowhere(&error) => {}
                    Err(error) => found.failed.push((dir, error)),
                },
            }
            if next.len() > PATTERN_MATCHES_MAX {
                return Err(ClientError::TooManyMatches);
            }
        }
        found.paths = next;
    }
    let ends_in_name = matches!(names.last(), Some(NamePattern::Name(_)));
    if ends_in_name || directories_only {
        keep_what_is_there(client, path, directories_only, &mut found).await;
    }
    Ok(found)
}

/// The names in a directory that are like `pattern`, sorted by their bytes; none of what is no directory.
async fn list(
    client: &Client,
    path: &[u8],
    pattern: &NamePattern,
) -> Result<Vec<Vec<u8>>, ClientError> {
    let dir = client.resolve(path).await?;
    let mut names = Vec::new();
    if dir.attributes.ftype != Ftype3::Dir {
        return Ok(names);
    }
    let mut stream = client.list(&dir.handle, false);
    while let Some(page) = stream.next().await? {
        let page = page.into_iter().filter(|entry| !entry.is_dot());
        let page = page.filter(|entry| pattern.matches(&entry.name));
        names.extend(page.map(|entry| entry.name));
        if names.len() > PATTERN_MATCHES_MAX {
            return Err(ClientError::TooManyMatches);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Drops paths that end in a name which nothing has, or, with `directories_only`, no directory.
async fn keep_what_is_there(
    client: &Client,
    base: &[u8],
    directories_only: bool,
    found: &mut Matches,
) {
    for mut path in std::mem::take(&mut found.paths) {
        let whole = below(base, &path);
        let node = match directories_only {
            true => client.resolve(&whole).await,
            false => client.resolve_link(&whole).await,
        };
        match node {
            Ok(node) if directories_only && node.attributes.ftype != Ftype3::Dir => {}
            Ok(_) => {
                if directories_only {
                    path.push(b'/');
                }
                found.paths.push(path);
            }
            Err(error) if leads_nowhere(&error) => {}
            Err(error) => found.failed.push((path, error)),
        }
    }
}

/// Whether the error says that nothing is there: then it is no match.
fn leads_nowhere(error: &ClientError) -> bool {
    matches!(error.status(), Some(Nfsstat3::Noent | Nfsstat3::Notdir))
}

fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match (dir, name) {
        (b"", name) => name.to_vec(),
        (dir, b"") => dir.to_vec(),
        (dir, name) if dir.ends_with(b"/") => [dir, name].concat(),
        (dir, name) => [dir, b"/", name].concat(),
    }
}
