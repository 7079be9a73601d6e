//! A real source tree: unpacked by tar, compared file by file, and a program compiled.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Report;
use super::check::same;
use crate::manifest::{self, Entry};

/// Unpacks `archive` into `dir` and compares it with the manifest in the file `expected` (the guest's
/// own view of the original, over hostfs, has no fractions of a second).
pub(super) fn run(dir: &Path, archive: &Path, expected: &Path, report: &mut Report) -> Result<()> {
    let tree = dir.join("tree");
    report.verdict("tree/unpack", &unpack(archive, &tree))?;
    report.verdict("tree/compare", &compare(&tree, expected))?;
    report.verdict("tree/compile", &compile(&dir.join("compile")))?;
    report.verdict("tree/remove", &copy_and_remove(&tree, &dir.join("copy")))
}

fn command(program: &str, args: &[&Path], dir: &Path) -> Result<String> {
    let output = Command::new(program).args(args).current_dir(dir).output();
    let output = output.with_context(|| format!("start {program}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program}: {}: {error}",
        output.status
    );
    ensure!(error.trim().is_empty(), "{program} complained: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn unpack(archive: &Path, tree: &Path) -> Result<()> {
    fs::create_dir(tree)?;
    command("tar", &[Path::new("-xpf"), archive], tree).map(drop)
}

fn compare(tree: &Path, expected: &Path) -> Result<()> {
    let expected: Vec<Entry> = serde_json::from_slice(&fs::read(expected)?)?;
    ensure!(
        expected.len() > 1000,
        "only {} entries in the original",
        expected.len()
    );
    let found = manifest::of_tree(tree).context("the copy")?;
    let wrong = manifest::differences(&expected, &found);
    ensure!(
        wrong.is_empty(),
        "{} differences: {}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("; ")
    );
    Ok(())
}

/// Several sources, a header, an archive of objects, a program that runs from the mount.
fn compile(dir: &Path) -> Result<()> {
    fs::create_dir(dir)?;
    fs::write(dir.join("sum.h"), "int sum(const int *, int);\n")?;
    fs::write(
        dir.join("sum.c"),
        "#include \"sum.h\"\nint sum(const int *v, int n)\n{ int s = 0; while (n--) s += v[n]; return s; }\n",
    )?;
    fs::write(
        dir.join("main.c"),
        "#include <stdio.h>\n#include \"sum.h\"\nint main(void)\n\
         { int v[100]; for (int i = 0; i < 100; i++) v[i] = i; printf(\"%d\\n\", sum(v, 100)); return 0; }\n",
    )?;
    let p = Path::new;
    command("gcc", &[p("-O1"), p("-c"), p("sum.c")], dir)?;
    command("gcc", &[p("-O1"), p("-c"), p("main.c")], dir)?;
    command("ar", &[p("rc"), p("libsum.a"), p("sum.o")], dir)?;
    command("gcc", &[p("-o"), p("sum"), p("main.o"), p("libsum.a")], dir)?;
    let text = command("./sum", &[], dir)?;
    same(text.trim(), "4950", "what the compiled program prints")?;
    same(
        fs::metadata(dir.join("sum"))?.mode() & 0o111,
        0o111,
        "mode of the program",
    )
}

/// `cp -a` on the mount, then `rm -r` of the copy.
fn copy_and_remove(tree: &Path, copy: &Path) -> Result<()> {
    let part = fs::read_dir(tree)?
        .next()
        .context("an entry of the tree")??
        .path();
    command("cp", &[Path::new("-a"), &part, copy], tree)?;
    let (a, b) = (manifest::of_tree(&part)?, manifest::of_tree(copy)?);
    let wrong = manifest::differences(&a, &b);
    ensure!(
        wrong.is_empty(),
        "{} differences: {}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("; ")
    );
    command("rm", &[Path::new("-r"), copy], tree)?;
    ensure!(!copy.exists(), "rm -r left the directory");
    Ok(())
}
