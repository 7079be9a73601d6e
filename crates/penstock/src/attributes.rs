//! What `penstock chmod` and `penstock chown` share: changing the attributes of operands, and of all that
//! is below them by [`ChangeTree`].

use std::process::ExitCode;

use nfs_client::nfs3::{Fattr3, Ftype3, Sattr3};
use nfs_client::trees::{ChangeTree, Step};
use nfs_client::{ClientError, NfsUrl, UrlPattern};

use crate::message;
use crate::results;
use crate::session::{self, Common, Session};
use serde_json::json;

/// Which things are changed, and whether that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Change everything below the directories among the operands, too.
    pub(crate) recursive: bool,
    /// Change what an operand that is a symbolic link leads to, not the link.
    pub(crate) follow: bool,
    /// Change symbolic links found below directories, themselves; else they are left alone.
    pub(crate) links: bool,
    /// Print the URL of each thing that was changed.
    pub(crate) verbose: bool,
}

/// Changes what each of `urls` names as `plan` says for its present attributes.
pub(crate) fn run(
    common: &Common,
    urls: &[UrlPattern],
    scope: Scope,
    plan: impl Fn(&Fattr3) -> Sattr3,
) -> anyhow::Result<ExitCode> {
    session::run(common, async |session| {
        for url in &session.expand(urls).await {
            if let Err(error) = change(session, url, scope, &plan).await {
                session.failed(url, error);
            }
            if session.stop().is_set() {
                break;
            }
        }
        Ok(())
    })
}

async fn change(
    session: &mut Session,
    url: &NfsUrl,
    scope: Scope,
    plan: impl Fn(&Fattr3) -> Sattr3,
) -> Result<(), ClientError> {
    let (client, node) = if scope.follow {
        session.resolve(url).await?
    } else {
        session.resolve_link(url).await?
    };
    if !scope.recursive || node.attributes.ftype != Ftype3::Dir {
        let new = plan(&node.attributes);
        client.setattr_handle(&node.handle, &new).await?;
        results::done(url, "changed", json!({}), scope.verbose);
        return Ok(());
    }
    let changes = ChangeTree::new(&client, node, &url.path, scope.links, plan);
    change_tree(session, url, changes, scope.verbose).await;
    Ok(())
}

/// Tells of the change of a tree to its end, or until it is to stop.
async fn change_tree<P: Fn(&Fattr3) -> Sattr3>(
    session: &mut Session,
    url: &NfsUrl,
    mut changes: ChangeTree<P>,
    verbose: bool,
) {
    let stop = session.stop();
    let mut stopped = false;
    let mut changed = 0_u64;
    loop {
        let step = tokio::select! {
            biased;
            () = stop.asked(), if !stopped => {
                changes.stop();
                stopped = true;
                continue;
            }
            step = changes.next() => step,
        };
        match step {
            None => break,
            Some(Step::Done(path)) => {
                changed += 1;
                results::done(&url.with_path(path), "changed", json!({}), verbose);
            }
            Some(Step::Failed { path, error }) => session.failed(&url.with_path(path), error),
        }
    }
    if stopped {
        message::warn(format_args!(
            "interrupted: {changed} changed below {url}; run it again to go on"
        ));
    }
}
