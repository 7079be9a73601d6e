//! Shared memory maps of a file, by copies in and out.

use std::fs::File;

use anyhow::{Context, Result};
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// A shared map of the first bytes of a file; unmapped on drop.
pub(crate) struct Map(MmapRegion);

impl Map {
    /// Maps the first `len` bytes of `file`, which must be that long and open for both reading and
    /// writing.
    pub(crate) fn new(file: &File, len: usize) -> Result<Self> {
        let region = MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), len);
        Ok(Self(region.context("mmap")?))
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        Ok(self.0.as_volatile_slice().read_slice(into, offset)?)
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        Ok(self.0.as_volatile_slice().write_slice(data, offset)?)
    }
}
