//! The blocks of one class that nobody uses.

use std::collections::HashMap;

use super::block::Block;

/// Kept in the order in which they came back: the one that is taken next is the warmest.
#[derive(Default)]
pub(super) struct Idle {
    blocks: Vec<Block>,
    /// So many from the beginning were there at the last sweep, and have been since.
    untouched: usize,
}

impl Idle {
    pub(super) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    pub(super) fn pop(&mut self) -> Option<Block> {
        let block = self.blocks.pop();
        self.untouched = self.untouched.min(self.blocks.len());
        block
    }

    /// Takes out what nobody used since the last sweep. Of a huge page that somebody uses another part of nothing
    /// is taken: it would be a huge page no more.
    pub(super) fn sweep(&mut self) -> Vec<Block> {
        let rest = self.blocks.split_off(self.untouched);
        let untouched = std::mem::take(&mut self.blocks);
        let mut parts = HashMap::new();
        for part in untouched.iter().filter_map(Block::part_of) {
            *parts.entry(part.mapping).or_insert(0_usize) += 1;
        }
        let is_whole = |block: &Block| match block.part_of() {
            Some(part) => parts.get(&part.mapping) == Some(&part.of),
            None => true,
        };
        let (gone, kept) = untouched.into_iter().partition(is_whole);
        self.blocks = kept;
        self.blocks.extend(rest);
        self.untouched = self.blocks.len();
        gone
    }
}
