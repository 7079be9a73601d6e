//! The directories above the exports: a path that clients mount may have names before the export's own, and a
//! client that walks there from `/` has to find something.
//!
//! It is made of the pseudo paths of a table alone, never changes, and knows no file: what is inside an export
//! is the export's. An export below another one is a junction: it wins over what the other has under this
//! name.

use std::collections::BTreeMap;

use super::config::export_id;

/// What is at a path: a directory that only leads to exports, or an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory above exports; its number, as [`PseudoTree::node`] takes it.
    Node(u32),
    /// The root of the export with this id.
    Export(u32),
}

/// All directories above the exports of a table.
#[derive(Debug)]
pub struct PseudoTree {
    nodes: BTreeMap<u32, Node>,
    root: Place,
    /// Exports below others.
    junctions: Vec<Junction>,
}

/// One directory above exports.
#[derive(Debug)]
pub struct Node {
    /// Its path in normal form.
    path: String,
    children: BTreeMap<Vec<u8>, Place>,
    /// What is in it as a number: another as soon as one of its entries is another.
    change: u64,
}

/// An export below another one.
#[derive(Debug, PartialEq, Eq)]
pub struct Junction {
    /// The export that it lies in.
    pub outer: u32,
    /// The path of its directory below the outer export's root, without a slash at its ends; empty for the
    /// root itself.
    pub directory: Vec<u8>,
    /// Its name in that directory.
    pub name: Vec<u8>,
    /// The export itself.
    pub export: u32,
}

impl PseudoTree {
    /// The directories above the exports with these pseudo paths, of which no two are the same.
    pub(super) fn new(exports: &[&str]) -> Self {
        let has_root = exports.contains(&"/");
        let root = export_id("/");
        let mut tree = Self {
            nodes: BTreeMap::new(),
            root: if has_root {
                Place::Export(root)
            } else {
                Place::Node(root)
            },
            junctions: Vec::new(),
        };
        for &export in exports {
            let mut below = Place::Export(export_id(export));
            let mut path = export;
            while let Some((above, name)) = split(path) {
                let outer = exports
                    .iter()
                    .filter(|outer| relative(outer, above).is_some())
                    .max_by_key(|outer| outer.len());
                if let Some(outer) = outer {
                    let directory = relative(outer, above).unwrap_or_default();
                    tree.junctions.push(Junction {
                        outer: export_id(outer),
                        directory: directory.as_bytes().to_vec(),
                        name: name.as_bytes().to_vec(),
                        export: export_id(export),
                    });
                    break;
                }
                let id = export_id(above);
                let node = tree.nodes.entry(id).or_insert_with(|| Node::at(above));
                node.children.insert(name.as_bytes().to_vec(), below);
                below = Place::Node(id);
                path = above;
            }
        }
        for node in tree.nodes.values_mut() {
            node.change = node.digest();
        }
        tree
    }

    /// What clients find at `/`.
    #[must_use]
    pub const fn root(&self) -> Place {
        self.root
    }

    /// The directory with this number.
    #[must_use]
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The directory above the export with this pseudo path, if that leads to exports only: an export's root that lies
    /// in another export has a [`Junction`].
    #[must_use]
    pub fn above(&self, pseudo: &str) -> Option<u32> {
        let (above, _) = split(pseudo)?;
        Some(export_id(above)).filter(|id| self.nodes.contains_key(id))
    }

    /// The junction behind which an export lies, if it does.
    #[must_use]
    pub fn junction_to(&self, export: u32) -> Option<&Junction> {
        self.junctions.iter().find(|it| it.export == export)
    }

    /// The junctions in an export.
    pub fn junctions_in(&self, outer: u32) -> impl Iterator<Item = &Junction> {
        self.junctions.iter().filter(move |it| it.outer == outer)
    }
}

impl Node {
    fn at(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            children: BTreeMap::new(),
            change: 0,
        }
    }

    /// The number of the directory above; `None` for `/`.
    #[must_use]
    pub fn above(&self) -> Option<u32> {
        split(&self.path).map(|(above, _)| export_id(above))
    }

    /// What the entry of this name leads to.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Option<Place> {
        self.children.get(name).copied()
    }

    /// The entries in the order of their names.
    pub fn children(&self) -> impl Iterator<Item = (&[u8], Place)> {
        let children = self.children.iter();
        children.map(|(name, place)| (name.as_slice(), *place))
    }

    /// A number that is another as soon as one of the entries is.
    #[must_use]
    pub const fn change(&self) -> u64 {
        self.change
    }

    /// FNV-1a, 64 bit, of the entries.
    fn digest(&self) -> u64 {
        let entries = self.children.iter().flat_map(|(name, place)| {
            let (kind, id) = match place {
                Place::Node(id) => (0, id),
                Place::Export(id) => (1, id),
            };
            let name = name.iter().copied();
            name.chain([0, kind]).chain(id.to_be_bytes())
        });
        entries.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// A path's directory and its last name; `None` for `/`.
fn split(path: &str) -> Option<(&str, &str)> {
    let (above, name) = path.rsplit_once('/')?;
    if name.is_empty() {
        return None;
    }
    Some((if above.is_empty() { "/" } else { above }, name))
}

/// What of `path` is below `outer`, without slashes at the ends: empty for `outer` itself.
fn relative<'p>(outer: &str, path: &'p str) -> Option<&'p str> {
    if outer == "/" {
        return path.strip_prefix('/');
    }
    let rest = path.strip_prefix(outer)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::ExportTable;
    use crate::exports::config::{Config, ExportConfig, ServerConfig};

    fn table(paths: &[&str]) -> ExportTable {
        let exports = paths.iter().map(|path| ExportConfig::new("/", *path));
        let config = Config::from_flags(ServerConfig::default(), exports.collect());
        ExportTable::new(&config).unwrap()
    }

    /// What a walk along names from `/` finds.
    fn walk(table: &ExportTable, names: &[&str]) -> Option<Place> {
        let tree = table.pseudo();
        names
            .iter()
            .try_fold(tree.root(), |place, name| match place {
                Place::Node(id) => tree.node(id)?.child(name.as_bytes()),
                Place::Export(_) => None,
            })
    }

    #[test]
    fn every_export_is_reached_by_its_path() {
        let table = table(&["/a/b", "/a/c/d", "/e"]);
        let export = |path| Some(Place::Export(export_id(path)));
        assert_eq!(walk(&table, &["a", "b"]), export("/a/b"));
        assert_eq!(walk(&table, &["a", "c", "d"]), export("/a/c/d"));
        assert_eq!(walk(&table, &["e"]), export("/e"));
        assert_eq!(walk(&table, &["a"]), Some(Place::Node(export_id("/a"))));
        assert_eq!(walk(&table, &["a", "x"]), None);
        let tree = table.pseudo();
        let above = tree.above("/a/c/d").and_then(|id| tree.node(id)).unwrap();
        assert_eq!(above.above(), Some(export_id("/a")));
        assert_eq!(tree.node(export_id("/")).unwrap().above(), None);
    }

    #[test]
    fn the_export_of_the_root_is_the_root_itself() {
        let table = table(&["/", "/in/side"]);
        let tree = table.pseudo();
        assert_eq!(tree.root(), Place::Export(export_id("/")));
        let junctions: Vec<&Junction> = tree.junctions_in(export_id("/")).collect();
        let expected = Junction {
            outer: export_id("/"),
            directory: b"in".to_vec(),
            name: b"side".to_vec(),
            export: export_id("/in/side"),
        };
        assert_eq!(junctions, [&expected]);
        assert_eq!(tree.junction_to(export_id("/in/side")), Some(&expected));
        assert_eq!(tree.above("/"), None);
    }

    #[test]
    fn an_export_in_another_is_of_the_innermost_one() {
        let table = table(&["/a", "/a/b", "/a/b/c", "/ab"]);
        let tree = table.pseudo();
        let outer = |path| tree.junction_to(export_id(path)).map(|it| it.outer);
        assert_eq!(outer("/a/b/c"), Some(export_id("/a/b")));
        assert_eq!(outer("/a/b"), Some(export_id("/a")));
        assert_eq!(outer("/ab"), None);
    }

    #[test]
    fn the_change_of_a_directory_moves_with_its_entries() {
        let change = |paths| {
            let table = table(paths);
            table.pseudo().node(export_id("/")).unwrap().change()
        };
        assert_eq!(change(&["/a", "/b"]), change(&["/b", "/a"]));
        assert_ne!(change(&["/a", "/b"]), change(&["/a"]));
        assert_ne!(change(&["/a/x"]), change(&["/a"]));
    }
}
