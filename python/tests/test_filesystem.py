"""Names, errors, URLs and processes."""

import errno
import os
import pickle
import stat
import subprocess
import sys
import textwrap
import threading

import fsspec
import pytest
from conftest import Penstock


def test_errors_have_their_classes_and_numbers(fs, place):
    fs.pipe_file(f"{place}/file", b"x")
    fs.mkdir(f"{place}/full/below")
    table = [
        (FileNotFoundError, errno.ENOENT, lambda: fs.info(f"{place}/none")),
        (FileNotFoundError, errno.ENOENT, lambda: fs.open(f"{place}/none", "rb")),
        (FileNotFoundError, errno.ENOENT, lambda: fs.open(f"{place}/none/file", "wb")),
        (FileNotFoundError, errno.ENOENT, lambda: fs.ls(f"{place}/none")),
        (FileNotFoundError, errno.ENOENT, lambda: fs.rm(f"{place}/none", recursive=True)),
        (FileExistsError, errno.EEXIST, lambda: fs.mkdir(f"{place}/full")),
        (FileExistsError, errno.EEXIST, lambda: fs.mkdir(f"{place}/full", create_parents=False)),
        (FileExistsError, errno.EEXIST, lambda: fs.makedirs(f"{place}/full")),
        (FileExistsError, errno.EEXIST, lambda: fs.open(f"{place}/file", "xb")),
        (NotADirectoryError, errno.ENOTDIR, lambda: fs.makedirs(f"{place}/file/below")),
        (NotADirectoryError, errno.ENOTDIR, lambda: fs.rmdir(f"{place}/file")),
        (NotADirectoryError, errno.ENOTDIR, lambda: fs.info(f"{place}/file/below")),
        (IsADirectoryError, errno.EISDIR, lambda: fs.open(f"{place}/full", "rb")),
        (IsADirectoryError, errno.EISDIR, lambda: fs.rm(f"{place}/full/below")),
        (OSError, errno.ENOTEMPTY, lambda: fs.rmdir(f"{place}/full")),
        (OSError, errno.ENAMETOOLONG, lambda: fs.touch(f"{place}/{'n' * 300}")),
        (OSError, errno.EINVAL, lambda: fs.info(f"{place}/../other")),
        (OSError, errno.EINVAL, lambda: fs.cp_file(f"{place}/file", f"{place}/file")),
    ]
    for kind, number, call in table:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.errno == number, caught.value
    assert fs.cat_file(f"{place}/file") == b"x"
    assert fs.isdir(f"{place}/full/below")
    with pytest.raises(ValueError):
        fs.open(f"{place}/file", "r+b")


def test_permission_is_asked_of_the_server(penstock, version, fs, place):
    if os.geteuid() != 0:
        pytest.skip("only root may act for other users")
    fs.pipe_file(f"{place}/secret", b"x")
    fs.chmod(f"{place}/secret", 0o600)
    stranger = fsspec.filesystem("nfs", uid=4711, gid=4711, **penstock.options(version))
    with pytest.raises(PermissionError):
        stranger.cat_file(f"{place}/secret")
    with pytest.raises(PermissionError):
        stranger.pipe_file(f"{place}/mine", b"x")
    read_only = fsspec.filesystem("nfs", readonly=True, **penstock.options(version))
    with pytest.raises(OSError) as caught:
        read_only.touch(f"{place}/new")
    assert caught.value.errno == errno.EROFS


def test_a_server_that_does_not_answer_is_an_error_and_not_an_absence(penstock, version):
    nobody = {**penstock.options(version), "port": 1, "timeout": 1}
    fs = fsspec.filesystem("nfs", **nobody)
    for call in (fs.exists, fs.isdir, fs.isfile, fs.find):
        with pytest.raises(ConnectionRefusedError):
            call("/file")


def test_names_of_any_bytes(penstock, fs, place):
    names = ["plain", "with space", "ü", "a\udcff\udc80b", "per%20cent", "new\nline", "que?ry#"]
    for name in names:
        fs.pipe_file(f"{place}/{name}", name.encode("utf-8", "surrogateescape"))
    assert fs.ls(place, detail=False) == sorted((f"{place}/{name}" for name in names), key=os.fsencode)
    assert set(fs.find(place)) == {f"{place}/{name}" for name in names}
    on_disk = set(os.listdir(os.fsencode(str(penstock.export) + place)))
    assert on_disk == {os.fsencode(name) for name in names}
    for name in names:
        url = fs.unstrip_protocol(f"{place}/{name}")
        assert fs._strip_protocol(url) == f"{place}/{name}"
        with fsspec.open(url, "rb") as file:
            assert os.fsdecode(file.read()) == name
    fs.rm(f"{place}/a\udcff\udc80b")
    assert not fs.exists(f"{place}/a\udcff\udc80b")


def test_urls_have_the_options(penstock):
    url = f"nfs://127.0.0.1:{penstock.port}/a%20b//c/?version=4.1&uid=7&readdir-buffer=8192"
    fs, path = fsspec.url_to_fs(url)
    assert (path, fs.host, str(fs.port)) == ("/a b/c", "127.0.0.1", str(penstock.port))
    assert fs.options == {"version": "4.1", "uid": "7", "readdir_buffer": "8192"}
    assert fs.unstrip_protocol(path) == (
        f"nfs://127.0.0.1:{penstock.port}/a%20b/c?version=4.1&uid=7&readdir-buffer=8192"
    )
    # fsspec takes the `::` of an address for its own; `host` does not.
    six = fsspec.filesystem("nfs", host="fe80::1%eth0", port=2049)
    assert six._get_kwargs_from_urls(six.unstrip_protocol("/x")) == {"host": "fe80::1%eth0", "port": "2049"}
    for wrong in ("nfs:///x", "nfs://h/x?verzion=4", "nfs://h/x?version=5", "nfs://h/x?uid=1&uid=2", "nfs://h/a?b.parquet"):
        with pytest.raises(ValueError):
            fsspec.url_to_fs(wrong)
    for injected in ({"host": "h/?uid=0"}, {"host": "h", "version": "4.1&uid=0"}, {"host": "h", "port": "1?uid=0"}):
        with pytest.raises(ValueError):
            fsspec.filesystem("nfs", **injected)


def test_info_is_what_the_server_s_disk_says(penstock, fs, place):
    fs.pipe_file(f"{place}/file", b"12345")
    fs.chmod(f"{place}/file", 0o640)
    info = fs.info(f"{place}/file")
    real = os.stat(str(penstock.export) + f"{place}/file")
    assert (info["name"], info["type"], info["size"]) == (f"{place}/file", "file", 5)
    assert (info["mode"], info["uid"], info["gid"]) == (stat.S_IFREG | 0o640, real.st_uid, real.st_gid)
    assert (info["ino"], info["nlink"], info["islink"]) == (real.st_ino, 1, False)
    assert info["mtime"] == pytest.approx(real.st_mtime, abs=1e-5)
    assert fs.modified(f"{place}/file").timestamp() == pytest.approx(real.st_mtime, abs=1e-5)
    assert fs.ls(place) == [info] == fs.ls(f"{place}/file")
    assert fs.find(place, detail=True) == {f"{place}/file": info}
    before = info["mtime"]
    os.utime(str(penstock.export) + f"{place}/file", (1, 1))
    fs.touch(f"{place}/file", truncate=False)
    assert fs.info(f"{place}/file")["mtime"] >= before
    assert fs.cat_file(f"{place}/file") == b"12345"


def test_symbolic_links(fs, place):
    fs.mkdir(f"{place}/dir")
    fs.pipe_file(f"{place}/dir/file", b"123")
    fs.symlink("dir/file", f"{place}/to-file")
    fs.symlink("dir", f"{place}/to-dir")
    fs.symlink("..", f"{place}/dir/loop")
    fs.symlink("nowhere", f"{place}/dangling")
    told = {entry["name"].rpartition("/")[2]: (entry["type"], entry["size"]) for entry in fs.ls(place) if entry["islink"]}
    assert told["to-file"] == ("file", 3)
    assert told["to-dir"][0] == "other"
    assert told["dangling"] == ("other", 0)
    assert fs.isdir(f"{place}/to-dir") and fs.islink(f"{place}/to-dir")
    assert fs.info(f"{place}/to-file")["destination"] == "dir/file"
    assert fs.lexists(f"{place}/dangling") and not fs.exists(f"{place}/dangling")
    # Nobody walks in circles, and nobody removes what is outside.
    assert len(fs.find(place, withdirs=True)) == 7
    fs.rm(f"{place}/to-dir", recursive=True)
    assert fs.cat_file(f"{place}/dir/file") == b"123"


def test_a_tree_is_found_as_the_walk_of_fsspec_finds_it(fs, place):
    for path in ("a/b/c/file", "a/b/other", "a/last", "z"):
        fs.makedirs(f"{place}/{path.rpartition('/')[0]}", exist_ok=True)
        fs.pipe_file(f"{place}/{path}", path.encode())
    base = super(type(fs), fs)
    for maxdepth in (None, 1, 2, 3):
        for withdirs in (False, True):
            found = fs.find(place, maxdepth=maxdepth, withdirs=withdirs)
            assert found == base.find(place, maxdepth=maxdepth, withdirs=withdirs), (maxdepth, withdirs)
    assert fs.du(place) == len("a/b/c/filea/b/othera/lastz")
    assert fs.find(f"{place}/z") == [f"{place}/z"]
    assert fs.find(f"{place}/none") == []
    assert fs.glob(f"{place}/**/o*") == [f"{place}/a/b/other"]


def test_move(fs, place):
    fs.pipe({f"{place}/one": b"1", f"{place}/two": b"2"})
    fs.mkdir(f"{place}/dir")
    fs.mv(f"{place}/one", f"{place}/two")
    assert fs.cat_file(f"{place}/two") == b"1" and not fs.exists(f"{place}/one")
    fs.mv(f"{place}/two", f"{place}/dir")
    fs.mv(f"{place}/dir", f"{place}/new")
    assert fs.find(place) == [f"{place}/new/two"]
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{place}/none", f"{place}/x")


def test_exports_are_directories(tmp_path, version):
    for name in ("one", "two"):
        # Root is nobody there, as in each export that does not say otherwise.
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
        (tmp_path / name / "file").write_text(name)
    exports = "".join(
        f'[[export]]\npath = "{tmp_path}/{name}"\npseudo = "/srv/{name}"\nclients = ["127.0.0.0/8"]\n' for name in ("one", "two")
    )
    config = tmp_path / "config.toml"
    config.write_text(exports)
    server = Penstock(tmp_path / "server", config)
    try:
        fs = fsspec.filesystem("nfs", **server.options(version))
        assert fs.ls("/", detail=False) == ["/srv"]
        assert fs.ls("/srv", detail=False) == ["/srv/one", "/srv/two"]
        assert fs.isdir("/srv") and not fs.exists("/srv/three")
        assert fs.cat(fs.find("/")) == {"/srv/one/file": b"one", "/srv/two/file": b"two"}
        with pytest.raises(OSError):
            fs.pipe_file("/srv/new", b"")
        fs.mv("/srv/one/file", "/srv/two/moved")
        assert fs.find("/") == ["/srv/two/file", "/srv/two/moved"]
    finally:
        server.kill()


def test_threads_share_a_connection_and_do_not_wait_for_each_other(penstock, version, fs, place):
    fs.pipe_file(f"{place}/file", bytes(1 << 20))
    seen = []

    def look():
        own = fsspec.filesystem("nfs", **penstock.options(version))
        seen.append((own, own.cat_file(f"{place}/file")))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(data == bytes(1 << 20) for _, data in seen)
    assert {id(own._session) for own, _ in seen} == {id(fs._session)}


def test_pickles(fs, place):
    fs.pipe_file(f"{place}/file", b"0123456789")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(f"{place}/file") == b"0123456789"
    with fs.open(f"{place}/file", "rb") as file:
        file.seek(4)
        with pickle.loads(pickle.dumps(file)) as other:
            assert other.read() == b"456789"


def test_a_forked_child_connects_anew_and_leaves_open_files_alone(fs, place):
    fs.pipe_file(f"{place}/file", b"content")
    reader = fs.open(f"{place}/file", "rb")
    writer = fs.open(f"{place}/half", "wb")
    writer.write(b"x" * 100_000)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert fs.cat_file(f"{place}/file") == b"content"
            fs.pipe_file(f"{place}/child", b"of the child")
            for call in (lambda: reader.read(1), lambda: writer.write(b"y" * 100_000), writer.sync):
                try:
                    call()
                except OSError as error:
                    assert error.errno == errno.EBADF, error
                else:
                    raise AssertionError("the child used what its parent opened")
            reader.close()
            code = 0
        finally:
            # Without the tests' own end, which is the parent's.
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.read() == b"content"
    writer.close()
    reader.close()
    assert fs.cat_file(f"{place}/half") == b"x" * 100_000
    assert fs.cat_file(f"{place}/child") == b"of the child"


def test_what_nobody_closed_is_there_when_python_has_ended(penstock, version, fs, place):
    program = f"""
        import fsspec
        fs = fsspec.filesystem("nfs", **{penstock.options(version)!r})
        forgotten = fs.open("{place}/forgotten", "wb")
        forgotten.write(b"x" * 100_000)
        fs.start_transaction()
        uncommitted = fs.open("{place}/uncommitted", "wb")
        uncommitted.write(b"y")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert fs.cat(fs.find(place)) == {f"{place}/forgotten": b"x" * 100_000}
