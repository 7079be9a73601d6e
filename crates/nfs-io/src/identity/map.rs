//! Which ids this user namespace has. user_namespaces(7), "User and group ID mappings".

use std::path::Path;

/// The ids that have a meaning here; the kernel refuses others, and shows files of others as nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdMap {
    /// Ranges of ids, each as its first id and how many there are.
    ranges: Vec<(u32, u32)>,
}

impl IdMap {
    /// The users of this process's namespace.
    pub(super) fn of_users() -> Self {
        Self::read(Path::new("/proc/self/uid_map"))
    }

    /// The groups of this process's namespace.
    pub(super) fn of_groups() -> Self {
        Self::read(Path::new("/proc/self/gid_map"))
    }

    /// Reads the map of a process's user namespace. Where there is no such file to read, every id counts as
    /// known: the kernel will refuse those that are not.
    fn read(path: &Path) -> Self {
        std::fs::read_to_string(path).map_or_else(|_| Self::whole(), |text| Self::parse(&text))
    }

    pub(super) fn whole() -> Self {
        Self {
            ranges: vec![(0, u32::MAX)],
        }
    }

    /// Lines of three numbers: first id inside, first outside, how many. The kernel's own text; a line that
    /// is not such is passed over.
    fn parse(text: &str) -> Self {
        let range = |line: &str| {
            let mut numbers = line.split_whitespace().map(str::parse::<u32>);
            let first = numbers.next()?.ok()?;
            Some((first, numbers.nth(1)?.ok()?))
        };
        Self {
            ranges: text.lines().filter_map(range).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn of_ranges(ranges: &[(u32, u32)]) -> Self {
        Self {
            ranges: ranges.to_vec(),
        }
    }

    /// Whether this id has a meaning here.
    pub(super) fn has(&self, id: u32) -> bool {
        self.ranges
            .iter()
            .any(|&(first, count)| id.checked_sub(first).is_some_and(|nth| nth < count))
    }

    /// Some id of it that is not this one.
    pub(super) fn other_than(&self, id: u32) -> Option<u32> {
        let candidates = self.ranges.iter().flat_map(|&(first, _)| {
            // The first two of each range: one of them is another.
            [Some(first), first.checked_add(1)]
        });
        candidates
            .flatten()
            .find(|&candidate| candidate != id && self.has(candidate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_the_kernel_writes_it() {
        let whole = IdMap::parse("         0          0 4294967295\n");
        assert_eq!(whole, IdMap::whole());
        assert!(whole.has(0) && whole.has(u32::MAX - 1) && !whole.has(u32::MAX));
        let one = IdMap::parse("         0       1000          1\n");
        assert!(one.has(0) && !one.has(1) && !one.has(1000));
        let two = IdMap::parse("0 1000 1\n1 100000 65536\n");
        assert!(two.has(65_536) && !two.has(65_537));
        for (map, id, other) in [
            (&whole, 0, Some(1)),
            (&whole, 7, Some(0)),
            (&one, 0, None),
            (&one, 5, Some(0)),
            (&two, 0, Some(1)),
        ] {
            assert_eq!(map.other_than(id), other);
        }
        let none = IdMap::parse("odd\n1 2\n-1 0 9\n");
        assert!(!none.has(0) && none.other_than(0).is_none());
    }
}
