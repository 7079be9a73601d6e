//! What `penstock chmod` and `penstock chown` share: changing the attributes of operands and of all that
//! is below them, by up to [`CALLS_IN_FLIGHT_MAX`] calls at once.

use std::process::ExitCode;

use nfs_client::client::{Found, TreeOptions, Visit};
use nfs_client::nfs3::{Fattr3, Ftype3, Nfsstat3, Sattr3};
use nfs_client::{Client, ClientError, NfsUrl, Node};
use tokio::task::JoinSet;

use crate::limits::CALLS_IN_FLIGHT_MAX;
use crate::session::{self, Common, Session};
use crate::show;

/// Which things are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Everything below directories, too.
    pub(crate) recursive: bool,
    /// What an operand that is a symbolic link leads to, not the link.
    pub(crate) follow: bool,
    /// Symbolic links found below directories, themselves; else they are left alone.
    pub(crate) links: bool,
    /// Print the URL of each thing that was changed.
    pub(crate) verbose: bool,
}

/// Changes what each of `urls` names as `plan` says for its present attributes.
pub(crate) fn run(
    common: &Common,
    urls: &[NfsUrl],
    scope: Scope,
    plan: impl Fn(&Fattr3) -> Sattr3,
) -> anyhow::Result<ExitCode> {
    session::run(common, async |session| {
        for url in urls {
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
        if scope.verbose {
            show::say(url);
        }
        return Ok(());
    }
    let mut changes = Changes {
        url,
        client,
        scope,
        calls: JoinSet::new(),
        changed: 0,
    };
    changes.tree(session, node, plan).await;
    Ok(())
}

/// The change of one tree.
struct Changes<'a> {
    url: &'a NfsUrl,
    client: Client,
    scope: Scope,
    calls: JoinSet<(Vec<u8>, Result<(), ClientError>)>,
    changed: u64,
}

impl Changes<'_> {
    async fn tree(&mut self, session: &mut Session, root: Node, plan: impl Fn(&Fattr3) -> Sattr3) {
        let stop = session.stop();
        // Nothing is listed ahead: whether a directory can be read may be what changes.
        let options = TreeOptions {
            ahead: 0,
            ..TreeOptions::default()
        };
        let mut walk = self.client.tree(root, &self.url.path, options);
        loop {
            let visit = tokio::select! {
                visit = walk.next() => visit,
                () = stop.asked() => None,
            };
            match visit {
                None => break,
                Some(Visit::Enter(found)) => {
                    let new = plan(&found.node.attributes);
                    let outcome = set(&self.client, &found, &new).await;
                    self.end(session, found.path, outcome);
                }
                Some(Visit::File(found)) => {
                    if found.node.attributes.ftype == Ftype3::Lnk && !self.scope.links {
                        continue;
                    }
                    let new = plan(&found.node.attributes);
                    let client = self.client.clone();
                    self.calls.spawn(async move {
                        let outcome = set(&client, &found, &new).await;
                        (found.path, outcome)
                    });
                    while self.calls.len() >= CALLS_IN_FLIGHT_MAX {
                        self.end_one(session).await;
                    }
                }
                Some(Visit::Leave(_)) => {}
                Some(Visit::Failed { path, error }) => {
                    session.failed(&self.url.with_path(path), error);
                }
            }
        }
        while !self.calls.is_empty() {
            self.end_one(session).await;
        }
        if stop.is_set() {
            let (changed, url) = (self.changed, self.url);
            eprintln!(
                "penstock: interrupted: {changed} changed below {url}; run it again to go on"
            );
        }
    }

    async fn end_one(&mut self, session: &mut Session) {
        if let Some(Ok((path, outcome))) = self.calls.join_next().await {
            self.end(session, path, outcome);
        }
    }

    fn end(&mut self, session: &mut Session, path: Vec<u8>, outcome: Result<(), ClientError>) {
        match outcome {
            Ok(()) => {
                self.changed += 1;
                if self.scope.verbose {
                    show::say(self.url.with_path(path));
                }
            }
            // Removed meanwhile, which is nobody's failure.
            Err(error) if error.status() == Some(Nfsstat3::Stale) => {}
            Err(error) => session.failed(&self.url.with_path(path), error),
        }
    }
}

async fn set(client: &Client, found: &Found, new: &Sattr3) -> Result<(), ClientError> {
    client
        .setattr_handle(&found.node.handle, new)
        .await
        .map(drop)
}
