//! A server of a directory of its own, for the client commands.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use super::{penstock, text};

/// A running `penstock serve`; killed if the test ends before it.
pub(crate) struct Served {
    child: Child,
    scratch: tempfile::TempDir,
    address: String,
    versions: Vec<String>,
}

/// Tests that run over NFSv3 run over NFSv4 as well, in a crate of another name.
fn is_over_v4() -> bool {
    env!("CARGO_CRATE_NAME").ends_with("_v4")
}

impl Served {
    /// A server of the version that the test is over.
    pub(crate) fn new() -> Self {
        match is_over_v4() {
            true => Self::serving(&["4.1", "4.2"]),
            false => Self::serving(&["3"]),
        }
    }

    /// A server that speaks these versions of NFS.
    pub(crate) fn serving(versions: &[&str]) -> Self {
        Self::exporting(versions, &["/"])
    }

    /// A server of these versions that exports its directory under each of these paths.
    pub(crate) fn exporting(versions: &[&str], pseudos: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let config = scratch.path().join("penstock.toml");
        let mut text = format!("[server]\nversions = {versions:?}\n");
        for pseudo in pseudos {
            text.push_str(&format!(
                "[[export]]\npath = {data:?}\npseudo = {pseudo:?}\nclients = [\"127.0.0.1\"]\n\
                 squash = \"none\"\n"
            ));
        }
        std::fs::write(&config, text).unwrap();
        let versions = versions.iter().map(|version| (*version).to_owned());
        let versions: Vec<_> = versions.collect();
        let (child, address) = started(scratch.path(), &versions, "127.0.0.1:0");
        Self {
            child,
            scratch,
            address,
            versions,
        }
    }

    /// Kills the server where it is, and starts it again at the same address.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let (child, address) = started(self.scratch.path(), &self.versions, &self.address);
        assert_eq!(address, self.address);
        self.child = child;
    }

    /// The path on this machine of `below` in the served directory.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.scratch.path().join("data").join(below)
    }

    /// The server's process.
    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.url_with(path, "")
    }

    /// A URL with more options, divided by `&`.
    pub(crate) fn url_with(&self, path: &str, options: &str) -> String {
        let version = if is_over_v4() { "version=4" } else { "" };
        let options = [version, options].into_iter();
        let options: Vec<&str> = options.filter(|one| !one.is_empty()).collect();
        let mark = if options.is_empty() { "" } else { "?" };
        format!("nfs://{}/{path}{mark}{}", self.address, options.join("&"))
    }

    /// Runs a command; an argument that begins with `@` is a path on the server, and becomes its URL.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let arguments = arguments
            .iter()
            .map(|argument| match argument.strip_prefix('@') {
                Some(path) => self.url(path),
                None => (*argument).to_owned(),
            });
        Ran(penstock().args(arguments).output().unwrap())
    }

    /// What `penstock ctl` says of this server.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        let state = self.scratch.path().join("state");
        let told = penstock()
            .arg("ctl")
            .arg("--state-dir")
            .arg(state)
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
        text(&told.stdout)
    }

    /// Runs a command that has to succeed, as [`Self::run`] does, and gives its output.
    fn output(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code(), 0, "{arguments:?}: {}", ran.errors());
        ran.output()
    }

    /// Runs a command that has to succeed, as [`Self::run`] does, and gives its output, the lines sorted.
    pub(crate) fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.output(arguments);
        let mut lines: Vec<String> = output.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Runs a command that has to succeed, as [`Self::run`] does: each line of its output is a JSON object,
    /// in the order of the output. Sorted as text they would be in that of their times, and of their numbers
    /// where those are equal.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let output = self.output(arguments);
        let objects = output.lines().map(serde_json::from_str);
        objects.collect::<Result<_, _>>().unwrap()
    }

    /// Runs a command that has to fail, and asserts the exit code and a part of the one message.
    pub(crate) fn fails(&self, arguments: &[&str], code: i32, message: &str) {
        let ran = self.run(arguments);
        let errors = ran.errors();
        assert_eq!(ran.code(), code, "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
        if code == 1 {
            assert!(errors.starts_with("penstock: "), "{arguments:?}: {errors}");
        }
    }
}

/// Starts a server of what is in `scratch`, and waits until it listens.
fn started(scratch: &Path, versions: &[String], listen: &str) -> (Child, String) {
    let mut command = penstock();
    command.arg("serve");
    match versions {
        [only] if only == "3" => command.arg(scratch.join("data")).args(["--versions", "3"]),
        _ => command.arg("--config").arg(scratch.join("penstock.toml")),
    };
    let mut child = command
        .args(["--listen", listen])
        .arg("--state-dir")
        .arg(scratch.join("state"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.find_map(|line| Some(line.unwrap().strip_prefix("listening ")?.to_owned()));
    (child, told.expect("a ready server says where it listens"))
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command printed, and how it ended.
pub(crate) struct Ran(Output);

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().expect("an exit code")
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.stdout
    }

    pub(crate) fn errors(&self) -> String {
        text(&self.0.stderr)
    }
}

/// A URL up to its options.
pub(crate) fn path_of(url: &str) -> &str {
    url.split_once('?').map_or(url, |(path, _)| path)
}

/// The permission bits of a local file, not following links.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o7777
}
