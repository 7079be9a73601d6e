//! Where a COMPOUND is: an object of an export, or a directory above the exports; and the steps from one to
//! another. The path of an export is the same that NFSv3 mounts.

use std::sync::Arc;

use nfs_wire::nfs4::Nfsstat4;

use super::names::entry_name;
use super::status::status;
use crate::exports::{Node, Place as PseudoPlace};
use crate::front::context::Context;
use crate::front::service::Service;
use crate::vfs::fh::Handle;
use crate::vfs::{Step, Target, Trees};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// What a file handle leads to, found once in a COMPOUND however many operations use it.
#[derive(Clone)]
pub(super) enum Place {
    /// An object of an export, and who wants something of it.
    File(Box<Target>),
    /// A directory above the exports.
    Node(AboveExports),
}

/// A directory that only leads to exports.
#[derive(Clone)]
pub(super) struct AboveExports {
    trees: Arc<Trees>,
    id: u32,
}

impl Place {
    /// What a client finds at `/`.
    pub(super) async fn root(cx: &Context) -> Result<Self> {
        let trees = cx.vfs().trees.load_full();
        let root = trees.table.pseudo().root();
        Self::of_pseudo(cx, trees, root).await
    }

    /// What a handle leads to.
    pub(super) async fn of_handle(cx: &Context, handle: &[u8]) -> Result<Self> {
        let known = Handle::new(handle).map_err(|_too_long| Nfsstat4::Badhandle)?;
        if let Some(id) = cx.vfs().key.open_node(&known) {
            let trees = cx.vfs().trees.load_full();
            return AboveExports::new(cx, trees, id)
                .map(Self::Node)
                .ok_or(Nfsstat4::Stale);
        }
        let target = cx.target(&known).await.map_err(status)?;
        Ok(Self::File(Box::new(target)))
    }

    /// The handle by which a client finds it again.
    pub(super) fn handle(&self, cx: &Context) -> Result<Handle> {
        match self {
            Self::File(target) => Ok(target.object.handle),
            Self::Node(node) => {
                let sealed = cx.vfs().key.seal_node(node.id);
                sealed.map_err(|_too_long| Nfsstat4::Serverfault)
            }
        }
    }

    /// The object of an export.
    ///
    /// # Errors
    /// `otherwise` for a directory above the exports, in which nothing can be changed.
    pub(super) fn file(&self, otherwise: Nfsstat4) -> Result<&Target> {
        match self {
            Self::File(target) => Ok(target),
            Self::Node(_) => Err(otherwise),
        }
    }

    /// The entry of this name.
    pub(super) async fn lookup(&self, cx: &Context, name: &[u8]) -> Result<Self> {
        match self {
            Self::Node(node) => {
                let name = entry_name(name)?;
                let child = node.node().and_then(|node| node.child(name.bytes()));
                let child = child.ok_or(Nfsstat4::Noent)?;
                Self::of_pseudo(cx, Arc::clone(&node.trees), child).await
            }
            Self::File(target) => {
                must_be_directory(target)?;
                let name = entry_name(name)?;
                if let Some(export) = junction(cx, target, name.bytes()) {
                    return Self::of_export(cx, export).await;
                }
                let found = cx.lookup(target, Step::Entry(name)).await;
                Ok(Self::File(Box::new(found.map_err(status)?)))
            }
        }
    }

    /// The directory above.
    ///
    /// # Errors
    /// NFS4ERR_NOENT at `/` (RFC 8881 §18.14.3).
    pub(super) async fn parent(&self, cx: &Context) -> Result<Self> {
        match self {
            Self::Node(node) => {
                let above = node.node().and_then(Node::above);
                let above = PseudoPlace::Node(above.ok_or(Nfsstat4::Noent)?);
                Self::of_pseudo(cx, Arc::clone(&node.trees), above).await
            }
            Self::File(target) => {
                must_be_directory(target)?;
                let root = cx.vfs().root(&target.tree).map_err(status)?;
                if root.handle == target.object.handle {
                    return above_export(cx, target).await;
                }
                let found = cx.lookup(target, Step::Parent).await;
                Ok(Self::File(Box::new(found.map_err(status)?)))
            }
        }
    }

    /// The root of an export.
    pub(super) async fn of_export(cx: &Context, export: u32) -> Result<Self> {
        let trees = cx.vfs().trees.load_full();
        Self::of_pseudo(cx, trees, PseudoPlace::Export(export)).await
    }

    async fn of_pseudo(cx: &Context, trees: Arc<Trees>, place: PseudoPlace) -> Result<Self> {
        match place {
            PseudoPlace::Node(id) => {
                let node = AboveExports::new(cx, trees, id);
                node.map(Self::Node).ok_or(Nfsstat4::Noent)
            }
            PseudoPlace::Export(id) => {
                let target = cx.export_root(&trees, id).await.map_err(status)?;
                Ok(Self::File(Box::new(target)))
            }
        }
    }
}

impl AboveExports {
    /// The directory with this number, if there is one and the client may use an export below it. At `/` it may
    /// stand in any case: it came here through the gate of the whole server.
    fn new(cx: &Context, trees: Arc<Trees>, id: u32) -> Option<Self> {
        let node = trees.table.pseudo().node(id)?;
        let is_root = node.above().is_none();
        let shown = is_root || has_export_for(cx, &trees, node);
        shown.then_some(Self { trees, id })
    }

    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.trees.table.pseudo().node(self.id)
    }

    /// The entries that this client is shown, in the order of their names.
    pub(super) fn entries(&self, cx: &Context) -> Vec<(Vec<u8>, PseudoPlace)> {
        let children = self.node().into_iter().flat_map(Node::children);
        let shown = children.filter(|(_, place)| is_for(cx, &self.trees, *place));
        shown.map(|(name, place)| (name.to_vec(), place)).collect()
    }

    /// What an entry leads to.
    ///
    /// # Errors
    /// Why the client may not have it.
    pub(super) async fn entry(&self, cx: &Context, place: PseudoPlace) -> Result<Place> {
        Place::of_pseudo(cx, Arc::clone(&self.trees), place).await
    }
}

/// Whether this client may use an export below the directory. The paths of the configuration bound the depth.
fn has_export_for(cx: &Context, trees: &Trees, node: &Node) -> bool {
    node.children().any(|(_, place)| is_for(cx, trees, place))
}

fn is_for(cx: &Context, trees: &Trees, place: PseudoPlace) -> bool {
    match place {
        PseudoPlace::Export(id) => trees
            .table
            .by_id(id)
            .is_some_and(|export| Service::rule(&cx.caller, export).is_ok()),
        PseudoPlace::Node(id) => {
            let node = trees.table.pseudo().node(id);
            node.is_some_and(|node| has_export_for(cx, trees, node))
        }
    }
}

/// The export that this name of a directory leads to, where one export lies in another.
fn junction(cx: &Context, directory: &Target, name: &[u8]) -> Option<u32> {
    let here = junctions(cx, directory, |of_it| of_it == name);
    here.first().map(|(_, export)| *export)
}

/// The names of a directory, of those that `are` wanted, that lead to other exports, and to which.
pub(super) fn junctions(
    cx: &Context,
    directory: &Target,
    are: impl Fn(&[u8]) -> bool,
) -> Vec<(Vec<u8>, u32)> {
    let trees = cx.vfs().trees.load();
    let mut here = trees
        .table
        .pseudo()
        .junctions_in(directory.tree.export.id)
        .filter(|junction| are(&junction.name))
        .peekable();
    // Nearly all exports have none in them.
    if here.peek().is_none() {
        return Vec::new();
    }
    let vfs = cx.vfs();
    let Some(path) = vfs.path_of_object(&directory.tree, &directory.object) else {
        return Vec::new();
    };
    let below = path.strip_prefix(b"/").unwrap_or(&path);
    here.filter(|junction| junction.directory == below)
        .map(|junction| (junction.name.clone(), junction.export))
        .collect()
}

/// The directory above an export's root.
async fn above_export(cx: &Context, root: &Target) -> Result<Place> {
    let trees = cx.vfs().trees.load_full();
    let export = &root.tree.export;
    let pseudo = trees.table.pseudo();
    if let Some(id) = pseudo.above(&export.pseudo) {
        return Place::of_pseudo(cx, Arc::clone(&trees), PseudoPlace::Node(id)).await;
    }
    let junction = pseudo.junction_to(export.id).ok_or(Nfsstat4::Noent)?;
    let outer = cx
        .export_root(&trees, junction.outer)
        .await
        .map_err(status)?;
    let names = junction.directory.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
    let object = cx.vfs().walk(outer.clone(), &names).await.map_err(status)?;
    Ok(Place::File(Box::new(outer.with_object(object))))
}

/// # Errors
/// NFS4ERR_SYMLINK for a symbolic link, by which a client knows that it has to follow it itself (RFC 8881
/// §18.13.3), else NFS4ERR_NOTDIR.
pub(super) fn must_be_directory(target: &Target) -> Result<()> {
    use crate::vfs::FileKind;
    match target.object.kind {
        FileKind::Directory => Ok(()),
        FileKind::Symlink => Err(Nfsstat4::Symlink),
        FileKind::Regular
        | FileKind::BlockDevice
        | FileKind::CharDevice
        | FileKind::Fifo
        | FileKind::Socket
        | FileKind::Unknown => Err(Nfsstat4::Notdir),
    }
}
