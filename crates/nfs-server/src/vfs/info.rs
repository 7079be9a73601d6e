//! FSSTAT, FSINFO and PATHCONF: what the file system says of itself, nothing invented.

use std::sync::Arc;

use nfs_io::fs::{self, FsStat, PathConf};

use super::{Attributes, Result};
use crate::vfs::{Target, Vfs};

/// What a file system says of itself, with the attributes of the object it was asked through.
pub(crate) struct FsFacts {
    pub(crate) attributes: Attributes,
    pub(crate) space: FsStat,
    pub(crate) limits: PathConf,
    /// The largest file that the file system takes, in bytes; 0 where that could not be found out.
    pub(crate) file_size_max: u64,
}

impl Vfs {
    /// Asks the file system of an object.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn file_system(&self, target: &Target) -> Result<FsFacts> {
        let object = Arc::clone(&target.object);
        self.blocking(target.queue(), move || {
            let space = fs::statfs(object.path())?;
            let limits = fs::path_conf(object.path())?;
            let file_size_max = object.mount.file_size_max;
            Ok(FsFacts {
                attributes: object.attributes()?,
                space,
                limits,
                file_size_max,
            })
        })
        .await?
    }
}
