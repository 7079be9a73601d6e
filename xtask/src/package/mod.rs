//! `cargo xtask package`: what is handed to people who do not build it themselves.
//!
//! - `tarball`: the program linked statically (musl), with manual pages, completions and units, for any Linux;
//! - `deb`: a Debian package, linked against the system's C library, which asks the system's user database (NSS);
//! - `container`: a directory from which a builder makes an image of the static program;
//! - `wheel`: the Python package, if it is asked for: it needs Python and the network.
//!
//! Debug symbols go into a file or package of their own. The same sources and tools make the same bytes, but for the
//! compiler's own freedom: times come from the last commit, owners are root.

mod archive;
mod build;
mod container;
mod deb;
mod staging;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use self::build::{Build, Program};
use self::staging::Facts;
use crate::python::Environment;

/// The profile of what is packaged, and measured.
pub(crate) const PROFILE: &str = "dist";

/// What to package, and of what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to make (all but the wheel if none is given)
    kinds: Vec<Kind>,
    /// Where to put it
    #[arg(long, default_value = "target/package")]
    output: PathBuf,
    /// The profile that the program is built with
    #[arg(long, default_value = PROFILE)]
    profile: String,
    /// Package this program instead of building one
    #[arg(long)]
    program: Option<PathBuf>,
}

/// One form of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// The static program, manual pages, completions and units, to unpack below /usr/local
    Tarball,
    /// A Debian package, and one with its debug symbols
    Deb,
    /// A directory to build an image from: `podman build target/package/container`
    Container,
    /// The Python package, for machines of the kind of this one
    Wheel,
}

impl Kind {
    const DEFAULT: [Self; 3] = [Self::Tarball, Self::Deb, Self::Container];

    /// Makes it, and tells where each file is.
    fn make(self, root: &Path, args: &Args, facts: &Facts, output: &Path) -> Result<Vec<PathBuf>> {
        let program = |build: Build| match &args.program {
            Some(program) => {
                ensure!(program.is_file(), "no program {}", program.display());
                Program::given(program)
            }
            None => build.make(root, &args.profile),
        };
        match self {
            Self::Tarball => archive::make(root, facts, &program(Build::Static)?, output),
            Self::Deb => deb::make(root, facts, &program(Build::System)?, output),
            Self::Container => container::make(root, &program(Build::Static)?, output),
            Self::Wheel => wheel(root, &args.profile, output),
        }
    }
}

/// Makes what was asked for, and says where each file is.
///
/// # Errors
/// What does not build or cannot be written, or which tool is missing and how to have it.
pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let kinds = if args.kinds.is_empty() {
        &Kind::DEFAULT[..]
    } else {
        &args.kinds
    };
    let output = root.join(&args.output);
    std::fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
    let facts = Facts::of(root)?;
    for kind in kinds {
        for path in kind.make(root, args, &facts, &output)? {
            println!("{}", path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the Python package with this profile.
fn wheel(root: &Path, profile: &str, output: &Path) -> Result<Vec<PathBuf>> {
    let environment = Environment::make(root)?;
    environment.install(false)?;
    match environment.wheel(profile, output)? {
        Ok(wheel) => Ok(vec![wheel]),
        Err(_told) => anyhow::bail!("the wheel does not build"),
    }
}
