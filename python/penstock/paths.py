"""Texts and bytes: URLs, paths, and the options in both.

A path is a ``str`` to fsspec and bytes to the server. Bytes that are not UTF-8 are lone surrogates in the ``str``, as in
Python's ``os`` (PEP 383), so that each name of a server has a ``str`` of its own and can be given back.
"""

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes

SCHEME = "nfs://"


def to_bytes(path: str) -> bytes:
    """The path as the server has it."""
    return path.encode("utf-8", "surrogateescape")


def to_str(path: bytes) -> str:
    """The path as fsspec has it."""
    return path.decode("utf-8", "surrogateescape")


def strip(path) -> str:
    """The path of a URL or path, from the root of the server's name space, without a ``/`` at its end.

    In a URL ``%XX`` is a byte, and a ``?`` begins the options; a path stands for itself.
    """
    path = os.fspath(path)
    if isinstance(path, bytes):
        path = to_str(path)
    if is_url(path):
        _, path, _ = split(path)
        path = to_str(unquote_to_bytes(to_bytes(path)))
    names = [name for name in path.split("/") if name not in ("", ".")]
    return "/" + "/".join(names)


def is_url(path: str) -> bool:
    """Whether the text is a URL, and not a path."""
    return path[: len(SCHEME)].lower() == SCHEME


def split(url: str) -> tuple[str, str, str]:
    """Host with port, path and options of a URL, as they are written."""
    place, _, options = url[len(SCHEME) :].partition("?")
    authority, slash, path = place.partition("/")
    return authority, slash + path, options


def options_of(url: str) -> dict[str, str]:
    """What a URL says of the file system that it is in: ``host``, ``port`` and the options, by Python's names."""
    if not is_url(url):
        return {}
    authority, _, options = split(url)
    host, port = authority, ""
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    elif authority.count(":") == 1:
        host, _, port = authority.partition(":")
    found = {"host": host} if host else {}
    if port:
        found["port"] = port
    for option in options.split("&") if options else []:
        name, _, value = option.partition("=")
        name = name.replace("-", "_")
        if name in found:
            raise ValueError(f"option {name!r} is given twice in the URL")
        found[name] = value
    return found


def url_of(host: str, port, options: dict, path: str = "/") -> str:
    """The URL of a path: the other way around."""
    host = f"[{host}]" if ":" in host else host
    authority = host if port is None else f"{host}:{port}"
    query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    path = quote_from_bytes(to_bytes(path), safe="/-_.~+,=@")
    return f"{SCHEME}{authority}{path}" + (f"?{query}" if query else "")
