//! The paired difference of two sides and its interval, for counts, which may be zero; a ratio does not exist then.

use crate::bootstrap::Block;
use crate::median_interval;
use crate::statistics::median;

/// The difference other - base, with an interval that covers at least 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferenceEstimate {
    /// The median over the blocks of the difference of the two medians.
    pub difference: f64,
    /// The low and the high end; `None` with fewer than [`crate::bootstrap::MIN_BLOCKS`] blocks.
    pub interval: Option<(f64, f64)>,
    /// The number of blocks that hold both sides.
    pub blocks: usize,
}

/// The difference other - base over blocks. Blocks that lack a side are left out; returns `None` if no block remains.
pub fn difference(blocks: &[Block]) -> Option<DifferenceEstimate> {
    let of_block = |block: &Block| {
        let difference = median(&block.other)? - median(&block.base)?;
        difference.is_finite().then_some(difference)
    };
    let differences: Vec<f64> = blocks.iter().filter_map(of_block).collect();
    let interval = median_interval::interval(&differences);
    Some(DifferenceEstimate { difference: median(&differences)?, interval, blocks: differences.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(base: f64, other: f64) -> Block {
        Block { base: vec![base], other: vec![other] }
    }

    #[test]
    fn zeros_have_a_difference_and_what_hits_both_sides_leaves_it() {
        let blocks: Vec<Block> =
            (0..6).map(|n| block(f64::from(n) * 100.0, f64::from(n) * 101.0 - 5.0)).collect();
        let found = difference(&blocks).unwrap();
        assert_eq!(found, DifferenceEstimate { difference: -2.5, interval: Some((-5.0, 0.0)), blocks: 6 });
        assert_eq!(difference(&blocks[..5]).unwrap().interval, None);
        let lacking = Block { base: vec![], other: vec![1.0] };
        assert_eq!(difference(&[lacking, block(f64::NAN, 1.0)]), None);
    }
}
