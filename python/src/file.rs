//! An open file, as Python's file object stands on it.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};

use crate::engine::{Engine, Running};
use crate::errors::Failure;
use crate::limits::{READ_PIECE_BYTES, READ_WHOLE_BYTES_MAX};

/// An open regular file. All calls wait without holding up Python's other threads.
#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct File(Running<nfs_client::File>);

impl File {
    /// `file`, which was opened on `engine`.
    pub(crate) fn new(engine: &Arc<Engine>, file: nfs_client::File) -> Self {
        Self(Running::new(engine, file))
    }
}

#[pymethods]
impl File {
    /// The length, in bytes, with what was written and is still on its way.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.0.get()?;
        let stat = async move { file.stat().await.map_err(Failure::from) };
        Ok(self.0.engine().wait(py, stat)?.size)
    }

    /// `length` bytes from `offset`; fewer at the end of the file, and where that is more than
    /// [`READ_WHOLE_BYTES_MAX`].
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.0.get()?;
        let engine = self.0.engine();
        if length <= READ_PIECE_BYTES {
            let data = engine.wait(py, read_piece(file, offset, length))?;
            return Ok(PyBytes::new(py, &data));
        }
        let stat = async { file.refresh().await.map_err(Failure::from) };
        let there = engine.wait(py, stat)?.size.saturating_sub(offset);
        let length = usize::try_from(length.min(there).min(READ_WHOLE_BYTES_MAX))?;
        let mut filled = 0;
        let whole = PyBytes::new_with(py, length, |place| {
            filled = engine.wait(py, fill(file, offset, place))?;
            Ok(())
        })?;
        match whole.as_bytes().get(..filled) {
            Some(part) if filled < length => Ok(PyBytes::new(py, part)),
            _ => Ok(whole),
        }
    }

    /// Reads into `buffer`, a writable memoryview of bytes, from `offset`. How many bytes: fewer than fit at the end of the
    /// file, and where that is more than one piece.
    fn readinto(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let file = self.0.get()?;
        let room = PyBuffer::<u8>::get(buffer)?.len_bytes();
        let length = u64::try_from(room)?.min(READ_PIECE_BYTES);
        let data = self.0.engine().wait(py, read_piece(file, offset, length))?;
        let part = PySlice::new(py, 0, isize::try_from(data.len())?, 1);
        PyBuffer::<u8>::get(&buffer.get_item(part)?)?.copy_from_slice(py, &data)?;
        Ok(data.len())
    }

    /// Takes `data`, any buffer of bytes, over for writing at `offset`. A failure may be told by a later call.
    fn write(&self, py: Python<'_>, offset: u64, data: PyBuffer<u8>) -> PyResult<()> {
        let file = self.0.get()?;
        let data = Bytes::from(data.to_vec(py)?);
        let write = async move { file.write_at(offset, data).await.map_err(Failure::from) };
        self.0.engine().wait(py, write)
    }

    /// Takes `data` over for writing at the end of the file; where that is.
    fn append(&self, py: Python<'_>, data: PyBuffer<u8>) -> PyResult<u64> {
        let file = self.0.get()?;
        let data = Bytes::from(data.to_vec(py)?);
        let append = async move { file.append(data).await.map_err(Failure::from) };
        self.0.engine().wait(py, append)
    }

    /// Sets the length, in bytes.
    fn truncate(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        let file = self.0.get()?;
        let cut = async move { file.set_len(length).await.map_err(Failure::from) };
        self.0.engine().wait(py, cut)
    }

    /// Brings all that was written to stable storage.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0.get()?;
        let sync = async move { file.sync().await.map_err(Failure::from) };
        self.0.engine().wait(py, sync)
    }

    /// Lets go of the file. With `sync`, all that was written is on stable storage then, or this raises; without, what is
    /// not there yet is given up.
    fn close(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        if !sync && !self.0.engine().is_ours() {
            // A forked child closes what it inherited, and that is nothing here.
            return Ok(());
        }
        let Some(file) = self.0.take()? else {
            return Ok(());
        };
        let close = async move {
            match sync {
                true => file.close().await.map_err(Failure::from),
                false => Ok(()),
            }
        };
        self.0.engine().wait(py, close)
    }
}

async fn read_piece(file: nfs_client::File, offset: u64, length: u64) -> Result<Bytes, Failure> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    Ok(file.read_at(offset, length).await?.data)
}

/// Fills `place` from `offset` on; how far, where the file ends before.
async fn fill(file: nfs_client::File, offset: u64, place: &mut [u8]) -> Result<usize, Failure> {
    let length = u64::try_from(place.len()).unwrap_or(u64::MAX);
    let mut stream = file.stream(offset).until(offset.saturating_add(length));
    let mut filled = 0;
    while let Some(data) = stream.next().await? {
        let Some(here) = place.get_mut(filled..filled + data.len()) else {
            break;
        };
        here.copy_from_slice(&data);
        filled += data.len();
    }
    Ok(filled)
}
