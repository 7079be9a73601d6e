//! Handles of NFSv4, which may be twice as long as those of NFSv3, in the place of the latter.
//!
//! A handle that is not longer stands for itself. For a longer one (those of NFS-Ganesha's pseudo file system are)
//! a token is given out that no server ever sees, and that is good as long as the session's client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs_wire::nfs3::FileHandle;
use nfs_wire::nfs4::FileHandle as FileHandle4;

use crate::limits::NFS4_LONG_HANDLES_MAX;
use crate::nfs4::Nfs4Error;
use crate::random;

/// The long handles that were seen. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Handles {
    /// What a token begins with: no server has a handle that does.
    mark: [u8; 24],
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    handles: Vec<FileHandle4>,
    numbers: HashMap<FileHandle4, usize>,
}

impl Handles {
    pub(super) fn new() -> Self {
        let mut mark = [0; 24];
        for part in mark.chunks_exact_mut(8) {
            part.copy_from_slice(&random::bytes());
        }
        let table = Arc::default();
        Self { mark, table }
    }

    /// What stands for the server's handle.
    ///
    /// # Errors
    /// [`Nfs4Error::LongHandles`] where there are too many long ones.
    pub(super) fn short(&self, handle: &FileHandle4) -> Result<FileHandle, Nfs4Error> {
        if let Ok(same) = FileHandle::new(handle.as_ref()) {
            return Ok(same);
        }
        let mut table = self.lock();
        let number = match table.numbers.get(handle) {
            Some(number) => *number,
            None if table.handles.len() < NFS4_LONG_HANDLES_MAX => {
                let number = table.handles.len();
                table.handles.push(*handle);
                table.numbers.insert(*handle, number);
                number
            }
            None => return Err(Nfs4Error::LongHandles),
        };
        let number = u64::try_from(number).unwrap_or(u64::MAX).to_be_bytes();
        let token = [&self.mark[..], &number[..]].concat();
        FileHandle::new(&token).map_err(|_| Nfs4Error::LongHandles)
    }

    /// The server's handle.
    pub(super) fn long(&self, handle: &FileHandle) -> FileHandle4 {
        let bytes = handle.as_ref();
        if let Some(number) = bytes.strip_prefix(&self.mark)
            && let Ok(number) = number.try_into().map(u64::from_be_bytes)
            && let Ok(number) = usize::try_from(number)
            && let Some(known) = self.lock().handles.get(number)
        {
            return *known;
        }
        FileHandle4::new(bytes).unwrap_or_else(|_| unreachable!("64 bytes are within 128"))
    }

    /// A panic while the lock was held would be a bug here, but leaves nothing half-done.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(len: usize, fill: u8) -> FileHandle4 {
        FileHandle4::new(&vec![fill; len]).unwrap()
    }

    #[test]
    fn every_handle_comes_back_as_it_was() {
        let handles = Handles::new();
        for (len, fill) in [
            (0, 1),
            (1, 1),
            (64, 1),
            (65, 1),
            (65, 2),
            (128, 1),
            (128, 2),
        ] {
            let handle = handle(len, fill);
            let short = handles.short(&handle).unwrap();
            assert_eq!(short, handles.short(&handle).unwrap(), "{len} {fill}");
            assert_eq!(handles.long(&short), handle, "{len} {fill}");
            assert_eq!(short.as_ref() == handle.as_ref(), len <= 64);
        }
        assert_eq!(handles.lock().handles.len(), 4);
    }

    #[test]
    fn long_handles_are_kept_up_to_a_number() {
        let handles = Handles::new();
        let long = |number: usize| {
            let bytes = [&number.to_be_bytes()[..], &[0; 100]].concat();
            FileHandle4::new(&bytes).unwrap()
        };
        for number in 0..NFS4_LONG_HANDLES_MAX {
            handles.short(&long(number)).unwrap();
        }
        let error = handles.short(&long(NFS4_LONG_HANDLES_MAX)).unwrap_err();
        assert!(matches!(error, Nfs4Error::LongHandles));
        // Those that are known are so still.
        assert_eq!(handles.long(&handles.short(&long(7)).unwrap()), long(7));
    }
}
