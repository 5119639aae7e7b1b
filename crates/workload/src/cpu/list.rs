//! List processing: build, search, reverse and sort a linked list whose links are indices.

use std::hint::black_box;

use super::kernel::Kernel;
use super::mix::{Generator, fold};

const NODES: usize = 256;
const SEARCHES: usize = 16;
const END: u16 = u16::MAX;
const SEED: u32 = 0x5eed_1157;

/// Nodes are scattered over the arrays in the order of a stride, so that a walk is not a sweep.
const STRIDE: usize = 101;

pub(crate) struct List {
    next: [u16; NODES],
    key: [u16; NODES],
    seed: u32,
}

impl Default for List {
    fn default() -> Self {
        List { next: [END; NODES], key: [0; NODES], seed: SEED }
    }
}

impl Kernel for List {
    const EXPECTED: u32 = 0xa4ff_8565;

    fn run(&mut self) -> u32 {
        let mut keys = Generator::new(black_box(self.seed));
        let mut head = self.build(&mut keys);
        let mut sum = 0;
        for _ in 0..SEARCHES {
            sum = fold(sum, self.steps_to((keys.next() >> 16) as u16, head));
        }
        head = self.reverse(head);
        sum = fold(sum, u32::from(self.key[usize::from(head)]));
        head = self.sort(head);
        let mut at = head;
        while at != END {
            sum = fold(sum, u32::from(self.key[usize::from(at)]));
            at = self.next[usize::from(at)];
        }
        sum
    }

    #[cfg(test)]
    fn corrupt(&mut self) {
        self.seed ^= 1;
    }
}

impl List {
    fn build(&mut self, keys: &mut Generator) -> u16 {
        let mut at = 0;
        for place in 0..NODES {
            let following = (at + STRIDE) % NODES;
            self.key[at] = (keys.next() >> 16) as u16;
            self.next[at] = if place + 1 == NODES { END } else { following as u16 };
            at = following;
        }
        0
    }

    /// Steps to the first node whose key shares the low six bits, or to the end.
    fn steps_to(&self, key: u16, head: u16) -> u32 {
        let (mut at, mut steps) = (head, 0);
        while at != END && (self.key[usize::from(at)] ^ key) & 0x3f != 0 {
            at = self.next[usize::from(at)];
            steps += 1;
        }
        steps
    }

    fn reverse(&mut self, head: u16) -> u16 {
        let (mut at, mut reversed) = (head, END);
        while at != END {
            let following = self.next[usize::from(at)];
            self.next[usize::from(at)] = reversed;
            reversed = at;
            at = following;
        }
        reversed
    }

    /// Bottom-up merge sort: a bin per power of two, as a binary counter.
    fn sort(&mut self, head: u16) -> u16 {
        let mut bins = [END; NODES.ilog2() as usize + 1];
        let mut at = head;
        while at != END {
            let mut run = at;
            at = self.next[usize::from(at)];
            self.next[usize::from(run)] = END;
            for bin in &mut bins {
                if *bin == END {
                    *bin = run;
                    break;
                }
                run = self.merge(std::mem::replace(bin, END), run);
            }
        }
        bins.into_iter().fold(END, |sorted, bin| self.merge(bin, sorted))
    }

    fn merge(&mut self, mut left: u16, mut right: u16) -> u16 {
        let (mut head, mut tail) = (END, END);
        while left != END || right != END {
            let from_left =
                right == END || left != END && self.key[usize::from(left)] <= self.key[usize::from(right)];
            let taken = if from_left { &mut left } else { &mut right };
            let node = *taken;
            *taken = self.next[usize::from(node)];
            if tail == END {
                head = node;
            } else {
                self.next[usize::from(tail)] = node;
            }
            tail = node;
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_value_is_that_of_a_plain_vector() {
        let mut generator = Generator::new(SEED);
        let mut keys: Vec<u16> = (0..NODES).map(|_| (generator.next() >> 16) as u16).collect();
        let mut sum = 0;
        for _ in 0..SEARCHES {
            let wanted = (generator.next() >> 16) as u16 % 64;
            sum = fold(sum, keys.iter().position(|key| key % 64 == wanted).unwrap_or(NODES) as u32);
        }
        sum = fold(sum, u32::from(*keys.last().unwrap()));
        keys.sort();
        sum = keys.iter().fold(sum, |sum, key| fold(sum, u32::from(*key)));
        assert_eq!(List::EXPECTED, sum, "{sum:#010x}");
    }
}
