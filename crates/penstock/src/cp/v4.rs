//! One file to or from a server of NFSv4.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use nfs_client::nfs3::Ftype3;
use nfs_client::nfs4::{OpenFile4, OpenHow, StableHow4};
use nfs_client::transfer::Figures;
use nfs_client::{ClientError, MountOptions, Nfs4, NfsUrl};

use super::{Args, is_url};
use crate::exit::UsageError;
use crate::session::told;
use crate::v4;
use crate::values::mode::umask;

/// What is said to who wants more than one file, or more than its bytes.
const ONE_FILE: &str = "over NFSv4, cp copies one file between this host and a server so far, without options of \
    trees, of what is kept and of what is left alone: leave version= out of the URL for more";

/// Whether one of the places is on a server of NFSv4. A URL that cannot be read is told of later.
pub(super) fn concerns(places: &[OsString]) -> bool {
    places.iter().filter_map(url).any(|url| v4::is_v4(&url))
}

fn url(place: &OsString) -> Option<NfsUrl> {
    let text = place.to_str().filter(|text| is_url(text))?;
    text.parse().ok()
}

/// Copies one file, and says what was moved.
pub(super) async fn copy(args: &Args, options: &MountOptions) -> anyhow::Result<Figures> {
    let [source, destination] = args.places.as_slice() else {
        return Err(UsageError(ONE_FILE.to_owned()).into());
    };
    if !args.wants_bytes_alone() {
        return Err(UsageError(ONE_FILE.to_owned()).into());
    }
    let local = |place: &OsString| !place.to_str().is_some_and(is_url);
    let bytes = match (url(source), url(destination)) {
        (Some(from), None) if local(destination) => {
            let down = v4::in_session(&from, options, async |nfs| {
                Ok(down(nfs, &from, options, Path::new(destination)).await)
            });
            down.await
                .map_err(|error| anyhow::Error::msg(told(&from, error)))??
        }
        (None, Some(to)) if local(source) => {
            ensure!(!to.read_only, "{to}: the URL says readonly");
            let up = v4::in_session(&to, options, async |nfs| {
                Ok(up(nfs, Path::new(source), &to).await)
            });
            up.await
                .map_err(|error| anyhow::Error::msg(told(&to, error)))??
        }
        _ => return Err(UsageError(ONE_FILE.to_owned()).into()),
    };
    Ok(Figures {
        walked: true,
        files_found: 1,
        files_done: 1,
        bytes_found: bytes,
        bytes_done: bytes,
        ..Figures::default()
    })
}

/// From the server to this host.
async fn down(nfs: &Nfs4, from: &NfsUrl, options: &MountOptions, to: &Path) -> anyhow::Result<u64> {
    let of_server = |error: ClientError| anyhow::Error::msg(told(from, error));
    let file = v4::open(nfs, from).await.map_err(of_server)?;
    let name = from.components().last().unwrap_or_default();
    let to = match to.is_dir() {
        true => to.join(OsStr::from_bytes(name)),
        false => to.to_owned(),
    };
    let copied = async {
        let mut out = made(&to, file.node.stat.mode)?;
        let mut stream = v4::stream(nfs, from, options, &file, (0, u64::MAX));
        let mut bytes = 0;
        while let Some(piece) = stream
            .next()
            .await
            .map_err(|error| of_server(error.into()))?
        {
            out.write_all(&piece).with_context(|| place(&to))?;
            bytes += piece.len() as u64;
        }
        anyhow::Ok(bytes)
    };
    let copied = copied.await;
    // Without it the server keeps the open until the lease is over.
    let closed = nfs.close(file).await;
    let bytes = copied?;
    closed.map_err(|error| of_server(error.into()))?;
    Ok(bytes)
}

fn made(to: &Path, mode: u32) -> anyhow::Result<File> {
    let mut how = OpenOptions::new();
    // The system takes the umask off.
    how.write(true)
        .create(true)
        .truncate(true)
        .mode(mode & 0o777);
    how.open(to).with_context(|| place(to))
}

/// From this host to the server.
async fn up(nfs: &Nfs4, from: &Path, to: &NfsUrl) -> anyhow::Result<u64> {
    let of_server = |error: ClientError| anyhow::Error::msg(told(to, error));
    let mut source = File::open(from).with_context(|| place(from))?;
    let attributes = source.metadata().with_context(|| place(from))?;
    ensure!(
        attributes.is_file(),
        "{} is not a regular file",
        from.display()
    );
    let (dir, name) = target(nfs, from, to).await.map_err(of_server)?;
    let how = OpenHow::Write {
        mode: attributes.mode() & 0o777 & !umask(),
        truncate: true,
    };
    let opened = nfs.open(&dir, &name, how).await;
    let file = opened.map_err(|error| of_server(error.into()))?;
    let copied = written(nfs, &mut source, from, (&file, to)).await;
    let closed = nfs.close(file).await;
    let bytes = copied?;
    closed.map_err(|error| of_server(error.into()))?;
    Ok(bytes)
}

/// Writes all of `source`; on stable storage when this returns.
async fn written(
    nfs: &Nfs4,
    source: &mut File,
    from: &Path,
    (file, to): (&OpenFile4, &NfsUrl),
) -> anyhow::Result<u64> {
    let of_server = |error: nfs_client::Nfs4Error| anyhow::Error::msg(told(to, error.into()));
    let most = to.write_bytes.unwrap_or(u32::MAX);
    let mut buffer = vec![0; usize::try_from(nfs.data_bytes_max().min(most))?];
    let (mut offset, mut verifiers) = (0, Vec::new());
    loop {
        let read = source.read(&mut buffer).with_context(|| place(from))?;
        let mut left = buffer.get(..read).unwrap_or_default();
        if left.is_empty() {
            break;
        }
        while !left.is_empty() {
            let wrote = nfs.write(file, offset, StableHow4::Unstable, left).await;
            let wrote = wrote.map_err(of_server)?;
            ensure!(
                wrote.count > 0,
                "{to}: the server accepts no data at offset {offset}"
            );
            offset += u64::from(wrote.count);
            left = left
                .get(usize::try_from(wrote.count)?..)
                .unwrap_or_default();
            if wrote.committed == StableHow4::Unstable && !verifiers.contains(&wrote.verifier) {
                verifiers.push(wrote.verifier);
            }
        }
    }
    let verifier = nfs.commit(file).await.map_err(of_server)?;
    ensure!(
        verifiers.iter().all(|seen| *seen == verifier),
        "{to}: the server restarted meanwhile, and what was written may be lost: copy the file again"
    );
    Ok(offset)
}

/// The directory and the name that are written to: the source's name, where the destination is a directory.
async fn target(
    nfs: &Nfs4,
    from: &Path,
    to: &NfsUrl,
) -> Result<(nfs_client::nfs4::FileHandle, Vec<u8>), ClientError> {
    use nfs_client::Nfs4Error;
    use nfs_client::nfs4::Nfsstat4;
    let own_name = || from.file_name().map(|name| name.as_bytes().to_vec());
    match nfs.find(&to.path, true).await {
        Ok(found) if found.node.stat.as_nfs3().ftype == Ftype3::Dir => {
            Ok((found.node.handle, own_name().unwrap_or_default()))
        }
        Ok(found) => Ok((found.dir.handle, found.name)),
        Err(ClientError::Nfs4 {
            error:
                Nfs4Error::Status {
                    status: Nfsstat4::Noent,
                    ..
                },
            ..
        }) => {
            let mut names: Vec<&[u8]> = to.components().collect();
            let name = names.pop().unwrap_or_default().to_vec();
            let dir = nfs.find(&names.join(&b'/'), true).await?;
            Ok((dir.node.handle, name))
        }
        Err(error) => Err(error),
    }
}

fn place(path: &Path) -> String {
    path.display().to_string()
}
