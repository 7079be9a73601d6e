//! The shape of a source tree that is unpacked: directories of many small files and some symbolic links, made one after
//! the other as tar(1) does it. Pure functions of a directory's number, so that every run unpacks the same tree.

use fastrand::Rng;

/// Files and links of one directory.
pub const ENTRIES: u64 = 16;
/// Which of them is a link, where a directory has one.
const LINK: u64 = ENTRIES - 1;
/// In one of so many directories.
const LINK_EVERY: u64 = 4;
/// Files have from 1 byte to this: two thirds of them less than 4 KiB, and few of them much more.
const LARGEST_BYTES: u32 = 64 << 10;
const SEED: u64 = 7;

/// What lies in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file of so many bytes.
    File(u32),
    /// A symbolic link to the first file of the directory.
    Link,
}

/// How many directories a tree of so many files and links has.
#[must_use]
pub const fn directories(entries: u64) -> u64 {
    entries.div_ceil(ENTRIES)
}

/// What lies in the directory of this number, in a tree of so many files and links.
pub fn directory(number: u64, entries: u64) -> impl Iterator<Item = Entry> {
    let here = entries
        .saturating_sub(number.saturating_mul(ENTRIES))
        .min(ENTRIES);
    (0..here).map(move |entry| match entry {
        LINK if number.is_multiple_of(LINK_EVERY) => Entry::Link,
        _ => Entry::File(bytes(number * ENTRIES + entry)),
    })
}

/// How many bytes a file has: as many digits as any other, in base two.
fn bytes(file: u64) -> u32 {
    let mut rng = Rng::with_seed(SEED ^ file.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let most = LARGEST_BYTES >> rng.u32(..9);
    rng.u32(1..=most)
}

/// How many calls an NFSv3 client makes for a file or link of the tree, in the mean: MKDIR and LOOKUP for each
/// directory; CREATE, WRITE, SETATTR and COMMIT for a file; SYMLINK for a link.
#[must_use]
pub fn calls_per_entry(entries: u64) -> f64 {
    // A directory has its link at its end.
    let links = (entries / ENTRIES).div_ceil(LINK_EVERY);
    let calls = 2 * directories(entries) + 4 * (entries - links) + links;
    calls as f64 / entries.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: u64) -> Vec<Vec<Entry>> {
        (0..directories(entries))
            .map(|number| directory(number, entries).collect())
            .collect()
    }

    #[test]
    fn a_tree_has_as_many_files_and_links_as_it_is_told_and_is_the_same_each_time() {
        assert_eq!(calls_per_entry(0), 0.0);
        for entries in [1, 15, 16, 17, 79, 80, 1000] {
            let found = tree(entries);
            assert_eq!(found, tree(entries));
            assert_eq!(found.iter().map(Vec::len).sum::<usize>() as u64, entries);
            assert!(
                found
                    .iter()
                    .all(|directory| matches!(directory[0], Entry::File(_)))
            );
            let calls: u64 = found
                .iter()
                .flatten()
                .map(|one| if *one == Entry::Link { 1 } else { 4 })
                .sum();
            let all = (calls + 2 * directories(entries)) as f64 / entries as f64;
            assert!((calls_per_entry(entries) - all).abs() < 1e-9, "{entries}");
        }
    }

    #[test]
    fn most_files_are_small_and_some_are_large() {
        let mut sizes: Vec<u32> = tree(4000)
            .into_iter()
            .flatten()
            .filter_map(|entry| match entry {
                Entry::File(bytes) => Some(bytes),
                Entry::Link => None,
            })
            .collect();
        sizes.sort_unstable();
        let (least, median, most) = (sizes[0], sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
        assert!(
            least >= 1 && (500..4096).contains(&median),
            "{least} {median}"
        );
        assert!((32 << 10..=64 << 10).contains(&most), "{most}");
    }
}
