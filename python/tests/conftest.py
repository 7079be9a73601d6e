"""What the tests run on: real servers, and a closing line that counts as the project's other tests do."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Where the runner of the tests says that it has given them a network, a /run and processes of their own.
ALONE = "PENSTOCK_TESTS_ALONE"

#: Seconds that a server may take to answer.
READY_SECONDS = 30


class Penstock:
    """A ``penstock serve`` of its own, with its directory and state."""

    def __init__(self, directory: Path, config: Path | None = None):
        self.export = directory / "export"
        self.export.mkdir(parents=True)
        self.export.chmod(0o777)
        self._state = directory / "state"
        self._log_path = directory / "server.log"
        self._what = ["--config", str(config)] if config else [str(self.export)]
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self):
        program = os.environ.get("PENSTOCK_SERVER", str(ROOT / "target/debug/penstock"))
        command = [program, "serve", *self._what, "--listen", self._listen, "--state-dir", str(self._state)]
        self._log = open(self._log_path, "ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        first = self._process.stdout.readline().strip()
        assert first == "ready", f"{command} said {first!r} instead of ready: see {self._log_path}"
        # A server that starts again is found where it was.
        self._listen = self._process.stdout.readline().split()[1]

    def signal(self, number):
        self._process.send_signal(number)

    def stop(self):
        """Stops the server where it is; SIGCONT lets it go on. When this returns, none of its threads runs."""
        self.signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def kill(self):
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    @property
    def port(self):
        return int(self._listen.rpartition(":")[2])

    def options(self, version):
        return {"host": "127.0.0.1", "port": self.port, "version": version}


class Ganesha:
    """NFS-Ganesha on its usual ports, with the configuration that the project's other tests have (tests/lab)."""

    def __init__(self, directory: Path):
        self.export = directory / "export"
        self.export.mkdir(parents=True)
        self.export.chmod(0o777)
        (directory / "recovery").mkdir()
        for place in ("/run/rpcbind", "/run/ganesha"):
            Path(place).mkdir(exist_ok=True)
        config = directory / "ganesha.conf"
        config.write_text(
            f"""NFS_CORE_PARAM {{ NFS_Port = 2049; MNT_Port = 20048; Protocols = 3, 4; Enable_NLM = false;
  Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = false;
  Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha"; }}
NFSV4 {{ Graceless = true; Minor_Versions = 1; RecoveryRoot = "{directory}/recovery"; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = no_root_squash; SecType = sys, none; PrivilegedPort = false; }}
EXPORT {{ Export_Id = 1; Path = "{self.export}"; Pseudo = /; FSAL {{ Name = VFS; }} }}
"""
        )
        self._log = open(directory / "rpcbind.log", "ab")
        self._rpcbind = subprocess.Popen(["rpcbind", "-w", "-f"], stdout=self._log, stderr=self._log)
        _until(lambda: subprocess.run(["rpcinfo", "-p", "127.0.0.1"], capture_output=True).returncode == 0)
        command = ["ganesha.nfsd", "-F", "-f", str(config), "-L", str(directory / "ganesha.log")]
        self._process = subprocess.Popen([*command, "-p", str(directory / "ganesha.pid")], stdout=self._log, stderr=self._log)
        _until(lambda: self._answers())

    def _answers(self):
        assert self._process.poll() is None, "ganesha.nfsd has ended"
        try:
            return all(fsspec.filesystem("nfs", **self.options(version)).isdir(self.root(version)) for version in VERSIONS)
        except OSError:
            return False

    def kill(self):
        for process in (self._process, self._rpcbind):
            process.kill()
            process.wait()

    def root(self, version):
        """Where the export is in the server's name space."""
        return str(self.export) if version == "3" else "/"

    def options(self, version):
        return {"host": "127.0.0.1", "version": version, "timeout": 20}


def _until(holds):
    deadline = time.monotonic() + READY_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it does not come up"
        # A poll with a deadline rests between two looks.
        time.sleep(0.05)


VERSIONS = ("3", "4.1")


@pytest.fixture(scope="session")
def penstock(tmp_path_factory):
    server = Penstock(tmp_path_factory.mktemp("penstock"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def ganesha(tmp_path_factory):
    if shutil.which("ganesha.nfsd") is None or shutil.which("rpcbind") is None:
        pytest.skip("no NFS-Ganesha: install nfs-ganesha, nfs-ganesha-vfs and rpcbind")
    if ALONE not in os.environ:
        pytest.skip("NFS-Ganesha wants a network of its own: run `cargo xtask python` as root")
    server = Ganesha(tmp_path_factory.mktemp("ganesha"))
    yield server
    server.kill()


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def fs(penstock, version):
    return fsspec.filesystem("nfs", **penstock.options(version))


@pytest.fixture
def place(fs, request):
    """A directory of the test's own, on the server."""
    return _place(fs, "", request)


@pytest.fixture(params=("penstock", "ganesha"))
def anywhere(request, version):
    """A file system and a directory in it, on each server."""
    server = request.getfixturevalue(request.param)
    fs = fsspec.filesystem("nfs", **server.options(version))
    root = "" if request.param == "penstock" else server.root(version).rstrip("/")
    return fs, _place(fs, root, request)


def _place(fs, root, request):
    names = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    path = f"{root}/{names}"
    fs.makedirs(path)
    request.addfinalizer(lambda: fs.rm(path, recursive=True))
    return path


def pytest_terminal_summary(terminalreporter):
    """Says what did not pass, and counts: `cargo xtask` reads both."""
    stats = terminalreporter.stats
    for report in stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        print(f"SKIP: {report.nodeid}: {reason.removeprefix('Skipped: ')}", file=sys.stdout)
    failed = [*stats.get("failed", []), *stats.get("error", [])]
    for report in failed:
        print(f"FAIL {report.nodeid}", file=sys.stdout)
    passed, skipped = len(stats.get("passed", [])), len(stats.get("skipped", []))
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped", file=sys.stdout)
