//! Writing: for now each WRITE is on stable storage before the next is sent.

use bytes::Bytes;
use nfs_wire::nfs3::StableHow;

use super::Inner;
use crate::client::{ClientError, printable, refused};
use crate::limits::EMPTY_WRITES_MAX;

impl Inner {
    pub(super) async fn write_through(
        &self,
        mut offset: u64,
        mut data: Bytes,
    ) -> Result<(), ClientError> {
        let mut empty_writes = 0;
        while !data.is_empty() {
            let size = usize::try_from(self.client.transfer_sizes().write).unwrap_or(usize::MAX);
            let part = data.slice(..data.len().min(size.max(1)));
            let asked = part.len();
            let answer = self.client.nfs();
            let answer = answer.write(&self.handle, offset, StableHow::FileSync, part);
            let ok = match answer.await? {
                Ok(ok) => ok,
                Err(failure) => return Err(refused("WRITE", &self.path, failure.status)),
            };
            let taken = usize::try_from(ok.count).unwrap_or(usize::MAX).min(asked);
            empty_writes = if taken == 0 { empty_writes + 1 } else { 0 };
            if empty_writes > EMPTY_WRITES_MAX {
                let path = printable(&self.path);
                return Err(ClientError::NoProgress { path, offset });
            }
            bytes::Buf::advance(&mut data, taken);
            offset = offset.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}
