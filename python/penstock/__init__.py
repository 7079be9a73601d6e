"""NFS for Python: the file system ``nfs://`` of fsspec, over a client in user space that needs no mount.

``fsspec``, pandas, pyarrow and dask find it by its URLs; :class:`NFSFileSystem` is it by name.
"""

from .filesystem import NFSFileSystem

__all__ = ["NFSFileSystem"]
