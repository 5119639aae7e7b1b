//! One cycle through all lines of an array, in an order that no prefetcher guesses, computed line by line.
//!
//! The cycle is `x + 1 (mod lines)`, transformed by a bijection that scatters the lines: the successor of a line is
//! found by the inverse bijection, an addition of one, and the bijection. A cycle of millions of lines can therefore
//! be written in one pass from the first line to the last; shuffling would miss the caches at every step.

use crate::arithmetic::inverse;

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xbf58_476d_1ce4_e5b9;
const FIRST_INVERSE: u64 = inverse(FIRST);
const SECOND_INVERSE: u64 = inverse(SECOND);

/// A full cycle through `0..lines`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycle {
    lines: u64,
    mask: u64,
    shift: u32,
}

impl Cycle {
    /// The cycle through `lines` lines; at least 4.
    pub(crate) fn new(lines: u32) -> Self {
        let bits = lines.max(4).next_power_of_two().ilog2();
        // Shifting by at least half the bits makes `x ^ x >> shift` its own inverse.
        Cycle { lines: u64::from(lines.max(4)), mask: (1 << bits) - 1, shift: bits.div_ceil(2) }
    }

    /// The number of lines.
    pub(crate) fn lines(&self) -> u32 {
        self.lines as u32
    }

    /// The line at a place of the cycle, counted from the line at place 0; `place` is below the number of lines.
    pub(crate) fn line_at(&self, place: u32) -> u32 {
        self.within(u64::from(place), |x| self.scatter(x)) as u32
    }

    /// The line that follows this one.
    pub(crate) fn next(&self, line: u32) -> u32 {
        let place = self.within(u64::from(line), |x| self.gather(x)) + 1;
        let place = if place == self.lines { 0 } else { place };
        self.line_at(place as u32)
    }

    /// Bijections of a power of two become bijections of `lines` by going on while the result lies outside.
    fn within(&self, mut x: u64, bijection: impl Fn(u64) -> u64) -> u64 {
        loop {
            x = bijection(x);
            if x < self.lines {
                return x;
            }
        }
    }

    fn scatter(&self, x: u64) -> u64 {
        let x = x.wrapping_mul(FIRST) & self.mask;
        let x = (x ^ x >> self.shift).wrapping_mul(SECOND) & self.mask;
        x ^ x >> self.shift
    }

    fn gather(&self, x: u64) -> u64 {
        let x = (x ^ x >> self.shift).wrapping_mul(SECOND_INVERSE) & self.mask;
        (x ^ x >> self.shift).wrapping_mul(FIRST_INVERSE) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length_of_cycle(lines: u32) -> u32 {
        let cycle = Cycle::new(lines);
        let (mut at, mut length) = (cycle.next(0), 1);
        while at != 0 && length <= lines {
            assert!(at < lines);
            at = cycle.next(at);
            length += 1;
        }
        length
    }

    proptest! {
        #[test]
        fn every_line_is_on_one_cycle(lines in 4u32..20_000) {
            prop_assert_eq!(length_of_cycle(lines), lines);
        }

        #[test]
        fn gathering_undoes_scattering(lines in 4u32.., x: u64) {
            let cycle = Cycle::new(lines.min(1 << 31));
            let x = x & cycle.mask;
            prop_assert_eq!(cycle.gather(cycle.scatter(x)), x);
        }
    }

    #[test]
    fn sizes_that_are_measured_have_one_cycle_in_random_order_of_lines_and_pages() {
        for lines in [256u32, 384, 1 << 12, 3 << 13, 1 << 16, 3 << 17, 1 << 20] {
            assert_eq!(length_of_cycle(lines), lines);
            let cycle = Cycle::new(lines);
            assert_eq!(cycle.line_at(1), cycle.next(cycle.line_at(0)));
            let (mut at, mut near, mut hop_sum, mut hops) = (0, 0u32, 0f64, std::collections::HashSet::new());
            for _ in 0..lines {
                let next = cycle.next(at);
                let hop = i64::from(next) - i64::from(at);
                // A page holds 64 lines of 64 bytes.
                near += u32::from((i64::from(next / 64) - i64::from(at / 64)).abs() <= 1);
                hop_sum += hop.abs() as f64;
                hops.insert(hop);
                at = next;
            }
            let pages = f64::from(lines / 64);
            let share_near = f64::from(near) / f64::from(lines);
            assert!(share_near < 0.01 + 2.0 * (3.0 / pages), "{lines} lines: {share_near} of hops are near");
            // Two independent uniform places are a third of the range apart on average.
            let mean_hop = hop_sum / f64::from(lines) / f64::from(lines);
            assert!((0.25..0.42).contains(&mean_hop), "{lines} lines: mean hop {mean_hop}");
            // No stride that a prefetcher could learn.
            assert!(
                hops.len() as f64 > f64::from(lines).min(65_536.0) * 0.3,
                "{lines} lines: {} hops",
                hops.len()
            );
        }
    }
}
