//! Which modules of a crate may use which others: the table is `xtask/module-arrows.toml`.
//!
//! A module is what stands in a file or folder directly below `src`, with all that is inside it; an
//! arrow goes from it to each other one that its code names, tests left out. What the crate's root
//! file defines itself belongs to nobody; what the root re-exports belongs to the module it is from.
//!
//! The source is read as words, so that no syntax tree is needed: a name counts where it stands
//! behind `crate::`, or behind as many `super::` as lead to the root. A module reached through a
//! macro's expansion or another module's re-export is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::{Finding, Tree};

/// Path of the table of arrows, from the workspace's root.
const TABLE_PATH: &str = "xtask/module-arrows.toml";
/// The key of the table that lists the crates it does not hold yet.
const UNPINNED: &str = "unpinned";

/// Compares the arrows between the modules of each crate with those of the table.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(table) = tree
        .text(TABLE_PATH)
        .and_then(|text| text.parse::<toml::Table>().ok())
    else {
        let rule = "the table of module arrows is in the tree and is TOML";
        findings.push(Finding::new(TABLE_PATH, 0, rule, "restore it from git"));
        return;
    };
    let crates = crates(tree);
    let unpinned = strings(table.get(UNPINNED));
    let sections = table.iter().filter(|(name, _)| *name != UNPINNED);
    for name in sections.map(|(name, _)| name).chain(&unpinned) {
        if !crates.contains_key(name.as_str()) {
            let rule = "the table of module arrows names crates of the workspace";
            let cure = format!("there is no crate {name}: take it out");
            findings.push(Finding::new(TABLE_PATH, 0, rule, cure));
        }
    }
    for (name, folder) in &crates {
        match (table.get(name), unpinned.contains(name)) {
            (None, true) => {}
            (Some(section), false) => {
                let graph = Graph::read(tree, folder);
                findings.extend(compare(name, &Allowed::read(section), &graph));
            }
            (None, false) | (Some(_), true) => {
                let rule = "each crate has its arrows in the table or is listed as unpinned";
                let section = Graph::read(tree, folder).section(name);
                let cure = format!("enter {name}; what its code asks for today:\n{section}");
                findings.push(Finding::new(TABLE_PATH, 0, rule, cure));
            }
        }
    }
}

/// The workspace's crates by name, each with its folder (ending in `/`).
fn crates(tree: &Tree) -> BTreeMap<String, String> {
    let manifests = tree.texts.iter().filter_map(|(path, text)| {
        let folder = path.strip_suffix("Cargo.toml")?;
        let manifest: toml::Table = text.parse().ok()?;
        let name = manifest.get("package")?.get("name")?.as_str()?;
        // The fuzz targets and the examples of whole crates are workspaces of their own, of a few files each.
        let own_workspace = folder == "fuzz/" || folder.starts_with("examples/");
        (!folder.is_empty() && !own_workspace).then(|| (name.to_owned(), folder.to_owned()))
    });
    manifests.collect()
}

/// The arrows that a section of the table allows.
struct Allowed(BTreeMap<String, Vec<String>>);

impl Allowed {
    fn read(section: &toml::Value) -> Self {
        let lines = section.as_table().into_iter().flatten();
        Self(
            lines
                .map(|(from, to)| (from.clone(), strings(Some(to))))
                .collect(),
        )
    }

    fn has(&self, from: &str, to: &str) -> bool {
        self.0
            .get(from)
            .is_some_and(|all| all.iter().any(|one| one == to))
    }

    /// A way from a module over others back to itself, if there is one.
    fn circle(&self) -> Option<Vec<&str>> {
        let mut cleared = BTreeSet::new();
        self.0
            .keys()
            .find_map(|from| self.circle_from(from, &mut Vec::new(), &mut cleared))
    }

    /// Follows all arrows from `module`, which was reached over `way`. `cleared` are the modules from
    /// which no circle can be reached.
    fn circle_from<'a>(
        &'a self,
        module: &'a str,
        way: &mut Vec<&'a str>,
        cleared: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<&'a str>> {
        if cleared.contains(module) {
            return None;
        }
        if let Some(start) = way.iter().position(|passed| *passed == module) {
            let mut circle = way[start..].to_vec();
            circle.push(module);
            return Some(circle);
        }
        way.push(module);
        for next in self.0.get(module).into_iter().flatten() {
            if let Some(circle) = self.circle_from(next, way, cleared) {
                return Some(circle);
            }
        }
        way.pop();
        cleared.insert(module);
        None
    }
}

/// What is wrong with the crate `name`, whose code has the arrows of `graph`.
fn compare(name: &str, allowed: &Allowed, graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((from, to), (path, line)) in &graph.arrows {
        if !allowed.has(from, to) {
            let rule = "modules use each other only along the arrows of module-arrows.toml";
            let cure = format!(
                "{from} may not use {to}: move the shared part down or pass it in; a new arrow \
                 must not close a circle"
            );
            findings.push(Finding::new(path, *line, rule, cure));
        }
    }
    let mut in_table = |rule, cure| findings.push(Finding::new(TABLE_PATH, 0, rule, cure));
    for (from, all) in &allowed.0 {
        let rule = "the modules and arrows of the table are those that there are";
        if !graph.modules.contains(from) {
            in_table(rule, format!("{name} has no module {from}: take it out"));
        }
        for to in all {
            if !graph.arrows.contains_key(&(from.clone(), to.clone())) {
                in_table(
                    rule,
                    format!("{from} of {name} does not use {to}: take it out"),
                );
            }
        }
    }
    for module in &graph.modules {
        if !allowed.0.contains_key(module) {
            let cure = format!("write the line of {module} into [{name}]");
            in_table("each module has its line in the table", cure);
        }
    }
    if let Some(circle) = allowed.circle() {
        let cure = format!("cut one arrow of {name}: {}", circle.join(" -> "));
        in_table("arrows between modules go round in no circle", cure);
    }
    findings
}

/// The modules of a crate and who uses whom.
#[derive(Debug, Default)]
struct Graph {
    modules: BTreeSet<String>,
    /// The modules that use and are used, with the first place (path and line) where the code says so.
    arrows: BTreeMap<(String, String), (String, usize)>,
}

impl Graph {
    fn read(tree: &Tree, folder: &str) -> Self {
        let below_src =
            |path: &str| Some(path.strip_prefix(folder)?.strip_prefix("src/")?.to_owned());
        let files: Vec<File> = tree
            .texts
            .iter()
            .filter_map(|(path, text)| Some((below_src(path)?, path, text)))
            .filter(|(inside, ..)| inside.ends_with(".rs"))
            .map(|(inside, path, text)| File::parse(&inside, path, text))
            .collect();
        Self::build(files)
    }

    fn build(mut files: Vec<File>) -> Self {
        rename(&mut files);
        let for_tests: BTreeSet<Vec<String>> =
            files.iter().flat_map(|f| f.test_modules.clone()).collect();
        files.retain(|f| (0..=f.module.len()).all(|n| !for_tests.contains(&f.module[..n])));
        let mut graph = Self::default();
        let tops = files.iter().filter_map(|f| f.module.first().cloned());
        graph.modules.extend(tops);
        let reexports = reexports(&files, &graph.modules);
        for file in &files {
            let Some(from) = file.module.first() else {
                continue;
            };
            for (line, name) in &file.names {
                let module = reexports.get(name).unwrap_or(name);
                if graph.modules.contains(module) && module != from {
                    graph
                        .arrows
                        .entry((from.clone(), module.clone()))
                        .or_insert_with(|| (file.path.clone(), *line));
                }
            }
        }
        graph
    }

    /// The section of the table that this graph would need.
    fn section(&self, name: &str) -> String {
        let mut text = format!("[{name}]\n");
        for module in &self.modules {
            let to = self.arrows.keys().filter(|(from, _)| from == module);
            let to: Vec<String> = to.map(|(_, to)| format!("\"{to}\"")).collect();
            text += &format!("{module} = [{}]\n", to.join(", "));
        }
        text
    }
}

/// One file below a crate's `src`.
#[derive(Debug)]
struct File {
    /// Path of the file from the workspace's root.
    path: String,
    /// Below `src`, without its extension: what a `#[path]` attribute of the root would name.
    stem: String,
    /// The module it is, from the root on; empty for the root itself.
    module: Vec<String>,
    /// Names behind the crate's root, with their lines, tests left out.
    names: Vec<(usize, String)>,
    /// Modules declared here for tests only.
    test_modules: Vec<Vec<String>>,
    /// The modules that the crate's root declares with `#[path = "stem.rs"] mod name;`, as (stem, name).
    renamed: Vec<(String, String)>,
    /// The paths of the `use` items in the crate's root, with the name that each gives to the crate.
    reexports: Vec<(String, String)>,
}

impl File {
    /// Reads the file at `path`, which is `inside` below the crate's `src`.
    fn parse(inside: &str, path: &str, text: &str) -> Self {
        let stem = inside.strip_suffix(".rs").unwrap_or(inside).to_owned();
        let mut module: Vec<String> = stem.split('/').map(str::to_owned).collect();
        let last = module.last().map(String::as_str);
        if last == Some("mod") || matches!(stem.as_str(), "lib" | "main") {
            module.pop();
        }
        // Parsed by its place inside the crate: that the crate lies below `tests/` says nothing.
        let source = Source::parse(inside, text);
        let tokens = tokens(&source);
        let mut file = Self {
            path: path.to_owned(),
            stem,
            test_modules: test_modules(&tokens, &source, &module),
            names: names(&tokens, &source, module.len()),
            renamed: Vec::new(),
            reexports: Vec::new(),
            module,
        };
        if file.module.is_empty() {
            file.renamed = renamed(&source);
            file.reexports = uses(&tokens);
        }
        file
    }
}

/// Gives the files that the root takes in under another name that name.
fn rename(files: &mut [File]) {
    let renamed: Vec<_> = files.iter().flat_map(|f| f.renamed.clone()).collect();
    for (stem, name) in renamed {
        for file in files.iter_mut().filter(|file| file.stem == stem) {
            file.module = vec![name.clone()];
        }
    }
}

/// Names of the crate's root that stand for something in one of `modules`, with that module.
fn reexports(files: &[File], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let all = files.iter().flat_map(|file| &file.reexports);
    all.filter(|(name, module)| modules.contains(module) && !modules.contains(name))
        .cloned()
        .collect()
}

/// A word, `::`, or any other character, with its line.
type Token = (usize, String);

fn tokens(source: &Source) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (number, line) in source.numbered() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let end = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                word => word,
            };
            tokens.push((number, rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

fn word(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |(_, word)| word.as_str())
}

/// The names that product code of a file takes from the crate's root; the file is a module so many
/// levels below it.
fn names(tokens: &[Token], source: &Source, levels: usize) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut open_modules: Vec<usize> = Vec::new();
    let mut depth = 0;
    for (at, (line, token)) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && word(tokens, at - 2) == "mod" {
                    open_modules.push(depth);
                }
            }
            "}" => {
                open_modules.pop_if(|opened| *opened == depth);
                depth = depth.saturating_sub(1);
            }
            "crate" | "super" if !source.test[line - 1] && begins_path(tokens, at) => {
                let levels = levels + open_modules.len();
                names.extend(root_names(tokens, at, levels).map(|name| (*line, name)));
            }
            _ => {}
        }
    }
    names
}

/// Whether the word at `at` is the first of a path, a `self::` before it not counted.
fn begins_path(tokens: &[Token], at: usize) -> bool {
    at == 0 || word(tokens, at - 1) != "::" || (at >= 2 && word(tokens, at - 2) == "self")
}

/// What the path or `use` list at `at` names directly behind the crate's root, from a module so many
/// `levels` below it.
fn root_names(tokens: &[Token], at: usize, levels: usize) -> impl Iterator<Item = String> {
    let mut paths = Vec::new();
    expand(tokens, at, &[], &mut paths);
    paths.into_iter().filter_map(move |(path, _)| {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let behind = if supers == 0 { 1 } else { supers };
        let from_root = supers == 0 || supers == levels;
        path.get(behind).filter(|_| from_root).cloned()
    })
}

/// The paths that begin at `at` behind `prefix`, each with the name it gets: one, or as many as a list
/// in braces has. Returns where they end.
fn expand(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    paths: &mut Vec<(Vec<String>, String)>,
) -> usize {
    if word(tokens, at) == "{" {
        at += 1;
        while at < tokens.len() && word(tokens, at) != "}" {
            at = match word(tokens, at) {
                "," => at + 1,
                _ => expand(tokens, at, prefix, paths),
            };
        }
        return at + 1;
    }
    let mut path = prefix.to_vec();
    path.push(word(tokens, at).to_owned());
    let follows = word(tokens, at + 2);
    let goes_on = follows == "{"
        || follows == "*"
        || follows.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if word(tokens, at + 1) == "::" && goes_on {
        return expand(tokens, at + 2, &path, paths);
    }
    let renamed = word(tokens, at + 1) == "as";
    let name = word(tokens, if renamed { at + 2 } else { at }).to_owned();
    paths.push((path, name));
    at + if renamed { 3 } else { 1 }
}

/// Modules that a file, itself the module `own`, declares for its tests: `#[cfg(test)] mod name;`.
fn test_modules(tokens: &[Token], source: &Source, own: &[String]) -> Vec<Vec<String>> {
    let declares = |at: usize| word(tokens, at) == "mod" && word(tokens, at + 2) == ";";
    (0..tokens.len())
        .filter(|at| declares(*at) && source.test[tokens[*at].0 - 1])
        .map(|at| {
            let mut module = own.to_vec();
            module.push(word(tokens, at + 1).to_owned());
            module
        })
        .collect()
}

/// Files that stand under another name: `#[path = "stem.rs"]` above `mod name;`, as (stem, name).
fn renamed(source: &Source) -> Vec<(String, String)> {
    let pairs = source.text.iter().zip(source.text.iter().skip(1));
    pairs
        .filter_map(|(attribute, item)| {
            let stem = attribute.trim().strip_prefix("#[path = \"")?;
            let stem = stem.strip_suffix(".rs\"]")?;
            let name = item.trim().strip_suffix(';')?.rsplit(' ').next()?;
            Some((stem.to_owned(), name.to_owned()))
        })
        .collect()
}

/// The names that the `use` items of a root file give, each with the first part of its path.
fn uses(tokens: &[Token]) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for at in (0..tokens.len()).filter(|at| word(tokens, *at) == "use") {
        expand(tokens, at + 1, &[], &mut paths);
    }
    let named = paths.into_iter().filter_map(|(path, name)| {
        let from_here = |part: &&String| !matches!(part.as_str(), "crate" | "self");
        Some((name, path.iter().find(from_here)?.clone()))
    });
    named.collect()
}

fn strings(value: Option<&toml::Value>) -> Vec<String> {
    let all = value.and_then(toml::Value::as_array).into_iter().flatten();
    all.filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let parse = |(inside, text): &(&str, &str)| File::parse(inside, inside, text);
        Graph::build(files.iter().map(parse).collect())
    }

    /// The arrows of a crate with empty modules a to d and what `files` hold, as "from to".
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("lib.rs", "pub use d::Deep as Known;\n")];
        for name in ["a", "b", "c", "d"] {
            let given = files
                .iter()
                .any(|(path, _)| path.trim_end_matches("/mod.rs").trim_end_matches(".rs") == name);
            if !given {
                all.push(match name {
                    "a" => ("a.rs", ""),
                    "b" => ("b.rs", ""),
                    "c" => ("c.rs", ""),
                    _ => ("d.rs", ""),
                });
            }
        }
        all.extend(files);
        let graph = graph(&all);
        graph
            .arrows
            .keys()
            .map(|(from, to)| format!("{from} {to}"))
            .collect()
    }

    #[test]
    fn a_path_and_a_list_are_arrows() {
        assert_eq!(arrows(&[("a.rs", "fn f() { crate::b::g() }")]), ["a b"]);
        let list = "use crate::{\n    b::{self, X},\n    c,\n};\nuse std::{fmt, d};";
        assert_eq!(arrows(&[("a.rs", list)]), ["a b", "a c"]);
        assert_eq!(
            arrows(&[("a/x.rs", "pub(crate) use crate::b::*;")]),
            ["a b"]
        );
        assert_eq!(
            arrows(&[("a.rs", "pub(in crate::a) fn crate_d() {}")]),
            [""; 0]
        );
    }

    #[test]
    fn super_leads_to_the_root_only_from_a_top_module() {
        assert_eq!(arrows(&[("a.rs", "use super::{b, c::X};")]), ["a b", "a c"]);
        assert_eq!(arrows(&[("a/mod.rs", "use super::b;")]), ["a b"]);
        assert_eq!(arrows(&[("a/x.rs", "use super::b;")]), [""; 0]);
        assert_eq!(arrows(&[("a/x.rs", "use self::super::super::b;")]), ["a b"]);
        let inline = "mod inner {\n    use super::b;\n    use super::super::c;\n}\nuse super::d;";
        assert_eq!(arrows(&[("a.rs", inline)]), ["a c", "a d"]);
    }

    #[test]
    fn a_name_of_the_root_belongs_to_the_module_it_is_from() {
        assert_eq!(arrows(&[("a.rs", "use crate::Known;")]), ["a d"]);
        assert_eq!(arrows(&[("a.rs", "use crate::{Result, Errno};")]), [""; 0]);
        assert_eq!(arrows(&[("d.rs", "use crate::Known;")]), [""; 0]);
    }

    #[test]
    fn comments_strings_and_tests_are_left_out() {
        assert_eq!(
            arrows(&[(
                "a.rs",
                "//! See [`crate::b`].\nconst X: &str = \"crate::c\";"
            )]),
            [""; 0]
        );
        let inside = "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n";
        assert_eq!(arrows(&[("a.rs", inside)]), [""; 0]);
        let declared = "#[cfg(test)]\nmod double;\nmod tests_of_ours;";
        let files = [
            ("a.rs", declared),
            ("a/double.rs", "use crate::b;"),
            ("a/double/deeper.rs", "use crate::b;"),
            ("a/tests.rs", "use crate::b;"),
            ("a/tests_of_ours.rs", "use crate::c;"),
        ];
        assert_eq!(arrows(&files), ["a c"]);
    }

    #[test]
    fn a_file_under_another_name_is_the_module_it_stands_for() {
        let root = "#[cfg(feature = \"x\")]\npub mod a;\n#[cfg(not(feature = \"x\"))]\n#[path = \"no_a.rs\"]\nmod a;\n";
        let graph = graph(&[
            ("lib.rs", root),
            ("a.rs", ""),
            ("no_a.rs", "use crate::b;"),
            ("b.rs", ""),
        ]);
        assert_eq!(graph.section("x"), "[x]\na = [\"b\"]\nb = []\n");
    }

    fn compared(table: &str, files: &[(&str, &str)]) -> Vec<String> {
        let table: toml::Table = table.parse().unwrap();
        let allowed = Allowed::read(&toml::Value::Table(table));
        let findings = compare("x", &allowed, &graph(files));
        findings.into_iter().map(|f| f.cure).collect()
    }

    #[test]
    fn each_difference_from_the_table_is_caught() {
        let files = [("a.rs", "\nuse crate::b;"), ("b.rs", "")];
        assert!(compared("a = [\"b\"]\nb = []", &files).is_empty());
        let new = compared("a = []\nb = []", &files);
        assert!(
            new.len() == 1 && new[0].contains("a may not use b"),
            "{new:?}"
        );
        let stale = compared("a = [\"b\"]\nb = []\nc = []", &files);
        assert!(
            stale.len() == 1 && stale[0].contains("no module c"),
            "{stale:?}"
        );
        let unused = compared("a = [\"b\"]\nb = [\"a\"]", &files);
        assert!(unused[0].contains("b of x does not use a"), "{unused:?}");
        assert!(unused[1].contains("a -> b -> a"), "{unused:?}");
        let missing = compared("a = [\"b\"]", &files);
        assert!(
            missing.len() == 1 && missing[0].contains("line of b"),
            "{missing:?}"
        );
    }

    #[test]
    fn a_circle_over_three_modules_is_caught() {
        let table = "a = [\"b\", \"d\"]\nb = [\"c\", \"d\"]\nc = [\"b\"]\nd = []";
        let table: toml::Table = table.parse().unwrap();
        let allowed = Allowed::read(&toml::Value::Table(table));
        assert_eq!(allowed.circle(), Some(vec!["b", "c", "b"]));
    }

    #[test]
    fn every_crate_is_pinned_or_listed() {
        let texts = |table: &str| {
            let manifest = |name: &str| format!("[package]\nname = \"{name}\"\n");
            let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
            Tree {
                root: ".".into(),
                sources: Vec::new(),
                texts: vec![
                    file(TABLE_PATH, table),
                    file("one/Cargo.toml", &manifest("one")),
                    file("one/src/lib.rs", "mod a;\nmod b;"),
                    file("one/src/a.rs", "use crate::b;"),
                    file("one/src/b.rs", ""),
                    // Below tests/, and yet no test.
                    file("tests/two/Cargo.toml", &manifest("two")),
                    file("tests/two/src/main.rs", "mod a;\nmod b;"),
                    file("tests/two/src/a.rs", "use crate::b;"),
                    file("tests/two/src/b.rs", ""),
                ],
            }
        };
        let found = |table: &str| {
            let mut findings = Vec::new();
            check(&texts(table), &mut findings);
            findings.into_iter().map(|f| f.cure).collect::<Vec<_>>()
        };
        let pinned = "[one]\na = [\"b\"]\nb = []\n";
        assert!(found(&format!("unpinned = [\"two\"]\n{pinned}")).is_empty());
        let two = found(pinned);
        assert!(
            two.len() == 1 && two[0].ends_with("[two]\na = [\"b\"]\nb = []\n"),
            "{two:?}"
        );
        assert_eq!(
            found(&format!("unpinned = [\"one\", \"two\"]\n{pinned}")).len(),
            1
        );
        assert_eq!(
            found(&format!("unpinned = [\"two\", \"three\"]\n{pinned}")).len(),
            1
        );
    }
}
