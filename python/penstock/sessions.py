"""The sessions of this process: one for each server and set of options, shared by all file systems and threads.

fsspec makes an instance of a file system for each thread; they need no connection each.
"""

import atexit
import os
import threading
import traceback
import weakref

from ._native import Session

_lock = threading.Lock()
_sessions = weakref.WeakValueDictionary()
_writers = weakref.WeakSet()


def of(url):
    """The session of a URL."""
    with _lock:
        session = _sessions.get(url)
        if session is None:
            session = _sessions[url] = Session(url)
        return session


def watched(writer):
    """``writer``, which is closed when Python ends if nobody has done so before."""
    _writers.add(writer)
    return writer


def _after_fork():
    """The parent's sessions are the parent's, and so may be the lock."""
    global _lock, _sessions, _writers
    _lock = threading.Lock()
    _sessions = weakref.WeakValueDictionary()
    _writers = weakref.WeakSet()


def _at_exit():
    """Brings what was written to stable storage, as Python does with its own files, throws away what was to be committed and
    was not, and takes leave of the servers."""
    for writer in list(_writers):
        try:
            if writer.temporary is None:
                writer.close()
            else:
                writer.discard()
        except Exception:
            traceback.print_exc()
    for session in list(_sessions.values()):
        try:
            session.end()
        except OSError:
            # The server forgets us by itself when the lease is over.
            pass


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
