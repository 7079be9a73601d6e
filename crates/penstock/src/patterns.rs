//! What patterns in addresses stand for: names in directories, and exports where there is no directory above them.

use std::collections::BTreeSet;

use nfs_client::trees::matching;
use nfs_client::url::NamePattern;
use nfs_client::{Client, ClientError, MountOptions, NfsUrl, UrlPattern};

/// What one address with patterns in it stands for.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    pub(crate) urls: Vec<NfsUrl>,
    /// What could not be looked at on the way, and why.
    pub(crate) failed: Vec<(NfsUrl, ClientError)>,
}

/// Finds what `pattern` stands for; if nothing matches, what has the name that is written there. `at` mounts what
/// an address names, and gives the path below the export.
pub(crate) async fn expanded(
    pattern: &UrlPattern,
    options: &MountOptions,
    mut at: impl AsyncFnMut(&NfsUrl) -> Result<(Client, Vec<u8>), ClientError>,
) -> Expanded {
    if !pattern.is_pattern() {
        return Expanded {
            urls: vec![pattern.literal().clone()],
            failed: Vec::new(),
        };
    }
    let mut found = Expanded::default();
    let mut todo = vec![(pattern.base(), pattern.names())];
    while let Some((base, names)) = todo.pop() {
        let Some((first, behind)) = names.split_first() else {
            found.urls.push(base);
            continue;
        };
        let matches = async {
            let (client, path) = at(&base).await?;
            matching(&client, &path, names, pattern.directories_only()).await
        };
        match matches.await {
            Ok(matches) => {
                let at = |path: Vec<u8>| below(&base, &path);
                found.urls.extend(matches.paths.into_iter().map(at));
                let failed = matches.failed.into_iter();
                found
                    .failed
                    .extend(failed.map(|(path, error)| (at(path), error)));
            }
            Err(error) => {
                let exports = exports_if_above(&base, &error, options).await;
                if exports.is_empty() {
                    found.failed.push((base, error));
                    continue;
                }
                let like = exports.iter().rev().filter(|name| first.matches(name));
                todo.extend(like.map(|name| (below(&base, name), behind)));
            }
        }
    }
    if found.urls.is_empty()
        && found.failed.is_empty()
        && is_there(pattern.literal(), &mut at).await
    {
        found.urls.push(pattern.literal().clone());
    }
    found
}

/// What is said of a pattern that stands for nothing.
pub(crate) fn no_match(pattern: &UrlPattern) -> String {
    let hidden = pattern.names().iter().any(|name| match name {
        NamePattern::Like(glob) => glob.begins_with('.'),
        NamePattern::Name(_) => false,
    });
    let cure = match hidden {
        true => "",
        false => ", and a name that begins with . only what begins with . as well",
    };
    format!("{pattern}: nothing matches: %2A is a * itself{cure}")
}

async fn is_there(
    url: &NfsUrl,
    at: &mut impl AsyncFnMut(&NfsUrl) -> Result<(Client, Vec<u8>), ClientError>,
) -> bool {
    let found = async {
        let (client, path) = at(url).await?;
        client.resolve_link(&path).await
    };
    found.await.is_ok()
}

/// The names below the URL's path that lead to exports, if `error` says that it lies in none.
pub(crate) async fn exports_if_above(
    url: &NfsUrl,
    error: &ClientError,
    options: &MountOptions,
) -> BTreeSet<Vec<u8>> {
    match error {
        ClientError::Mount { exports, .. } if !exports.is_empty() => {
            exports_below(url, options).await
        }
        _ => BTreeSet::new(),
    }
}

/// The names below the URL's path that lead to exports: the server serves nothing there.
async fn exports_below(url: &NfsUrl, options: &MountOptions) -> BTreeSet<Vec<u8>> {
    let Ok(mount) = Client::mount_program(url, options).await else {
        return BTreeSet::new();
    };
    let exports = mount.export().await.unwrap_or_default();
    let depth = url.components().count();
    let next = |directory: &Vec<u8>| {
        let mut names = nfs_client::url::components(directory);
        let leads = names.by_ref().take(depth).eq(url.components());
        names.next().filter(|_| leads).map(<[u8]>::to_vec)
    };
    let names = exports.iter().filter_map(|export| next(&export.directory));
    names.collect()
}

/// The address of `path` below the directory `url`.
pub(crate) fn below(url: &NfsUrl, path: &[u8]) -> NfsUrl {
    let slash: &[u8] = if url.path.ends_with(b"/") { b"" } else { b"/" };
    url.with_path([url.path.as_slice(), slash, path].concat())
}
