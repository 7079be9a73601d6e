//! A directory that changes while it is read: whether cookies stay good, and what is said to a verifier
//! that is not theirs.

use std::collections::HashMap;

use nfs_wire::nfs3::FileHandle;

use super::own::Own;
use super::{Ground, flat, timed};
use crate::doctor::facts::{Answered, CookieTrial, Refusal, Times};
use crate::limits::{DOCTOR_ENTRIES, DOCTOR_PAGE_BYTES, DOCTOR_PAGES_MAX};
use crate::nfs3::ReaddirOk;

/// How far a listing came.
#[derive(Default)]
struct Listing {
    /// How often each name was listed.
    seen: HashMap<Vec<u8>, u32>,
    pages: usize,
    cookie: u64,
    verifier: [u8; 8],
    over: bool,
}

impl Listing {
    fn add(&mut self, page: ReaddirOk) {
        self.pages += 1;
        self.over = page.eof;
        self.verifier = page.cookieverf;
        for entry in page.entries {
            self.cookie = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                *self.seen.entry(entry.name).or_default() += 1;
            }
        }
    }
}

fn name(number: usize) -> Vec<u8> {
    // Long names make many pages of few entries.
    format!("entry-{number:04}-{}", "x".repeat(80)).into_bytes()
}

impl Ground<'_> {
    /// Lists a directory page by page. After the first page, an entry that was listed and one that was not are
    /// removed, and one is added.
    pub(super) async fn cookies(&self, own: &Own) -> Answered<CookieTrial> {
        let dir = self.mkdir(&own.handle, b"cookies", 0o700).await?;
        let mut create = Vec::with_capacity(DOCTOR_ENTRIES);
        for number in 0..DOCTOR_ENTRIES {
            let name = name(number);
            let (made, took) = timed(async || self.new_file(&dir, &name).await).await;
            made?;
            create.push(took);
        }
        let mut listing = Listing::default();
        listing.add(self.page(&dir, &listing).await?);
        let mut lasting: Vec<Vec<u8>> = (0..DOCTOR_ENTRIES).map(name).collect();
        let mut other_verifier = None;
        if !listing.over {
            other_verifier = Some(self.with_other_verifier(&dir, &listing).await);
            for listed in [true, false] {
                let is_it = |name: &Vec<u8>| listing.seen.contains_key(name) == listed;
                if let Some(at) = lasting.iter().position(is_it) {
                    self.remove(&dir, &lasting.swap_remove(at)).await?;
                }
            }
            self.new_file(&dir, &name(DOCTOR_ENTRIES)).await?;
        }
        let failure = self.rest(&dir, &mut listing).await.err();
        let times = |name: &Vec<u8>| listing.seen.get(name).copied().unwrap_or(0);
        Ok(CookieTrial {
            lasting: lasting.len(),
            pages: listing.pages,
            lost: lasting.iter().filter(|name| times(name) == 0).count(),
            twice: listing.seen.values().filter(|&&times| times > 1).count(),
            failure,
            other_verifier,
            create: Times::from(create),
        })
    }

    async fn page(&self, dir: &FileHandle, listing: &Listing) -> Answered<ReaddirOk> {
        let (cookie, verifier) = (listing.cookie, listing.verifier);
        let page = self
            .nfs
            .readdir(dir, cookie, verifier, DOCTOR_PAGE_BYTES)
            .await;
        flat(page)
    }

    async fn rest(&self, dir: &FileHandle, listing: &mut Listing) -> Answered<()> {
        while !listing.over {
            let page = self.page(dir, listing).await?;
            let goes_on = page.eof || !page.entries.is_empty();
            if !goes_on || listing.pages >= DOCTOR_PAGES_MAX {
                let text = format!("it did not end within {} pages", listing.pages);
                return Err(Refusal::Call(text));
            }
            listing.add(page);
        }
        Ok(())
    }

    /// The next page, asked for with a verifier that the server has not given.
    async fn with_other_verifier(&self, dir: &FileHandle, listing: &Listing) -> Answered<()> {
        let other = Listing {
            cookie: listing.cookie,
            verifier: listing.verifier.map(|byte| !byte),
            ..Listing::default()
        };
        self.page(dir, &other).await.map(|_| ())
    }
}
