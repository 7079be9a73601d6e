//! What the client reports, in the words of object stores.

use std::io::ErrorKind;

use nfs_client::ClientError;
use object_store::path::Path;
use object_store::{Error, ObjectStore};

const STORE: &str = "NFS";

/// Where there is no such object, or no directory for it.
pub(crate) const ANSWERS_NOTHING: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::NotADirectory];

/// What an operation on the object `location` came to.
pub(crate) fn told(location: &Path, error: ClientError) -> Error {
    let (path, kind) = (location.to_string(), error.kind());
    let source = Box::new(error);
    match kind {
        // A directory is no object.
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            Error::NotFound { path, source }
        }
        ErrorKind::AlreadyExists => Error::AlreadyExists { path, source },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Error::PermissionDenied { path, source }
        }
        _ => generic(source),
    }
}

/// What there is no other word for.
pub(crate) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: STORE,
        source: source.into(),
    }
}

/// What an NFS server has not.
pub(crate) fn unsupported(store: &dyn ObjectStore, operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: store.to_string(),
    }
}
