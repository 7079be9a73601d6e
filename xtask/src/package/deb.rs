//! The Debian packages: the program with all that belongs to it, and its debug symbols.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::build::Program;
use super::staging::{self, Facts, Layout};

/// Scripts that dpkg runs before and after it installs and removes.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Its configuration, which is the administrator's from then on.
const CONFIGURATION: &str = "etc/penstock/penstock.toml";

/// Makes `penstock_VERSION_ARCHITECTURE.deb`, and `penstock-dbgsym_VERSION_ARCHITECTURE.deb`.
///
/// # Errors
/// A tool is missing, or a file cannot be written.
pub(super) fn make(
    root: &Path,
    facts: &Facts,
    program: &Program,
    output: &Path,
) -> Result<Vec<PathBuf>> {
    let architecture = architecture(&program.processor)?;
    let work = output.join("deb");
    let (own, symbols) = (work.join("penstock"), work.join("penstock-dbgsym"));
    staging::empty(&work)?;
    let layout = Layout {
        top: own.clone(),
        prefix: "usr",
        program: "/usr/bin/penstock",
    };
    layout.fill(root, program)?;
    program.split(
        &layout.at("bin/penstock"),
        &symbols_place(&symbols, program)?,
    )?;
    // mount(8) looks for `mount -t fuse.penstock` here.
    let helper = own.join("usr/sbin/mount.fuse.penstock");
    std::fs::create_dir_all(own.join("usr/sbin"))?;
    std::os::unix::fs::symlink("../bin/penstock", helper)?;
    let copyright = std::fs::read(root.join("packaging/debian/copyright"))?;
    for (tree, name) in [(&own, "penstock"), (&symbols, "penstock-dbgsym")] {
        let place = tree.join("usr/share/doc").join(name).join("copyright");
        staging::write(&place, &copyright)?;
    }
    let configuration = std::fs::read(root.join("packaging/penstock.toml"))?;
    staging::write(&own.join(CONFIGURATION), &configuration)?;

    let depends = depends(&work, &layout.at("bin/penstock"))?;
    let control = Control {
        facts,
        architecture,
        depends: &depends,
    };
    staging::write(
        &own.join("DEBIAN/control"),
        control.of_program(&own)?.as_bytes(),
    )?;
    staging::write(
        &own.join("DEBIAN/conffiles"),
        format!("/{CONFIGURATION}\n").as_bytes(),
    )?;
    for script in SCRIPTS {
        let bytes = std::fs::read(root.join("packaging/debian").join(script))?;
        let place = own.join("DEBIAN").join(script);
        staging::write(&place, &bytes)?;
        staging::set_mode(&place, 0o755)?;
    }
    staging::write(
        &symbols.join("DEBIAN/control"),
        control.of_symbols(&symbols)?.as_bytes(),
    )?;

    let mut made = Vec::new();
    for (name, tree) in [("penstock", &own), ("penstock-dbgsym", &symbols)] {
        let package = output.join(format!("{name}_{}_{architecture}.deb", facts.version));
        pack(facts, tree, &package)?;
        made.push(package);
    }
    std::fs::remove_dir_all(&work)?;
    Ok(made)
}

/// Debian's word for a processor.
fn architecture(processor: &str) -> Result<&'static str> {
    Ok(match processor {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "riscv64" => "riscv64",
        other => bail!("no Debian package for {other}: its name in Debian is not known here"),
    })
}

/// Where debuggers look for the symbols of a program with this build id.
fn symbols_place(tree: &Path, program: &Program) -> Result<PathBuf> {
    let id = program.build_id()?;
    let (first, rest) = id.split_at_checked(2).context("a short build id")?;
    Ok(tree
        .join("usr/lib/debug/.build-id")
        .join(first)
        .join(format!("{rest}.debug")))
}

/// The packages that hold the libraries which the program is linked with, as Debian's own tool finds them.
fn depends(work: &Path, program: &Path) -> Result<String> {
    // It wants to be in a source package.
    staging::write(
        &work.join("debian/control"),
        b"Source: penstock\n\nPackage: penstock\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.current_dir(work).arg("-O").arg(program);
    let output = command
        .output()
        .context("dpkg-shlibdeps (package dpkg-dev)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let depends = text
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    let told = || String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(depends.with_context(told)?.to_owned())
}

/// What dpkg is told of a package.
struct Control<'a> {
    facts: &'a Facts,
    architecture: &'static str,
    depends: &'a str,
}

impl Control<'_> {
    fn of_program(&self, tree: &Path) -> Result<String> {
        let Self {
            facts,
            architecture,
            depends,
        } = self;
        Ok(format!(
            "Package: penstock\n\
             Version: {}\n\
             Architecture: {architecture}\n\
             Maintainer: {maintainer}\n\
             Section: net\n\
             Priority: optional\n\
             Installed-Size: {}\n\
             Depends: {depends}\n\
             Recommends: fuse3\n\
             Suggests: nfs-common\n\
             Description: NFS server and client in user space\n \
             Serves directories over NFSv3, NFSv4.1 and NFSv4.2 as an ordinary process.\n \
             How bytes travel between the wire and the disk (through the page cache,\n \
             through it and dropped behind, or past it) is a choice for each export,\n \
             operation, size and client. With commands that list, copy, mirror and\n \
             mount what any NFS server has.\n",
            facts.version,
            kilobytes(tree)?,
            maintainer = maintainer(),
        ))
    }

    fn of_symbols(&self, tree: &Path) -> Result<String> {
        let Self {
            facts,
            architecture,
            ..
        } = self;
        Ok(format!(
            "Package: penstock-dbgsym\n\
             Version: {version}\n\
             Architecture: {architecture}\n\
             Maintainer: {maintainer}\n\
             Section: debug\n\
             Priority: optional\n\
             Installed-Size: {size}\n\
             Depends: penstock (= {version})\n\
             Description: debug symbols for penstock\n",
            version = facts.version,
            size = kilobytes(tree)?,
            maintainer = maintainer(),
        ))
    }
}

/// Who answers for the package, from the variables that Debian's own tools go by.
fn maintainer() -> String {
    let variable = |name, otherwise: &str| std::env::var(name).unwrap_or(otherwise.to_owned());
    let name = variable("DEBFULLNAME", "The Penstock authors");
    format!("{name} <{}>", variable("DEBEMAIL", "penstock@localhost"))
}

/// What the files below a directory take, in units of 1024 bytes.
fn kilobytes(tree: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut directories = vec![tree.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes.div_ceil(1024))
}

fn pack(facts: &Facts, tree: &Path, package: &Path) -> Result<()> {
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", facts.time.to_string());
    command
        .args(["--root-owner-group", "-z3", "--build"])
        .arg(tree)
        .arg(package);
    command.stdout(std::io::stderr());
    let status = command.status().context("dpkg-deb (package dpkg)")?;
    ensure!(status.success(), "dpkg-deb: {status}");
    Ok(())
}
