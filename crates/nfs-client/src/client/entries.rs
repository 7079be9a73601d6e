//! A directory as a stream of its entries.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;

use super::{DirEntry, DirStream};
use crate::error::ClientError;

/// The entries of a directory, one by one, `.` and `..` left out: see [`DirStream::entries`]. After an error there is
/// nothing more to come.
#[must_use = "nothing is asked of the server before the next entry is"]
pub struct Entries {
    page: vec::IntoIter<DirEntry>,
    next: Next,
}

/// Where the page after this one comes from.
enum Next {
    /// Nobody has asked for it.
    Resting(Box<DirStream>),
    Reading(Reading),
    Over,
}

type Reading = Pin<Box<dyn Future<Output = (Box<DirStream>, Page)> + Send + Sync>>;

type Page = Result<Option<Vec<DirEntry>>, ClientError>;

impl DirStream {
    /// What is still to come, as a stream of single entries.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/served/mod.rs"));
    /// # use std::pin::pin;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let served = Served::start();
    /// # let url = served.url.clone();
    /// use futures_core::Stream as _;
    ///
    /// let (client, _) = nfs_client::Client::mount(&url).await?;
    /// client.mkdir("letters", 0o755).await?;
    /// let mut entries = client.list(client.root(), true).entries();
    /// // As `entries.next().await` of the crate futures.
    /// let first = std::future::poll_fn(|cx| pin!(&mut entries).poll_next(cx)).await;
    /// assert_eq!(first.unwrap()?.name, b"letters");
    /// # Ok(())
    /// # }
    /// ```
    pub fn entries(self) -> Entries {
        Entries {
            page: Vec::new().into_iter(),
            next: Next::Resting(Box::new(self)),
        }
    }
}

impl Stream for Entries {
    type Item = Result<DirEntry, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(entry) = this.page.find(|entry| !entry.is_dot()) {
                return Poll::Ready(Some(Ok(entry)));
            }
            match &mut this.next {
                Next::Over => return Poll::Ready(None),
                Next::Reading(reading) => {
                    let (stream, page) = ready!(reading.as_mut().poll(cx));
                    this.next = Next::Over;
                    match page {
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(Some(Err(error))),
                        Ok(Some(page)) => {
                            this.page = page.into_iter();
                            this.next = Next::Resting(stream);
                        }
                    }
                }
                Next::Resting(_) => {
                    if let Next::Resting(stream) = std::mem::replace(&mut this.next, Next::Over) {
                        this.next = Next::Reading(Box::pin(read(stream)));
                    }
                }
            }
        }
    }
}

async fn read(mut stream: Box<DirStream>) -> (Box<DirStream>, Page) {
    let page = stream.next().await;
    (stream, page)
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}
