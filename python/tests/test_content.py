"""What is read and written, and what is promised of it."""

import errno
import gc
import io
import random
import signal
import sys
import threading

import fsspec
import pytest
from conftest import Penstock


def test_reads_and_seeks_as_a_file_of_python_does(fs, place):
    content = random.Random(1).randbytes(3_000_000)
    fs.pipe_file(f"{place}/file", content)
    dice = random.Random(2)
    model = io.BytesIO(content)
    with fs.open(f"{place}/file", "rb", block_size=10_000) as file:
        assert file.size == len(content)
        for _ in range(300):
            match dice.randrange(5):
                case 0:
                    offset = dice.randrange(len(content) + 1000)
                    assert file.seek(offset) == model.seek(offset)
                case 1:
                    offset = -dice.randrange(len(content))
                    assert file.seek(offset, 2) == model.seek(offset, 2)
                case 2:
                    assert file.readline() == model.readline()
                case 3:
                    one, other = bytearray(dice.randrange(40_000)), bytearray()
                    got = file.readinto(one)
                    other = model.read(len(one))
                    assert bytes(one[:got]) == other
                case 4:
                    length = dice.randrange(100_000)
                    assert file.read(length) == model.read(length)
            assert file.tell() == model.tell()
        file.seek(17)
        assert file.read() == content[17:]
        assert file.read() == b""
    with pytest.raises(ValueError):
        file.read(1)


def test_ranges(fs, place):
    content = random.Random(3).randbytes(18_000_000)
    fs.pipe_file(f"{place}/file", content)
    size = len(content)
    table = [(None, None), (0, 0), (5, 5), (9, 3), (0, 1), (1, size - 1), (-10, None), (None, -10), (-20, -10), (size, None)]
    table += [(size - 1, size + 100), (size + 5, size + 9), (100, 17_900_000), (-2 * size, 10)]
    for start, end in table:
        expected = content[start:end]
        assert fs.cat_file(f"{place}/file", start, end) == expected, (start, end)
    starts, ends = zip(*table)
    parts = fs.cat_ranges([f"{place}/file"] * len(table), list(starts), list(ends))
    assert parts == [content[start:end] for start, end in table]
    parts = fs.cat_ranges([f"{place}/file", f"{place}/none"], [0, 0], [4, 4])
    assert parts[0] == content[:4] and isinstance(parts[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{place}/none"], 0, 4, on_error="raise")


def test_beyond_four_gib(fs, place):
    far = 5 << 30
    with fs.open(f"{place}/sparse", "wb") as file:
        file.seek(far)
        file.write(b"the end")
    assert fs.size(f"{place}/sparse") == far + 7
    assert fs.cat_file(f"{place}/sparse", far - 2, far + 3) == b"\0\0the"
    assert fs.cat_file(f"{place}/sparse", start=-3) == b"end"


def test_writes_of_all_sizes(fs, place):
    dice = random.Random(4)
    parts = [dice.randbytes(dice.choice([0, 1, 100, 70_000, 5_000_000])) for _ in range(40)]
    with fs.open(f"{place}/file", "wb") as file:
        for part in parts:
            assert file.write(memoryview(part)) == len(part)
        file.sync()
    assert fs.cat_file(f"{place}/file") == b"".join(parts)
    with fs.open(f"{place}/file", "ab") as file:
        assert file.write(b"more") == 4
    assert fs.tail(f"{place}/file", 4) == b"more"
    with fs.open(f"{place}/file", "w", encoding="utf-8") as file:
        file.write("one\nzwei\n")
    assert fs.read_text(f"{place}/file").splitlines() == ["one", "zwei"]


def test_a_transaction_shows_all_or_nothing(fs, place):
    fs.pipe_file(f"{place}/old", b"old")
    with fs.transaction:
        fs.pipe_file(f"{place}/old", b"new")
        with fs.open(f"{place}/appended", "ab") as file:
            file.write(b"a")
        assert fs.cat_file(f"{place}/old") == b"old"
        assert not fs.exists(f"{place}/appended")
    assert fs.cat(fs.find(place)) == {f"{place}/old": b"new", f"{place}/appended": b"a"}
    with pytest.raises(RuntimeError, match="on purpose"):
        with fs.transaction:
            fs.pipe_file(f"{place}/old", b"never")
            fs.open(f"{place}/left open", "wb").write(b"x")
            raise RuntimeError("on purpose")
    assert fs.cat(fs.find(place)) == {f"{place}/old": b"new", f"{place}/appended": b"a"}


def test_of_two_that_make_a_file_one_does(fs, place):
    with pytest.raises(FileExistsError):
        with fs.transaction:
            with fs.open(f"{place}/mine", "xb") as file:
                file.write(b"mine")
            fs._session.create_new(f"{place}/mine".encode(), 0o600).close(True)
    assert fs.cat(fs.find(place)) == {f"{place}/mine": b""}


def test_a_server_that_is_killed_while_a_file_is_written(tmp_path, version):
    server = Penstock(tmp_path)
    try:
        fs = fsspec.filesystem("nfs", timeout=60, **server.options(version))
        content = random.Random(5).randbytes(24 << 20)
        file = fs.open("/file", "wb")
        file.write(content[: 8 << 20])
        server.kill()
        restarted = threading.Thread(target=server.start)
        restarted.start()
        file.write(content[8 << 20 :])
        file.close()
        restarted.join()
        # What the server took and had not yet on its disk when it died was sent again.
        assert (server.export / "file").read_bytes() == content
        fs._session.end()
    finally:
        server.kill()


def test_close_raises_where_the_data_is_not_safe(tmp_path, version):
    server = Penstock(tmp_path)
    try:
        fs = fsspec.filesystem("nfs", timeout=2, **server.options(version))
        file = fs.open("/file", "wb")
        file.write(bytes(100_000))
        with fs.transaction:
            pending = fs.open("/pending", "wb")
            pending.write(bytes(100_000))
            fs.transaction.files.clear()
    finally:
        server.kill()
    with pytest.raises(OSError) as caught:
        file.close()
    assert caught.value.errno in (errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET)
    assert file.closed
    with pytest.raises(OSError):
        pending.close()
    with pytest.raises(OSError, match="not committed"):
        pending.commit()


def test_a_signal_ends_what_waits(penstock, version):
    fs = fsspec.filesystem("nfs", timeout=600, **penstock.options(version))
    fs.info("/")
    penstock.stop()

    def interrupted(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            fs.info("/")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        penstock.signal(signal.SIGCONT)
    assert fs.isdir("/")


def test_what_could_not_be_opened_leaves_nothing_behind(fs, place):
    heard = []
    before = sys.unraisablehook
    sys.unraisablehook = heard.append
    try:
        for mode in ("wb", "xb", "ab", "rb"):
            with pytest.raises(FileNotFoundError):
                fs.open(f"{place}/none/file", mode)
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert heard == []
