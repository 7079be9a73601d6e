"""The file system ``nfs://`` of fsspec."""

import errno
import os
import stat
from datetime import datetime, timezone
from glob import has_magic

from fsspec.spec import AbstractFileSystem

from . import paths, sessions
from .file import BUFFER_BYTES, NFSReader, NFSWriter
from .paths import to_bytes, to_str

#: What fsspec means for itself among the options of a file system.
_OF_FSSPEC = {"use_listings_cache", "listings_expiry_time", "max_paths", "asynchronous", "loop"}

#: What :meth:`NFSFileSystem.info` has besides the name, in the order of the Rust part.
_KEYS = ("type", "size", "mode", "uid", "gid", "mtime", "created", "ino", "nlink")


class NFSFileSystem(AbstractFileSystem):
    """Files of an NFS server: NFSv3, 4.1 and 4.2.

    :param host: the server's name or address
    :param port: the NFS port; without it 2049, or what the host's portmapper says
    :param version: ``3``, ``4.1``, ``4.2``, or ``4`` for the newest of NFSv4 that both sides speak; without it 3
    :param uid: whom the calls are made as; without it this process
    :param gid: its group
    :param auto_mkdir: whether directories above a file that is opened for writing are made where they are missing
    :param options: all others that an ``nfs://`` URL of Penstock takes, with ``_`` for ``-``: ``mountport``, ``nconnect``,
        ``rsize``, ``wsize``, ``readdir_buffer``, ``hint``, ``timeout``, ``timeo``, ``retrans``, ``readonly``, ...

    Paths are those of the server's name space, the export's own path in front. Nothing is cached: each call asks the
    server. Instances may be used by several threads, and after a fork: the child connects anew. Files that are open then
    are the parent's.
    """

    protocol = "nfs"
    root_marker = "/"

    def __init__(self, host=None, port=None, auto_mkdir=False, **options):
        if self._cached:
            return
        super().__init__(**{name: options.pop(name) for name in _OF_FSSPEC & options.keys()})
        if not host:
            raise ValueError("no host: write nfs://HOST/PATH, or give host=")
        self.host = host
        self.port = port
        self.auto_mkdir = auto_mkdir
        self.options = {name: _text(name, value) for name, value in options.items() if value is not None}
        for part in (host, "" if port is None else str(port)):
            if set(part) & set("/?#@&"):
                raise ValueError(f"{part!r} is not a host or port")
        self._url = paths.url_of(host, port, self.options)
        self._made = sessions.of(self._url)

    @property
    def _session(self):
        """The Rust part, which is this process's."""
        if not self._made.is_ours():
            self._made = sessions.of(self._url)
        return self._made

    @property
    def fsid(self):
        """The server."""
        return paths.url_of(self.host, self.port, {}, "")

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, (list, tuple, set)):
            return [cls._strip_protocol(one) for one in path]
        return paths.strip(path)

    @staticmethod
    def _get_kwargs_from_urls(path):
        return paths.options_of(path)

    def unstrip_protocol(self, name):
        """The URL of a path, with the options of this file system."""
        if paths.is_url(name):
            return name
        return paths.url_of(self.host, self.port, self.options, paths.strip(name))

    # Looking

    def info(self, path, **kwargs):
        """What the server says of a file. Symbolic links are followed: ``islink`` and ``destination`` tell of them."""
        path = self._strip_protocol(path)
        return _details(path, self._session.stat(to_bytes(path)))

    def ls(self, path, detail=True, **kwargs):
        """What is in a directory, by name. A symbolic link to a directory is ``other`` here, so that nobody who walks a tree
        goes through it."""
        path = self._strip_protocol(path)
        listed = self._session.list(to_bytes(path))
        if listed is None:
            found = [self.info(path)]
        else:
            found = [_details(_join(path, name), told) for name, told in listed]
        return found if detail else [entry["name"] for entry in found]

    def find(self, path, maxdepth=None, withdirs=False, detail=False, **kwargs):
        """All files below a path, in the order of their names; many directories are asked for at once."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth is at least 1")
        path = self._strip_protocol(path)
        try:
            info = self.info(path)
        except FileNotFoundError:
            return {} if detail else []
        if not info["ino"]:
            # Above the exports, where each is a tree of its own.
            return super().find(path, maxdepth, withdirs, detail, **kwargs)
        found = {path: info} if withdirs or info["type"] != "directory" else {}
        if info["type"] == "directory":
            strict = kwargs.get("on_error") == "raise"
            for below, told in self._session.tree(to_bytes(path), maxdepth, strict):
                if withdirs or told[0] != "directory":
                    name = _join(path, below)
                    found[name] = _details(name, told)
        found = dict(sorted(found.items()))
        return found if detail else list(found)

    def du(self, path, total=True, maxdepth=None, withdirs=False, **kwargs):
        """The lengths of all files below a path, or their sum."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes = {name: entry["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def exists(self, path, **kwargs):
        """Whether there is something. A server that does not answer is an error here, and not an answer."""
        entry = self._info_if_there(path)
        return entry is not None and not stat.S_ISLNK(entry["mode"])

    def lexists(self, path, **kwargs):
        """Whether there is something, if only a symbolic link that leads nowhere."""
        return self._info_if_there(path) is not None

    def isdir(self, path):
        """Whether the path leads to a directory."""
        entry = self._info_if_there(path)
        return entry is not None and entry["type"] == "directory"

    def isfile(self, path):
        """Whether the path leads to a regular file."""
        entry = self._info_if_there(path)
        return entry is not None and entry["type"] == "file"

    def islink(self, path):
        """Whether the path is a symbolic link."""
        entry = self._info_if_there(path)
        return entry is not None and entry["islink"]

    def _info_if_there(self, path):
        try:
            return self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def created(self, path):
        """When the file or its attributes changed last: NFSv3 does not know when a file was made."""
        return datetime.fromtimestamp(self.info(path)["created"], tz=timezone.utc)

    def modified(self, path):
        """When the content changed last."""
        return datetime.fromtimestamp(self.info(path)["mtime"], tz=timezone.utc)

    # Changing names

    def mkdir(self, path, create_parents=True, **kwargs):
        """Makes a directory, with those above it that are missing unless ``create_parents`` is false."""
        path = self._strip_protocol(path)
        if create_parents:
            self.makedirs(path)
        else:
            self._session.mkdir(to_bytes(path), 0o777 & ~_umask())

    def makedirs(self, path, exist_ok=False):
        """Makes a directory and those above it that are missing."""
        path = self._strip_protocol(path)
        made = self._session.make_dirs(to_bytes(path), 0o777 & ~_umask())
        if not (made or exist_ok):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def rmdir(self, path):
        """Removes an empty directory."""
        self._session.rmdir(to_bytes(self._strip_protocol(path)))

    def rm_file(self, path):
        """Removes a file; a symbolic link itself."""
        self._session.remove(to_bytes(self._strip_protocol(path)))

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        """Removes files, and directories with all that is in them where ``recursive`` is true."""
        if maxdepth is not None:
            raise NotImplementedError("rm takes no maxdepth: what is deeper would keep its directories from being removed")
        removed = None
        for one in self.expand_path(path):
            if removed is not None and one.startswith(removed + "/"):
                continue
            if recursive:
                self._session.remove_tree(to_bytes(one))
                removed = one
            else:
                self.rm_file(one)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        """Renames, into ``path2`` where that is a directory; copies and removes between two exports."""
        if not isinstance(path1, (str, os.PathLike)) or has_magic(os.fspath(path1)):
            return super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(target) and source != target:
            target = _join(target, to_bytes(source.rpartition("/")[2]))
        try:
            self._session.rename(to_bytes(source), to_bytes(target))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    def cp_file(self, path1, path2, **kwargs):
        """Copies a file; missing directories above ``path2`` are made. On stable storage when this returns."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            return self.makedirs(target, exist_ok=True)
        try:
            self._copy(source, target)
        except FileNotFoundError:
            self.makedirs(self._parent(target), exist_ok=True)
            self._copy(source, target)

    def _copy(self, source, target):
        self._session.copy(to_bytes(source), to_bytes(target), self._mode_of_file())

    def link(self, src, dst, **kwargs):
        """Gives a file a further name."""
        self._session.link(to_bytes(self._strip_protocol(src)), to_bytes(self._strip_protocol(dst)))

    def symlink(self, src, dst, **kwargs):
        """Makes a symbolic link at ``dst`` that points to ``src``, which is taken as it is."""
        self._session.symlink(to_bytes(os.fspath(src)), to_bytes(self._strip_protocol(dst)))

    def chmod(self, path, mode):
        """Sets the permission bits."""
        self._session.chmod(to_bytes(self._strip_protocol(path)), mode)

    def touch(self, path, truncate=True, **kwargs):
        """Makes an empty file; of one that is there, the content goes, or with ``truncate=False`` the times are set."""
        if truncate or not self.exists(path):
            with self.open(path, "wb", **kwargs):
                pass
        else:
            self._session.touch(to_bytes(self._strip_protocol(path)))

    # Content

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        buffer_bytes = max(int(block_size), 1) if block_size not in (None, "default") else BUFFER_BYTES
        if mode == "rb":
            return NFSReader(self, path, self._session.open(to_bytes(path)), buffer_bytes)
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r} is not one of rb, wb, xb and ab")
        if self.auto_mkdir:
            self.makedirs(self._parent(path), exist_ok=True)
        return sessions.watched(NFSWriter(self, path, mode, buffer_bytes, autocommit))

    @staticmethod
    def _mode_of_file():
        return 0o666 & ~_umask()

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        """Sets the content of a file; with ``mode="create"`` it must not be there yet."""
        with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
            file.write(value)

    def cat_file(self, path, start=None, end=None, **kwargs):
        """The content of a file, or of the part from ``start`` to ``end``."""
        with self.open(path, "rb") as file:
            start, end = _within(start, end, lambda: file.size)
            file.seek(start)
            return file.read() if end is None else file.read(max(end - start, 0))

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """Parts of files, side by side."""
        if not isinstance(paths, list):
            raise TypeError("paths are given as a list")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("there are as many starts and ends as paths")
        ranges = []
        for path, start, end in zip(paths, starts, ends):
            path = self._strip_protocol(path)
            start, end = _within(start, end, lambda: self.size(path), always=True)
            ranges.append((to_bytes(path), start, max(end, start)))
        parts = self._session.read_ranges(ranges)
        if on_error == "raise":
            for part in parts:
                if isinstance(part, BaseException):
                    raise part
        return parts


def _details(name, told):
    """What fsspec is told of a file."""
    details = dict(zip(_KEYS, told), name=name)
    destination = told[len(_KEYS)]
    details["islink"] = destination is not None
    if destination is not None:
        details["destination"] = to_str(destination)
    return details


def _join(directory, below):
    return f"{'' if directory == '/' else directory}/{to_str(below)}"


def _within(start, end, size, always=False):
    """Start and end of a part as places in the file: below 0, or not given, they count from its end."""
    start = start or 0
    if start < 0 or (end is not None and end < 0) or (always and end is None):
        size = size()
        start = max(size + start, 0) if start < 0 else start
        end = size if end is None else size + end if end < 0 else end
    return start, end


def _text(name, value):
    """The value of an option, as a URL has it."""
    value = str(int(value) if isinstance(value, bool) else value)
    if set(value) & set("&#?"):
        raise ValueError(f"{value!r} is no value of the option {name}")
    return value


def _umask():
    """This process's umask, which cannot be asked for without setting it, but by /proc; 022 where there is none."""
    try:
        with open("/proc/self/status", encoding="utf-8") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):
        return 0o022
