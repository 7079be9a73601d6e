"""Open files: Python's own buffers over the client's windows.

The client reads ahead of who reads in order and sends behind who writes. A file that was written is on stable storage
when ``close`` returns; ``close`` raises if it is not.
"""

import contextlib
import errno
import io
import os
import secrets

from .paths import to_bytes, to_str

#: Bytes of the buffer unless ``block_size`` says otherwise. It spares small reads and writes a call each; what is as long
#: as it goes past it.
BUFFER_BYTES = 64 * 1024

#: Bytes of one write that are handed over at once.
WRITE_BYTES = 4 * 1024 * 1024


class _Raw(io.RawIOBase):
    """A file without a buffer. ``mode`` is ``rb``, ``wb``, ``xb`` or ``ab``."""

    def __init__(self, native, path: str, mode: str):
        self._native = native
        self._place = 0
        self.name = path
        self.mode = mode

    def readable(self):
        return self.mode == "rb"

    def writable(self):
        return self.mode != "rb"

    def seekable(self):
        return self.mode != "ab"

    def tell(self):
        return self._place

    def seek(self, offset, whence=os.SEEK_SET):
        if not self.seekable():
            raise io.UnsupportedOperation("a file that is appended to has no other place than its end")
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._place}
        start = self._native.size() if whence == os.SEEK_END else begin.get(whence)
        if start is None:
            raise ValueError(f"whence is {whence}: give 0, 1 or 2")
        if start + offset < 0:
            raise ValueError("the place is before the start of the file")
        self._place = start + offset
        return self._place

    def readinto(self, buffer):
        if not self.readable():
            raise io.UnsupportedOperation("not opened for reading")
        got = self._native.readinto(self._place, memoryview(buffer).cast("B"))
        self._place += got
        return got

    def readall(self):
        if not self.readable():
            raise io.UnsupportedOperation("not opened for reading")
        parts = []
        # Somebody may write at the end meanwhile: the end is where nothing more comes.
        length = max(self._native.size() - self._place, BUFFER_BYTES)
        while part := self._native.read(self._place, length):
            self._place += len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data):
        if not self.writable():
            raise io.UnsupportedOperation("not opened for writing")
        part = memoryview(data).cast("B")[:WRITE_BYTES]
        if self.mode == "ab":
            self._place = self._native.append(part)
        else:
            self._native.write(self._place, part)
        self._place += len(part)
        return len(part)

    def truncate(self, size=None):
        if not self.writable():
            raise io.UnsupportedOperation("not opened for writing")
        size = self._place if size is None else size
        self._native.truncate(size)
        return size

    def close(self):
        if self.closed:
            return
        try:
            self._native.close(self.writable())
        finally:
            super().close()


class NFSReader(io.BufferedReader):
    """A file that is read. Reads in order have data on its way ahead of them."""

    def __init__(self, fs, path, native, buffer_bytes):
        super().__init__(_Raw(native, path, "rb"), buffer_bytes)
        self.fs = fs
        self.path = path
        self.blocksize = buffer_bytes
        self.size = native.size()

    def info(self):
        """What :meth:`NFSFileSystem.info` says of the file."""
        return self.fs.info(self.path)

    @property
    def details(self):
        """The same, as the files of fsspec have it."""
        return self.info()

    @property
    def full_name(self):
        """The URL of the file."""
        return self.fs.unstrip_protocol(self.path)

    def _fetch_range(self, start, end):
        # What the caches of fsspec read with.
        return self.raw._native.read(start, max(end - start, 0))

    def __reduce__(self):
        return _reopen, (self.fs, self.path, self.blocksize, self.tell())

    def __repr__(self):
        return f"<{type(self).__name__} {self.path!r}>"


def _reopen(fs, path, block_size, place):
    file = fs.open(path, "rb", block_size=block_size)
    file.seek(place)
    return file


class NFSWriter(io.BufferedWriter):
    """A file that is written.

    With ``autocommit`` it is the file of its path at once. Without, it has a name of its own beside it until
    :meth:`commit`, which a transaction of fsspec calls: who reads the path sees the old content or the new one.
    """

    def __init__(self, fs, path, mode, buffer_bytes, autocommit):
        self.fs = fs
        self.path = path
        self.autocommit = autocommit
        self.blocksize = buffer_bytes
        #: The name that the file has until it is committed.
        self.temporary = None if autocommit else _beside(path)
        self._is_whole = False
        self._native = None
        self._native = self._create(mode)
        super().__init__(_Raw(self._native, path, mode), buffer_bytes)

    def _create(self, mode):
        session, permissions = self.fs._session, self.fs._mode_of_file()
        place = to_bytes(self.temporary or self.path)
        if self.temporary and mode != "wb" and self.fs.exists(self.path):
            if mode == "xb":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
            session.copy(to_bytes(self.path), place, permissions)
        if mode == "xb" and not self.temporary:
            return session.create_new(place, permissions)
        native = session.create(place, permissions)
        if mode == "wb" and native.size():
            native.truncate(0)
        return native

    def sync(self):
        """Brings all that was written so far to stable storage."""
        self.flush()
        self._native.sync()

    def close(self):
        """Brings all that was written to stable storage.

        :raises OSError: it is not there.
        """
        # Python closes also what could not be made.
        if self._native is None or self.closed:
            return
        super().close()
        self._is_whole = True

    def commit(self):
        """Gives the file its path, where ``autocommit`` was not asked for."""
        if self.temporary is None:
            raise RuntimeError("the file has its path already: it was opened with autocommit")
        self.close()
        if not self._is_whole:
            raise OSError(errno.EIO, "not committed: what was written is not on stable storage", self.path)
        session, temporary, path = self.fs._session, to_bytes(self.temporary), to_bytes(self.path)
        if self.mode == "xb":
            # Of two that make the file, one does: a rename would replace the other's.
            session.link(temporary, path)
            session.remove(temporary)
        else:
            session.rename(temporary, path)
        self.temporary = None

    def discard(self):
        """Throws away what was written, where ``autocommit`` was not asked for."""
        if self.temporary is None:
            raise RuntimeError("the file has its path already: it was opened with autocommit")
        if not self.closed:
            self._native.close(False)
            # What is still in the buffer has nowhere to go.
            with contextlib.suppress(ValueError):
                super().close()
        self.fs._session.remove(to_bytes(self.temporary))
        self.temporary = None

    @property
    def full_name(self):
        """The URL of the file."""
        return self.fs.unstrip_protocol(self.path)

    def __repr__(self):
        return f"<{type(self).__name__} {self.path!r}>"


def _beside(path: str) -> str:
    """A name in the same directory that nobody has, short enough for every file system."""
    directory, _, name = path.rpartition("/")
    kept = to_str(to_bytes(name)[:200])
    return f"{directory}/.{kept}.{secrets.token_hex(8)}.tmp"
