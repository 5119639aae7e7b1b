//! Measures load latency by following a chain of loads, each of which reads the place of the next.
//!
//! The array is made of lines of 64 bytes, of which each load uses one. A line has 16 slots of four bytes, and
//! a slot belongs to one chain. One chain visits the lines in their order; it serves every size and returns to its
//! start at the size's end. The other chains are one random cycle for each size. This keeps chains that take long to
//! write.

use std::time::Duration;

use measure::Failure;

use super::arena::{Arena, Arenas, PageKind};
use super::chains::Chain;
use super::permutation::Cycle;
use super::sizes::{LINE_BYTES, LINE_WORDS};
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::clock::now_ns;
use crate::opaque::hide_u32;
use crate::trial::Trial;

/// The order in which lines are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessPattern {
    Sequential,
    Random,
}

/// Loads in one unit. Every array has a multiple of it in lines.
const LOADS: u32 = 128;

const SEQUENTIAL_SLOT: usize = 0;
/// Sizes below [`OWN_SLOT_BYTES`] share one slot: their cycles are written anew in no time.
const SHARED_SLOT: usize = 1;
const OWN_SLOT_BYTES: usize = 4 << 20;

/// Measures the latency of a load within an array of `bytes`.
pub(crate) fn measure(
    (order, pages, bytes): (AccessPattern, PageKind, usize),
    trial: &Trial,
    pace: &mut Pace,
    arenas: &mut Arenas,
) -> Result<Measured, Failure> {
    let arena = arenas.with_pages(pages, bytes)?;
    let slot = match order {
        AccessPattern::Sequential => SEQUENTIAL_SLOT,
        AccessPattern::Random => own_slot(bytes),
    };
    if order == AccessPattern::Random && arena.slots.0[slot].bytes != bytes {
        write_cycle(arena, slot, bytes);
    }
    let words = arena.area.half_words();
    sweep(&words[..bytes / 4]);
    if order == AccessPattern::Random {
        walk_ahead(words, slot, Cycle::new((bytes / LINE_BYTES) as u32), trial.budget / 2);
    }
    let end = (bytes / 4) as u32;
    // The sequential chain serves all sizes, so that its place may lie beyond this one's end.
    let mut at = if order == AccessPattern::Random { arena.slots.0[slot].at } else { 0 };
    let measured = batch::measure(trial.budget, Scale::nanos(f64::from(LOADS)), pace, |units| {
        timed(|| {
            at = match order {
                AccessPattern::Sequential => follow_in_turns(words, at, end, units),
                AccessPattern::Random => follow(words, at, units),
            };
            Ok(())
        })
    })?;
    if at as usize % LINE_WORDS != slot || at >= end {
        return Err(Failure::new(
            format!("following a chain through {} KiB", bytes >> 10),
            format!("it led to word {at}"),
            "do not trust this memory: run a memory test",
        ));
    }
    arena.slots.0[slot].at = at;
    Ok(measured)
}

/// Slots of the large sizes: two to an octave.
fn own_slot(bytes: usize) -> usize {
    if bytes < OWN_SLOT_BYTES {
        return SHARED_SLOT;
    }
    let octave = (bytes / OWN_SLOT_BYTES).ilog2() as usize;
    let upper_half = usize::from(!bytes.is_power_of_two());
    SHARED_SLOT + 1 + 2 * octave + upper_half
}

fn write_cycle(arena: &mut Arena, slot: usize, bytes: usize) {
    let lines = bytes / LINE_BYTES;
    let cycle = Cycle::new(lines as u32);
    for (line, words) in arena.area.half_words_mut().chunks_exact_mut(LINE_WORDS).take(lines).enumerate() {
        words[slot] = cycle.next(line as u32) * LINE_WORDS as u32 + slot as u32;
    }
    arena.slots.0[slot] = Chain { bytes, at: slot as u32 };
}

/// Reads every line once, so that caches and TLB hold of the array what they can.
fn sweep(words: &[u32]) {
    hide_u32(words.iter().step_by(LINE_WORDS).fold(0, |sum: u32, word| sum.wrapping_add(*word)));
}

/// Follows the cycle from places far apart at once for a while. Caches that are shared and guard themselves
/// against sweeps keep lines only after they were used again and again in their own order.
fn walk_ahead(words: &[u32], slot: usize, cycle: Cycle, time: Duration) {
    const WALKERS: u32 = 8;
    let mut places: [u32; WALKERS as usize] = std::array::from_fn(|walker| {
        let place = cycle.lines() / WALKERS * walker as u32;
        cycle.line_at(place) * LINE_WORDS as u32 + slot as u32
    });
    let until_ns = now_ns() + time.as_nanos() as u64;
    while now_ns() < until_ns {
        for _ in 0..2048 {
            for at in &mut places {
                *at = words[*at as usize];
            }
        }
    }
    hide_u32(places[0]);
}

#[inline(never)]
fn follow(words: &[u32], mut at: u32, units: u64) -> u32 {
    for _ in 0..units {
        at = one_unit(words, at);
    }
    at
}

#[inline(never)]
fn follow_in_turns(words: &[u32], mut at: u32, end: u32, units: u64) -> u32 {
    for _ in 0..units {
        at = one_unit(words, at);
        // By arithmetic, not by a branch: a predicted branch would start the next turn before this one's end.
        at -= hide_u32(u32::from(at == end)) * end;
    }
    at
}

#[inline(always)]
fn one_unit(words: &[u32], mut at: u32) -> u32 {
    for _ in 0..LOADS / 16 {
        // Unrolled by hand, so that an unoptimised build is the only one with a loop around each load.
        at = words[words[words[words[at as usize] as usize] as usize] as usize];
        at = words[words[words[words[at as usize] as usize] as usize] as usize];
        at = words[words[words[words[at as usize] as usize] as usize] as usize];
        at = words[words[words[words[at as usize] as usize] as usize] as usize];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sizes::{FULL_BYTES, LARGEST_BYTES};

    #[test]
    fn large_sizes_have_slots_of_their_own() {
        let slots: Vec<usize> =
            FULL_BYTES.iter().map(|&bytes| own_slot(bytes)).filter(|slot| *slot != SHARED_SLOT).collect();
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]), "{slots:?}");
        assert!(slots.iter().all(|slot| *slot < LINE_WORDS), "{slots:?}");
        assert_eq!(FULL_BYTES.last(), Some(&LARGEST_BYTES));
        assert!(FULL_BYTES.iter().all(|bytes| (bytes / LINE_BYTES).is_multiple_of(LOADS as usize)));
    }

    #[test]
    fn chains_visit_every_line_once_and_sizes_do_not_disturb_each_other() {
        let mut arenas = Arenas::default();
        let sizes = [96 << 10, 16 << 10, 6 << 20, 4 << 20, 24 << 10];
        for _ in 0..2 {
            for bytes in sizes {
                let arena = arenas.with_pages(PageKind::Small, bytes).unwrap();
                let slot = own_slot(bytes);
                if arena.slots.0[slot].bytes != bytes {
                    write_cycle(arena, slot, bytes);
                }
                let (words, lines) = (arena.area.half_words(), bytes / LINE_BYTES);
                let mut seen = vec![false; lines];
                let mut at = arena.slots.0[slot].at;
                for _ in 0..lines {
                    assert!(!std::mem::replace(&mut seen[at as usize / LINE_WORDS], true));
                    at = words[at as usize];
                }
                assert_eq!(at, arena.slots.0[slot].at);
                let units = (lines / LOADS as usize) as u64;
                assert_eq!(follow(words, at, units), at);
                assert_eq!(follow_in_turns(words, 0, (bytes / 4) as u32, units), 0);
                assert_eq!(
                    follow_in_turns(words, 0, (bytes / 4) as u32, 1) as usize,
                    LOADS as usize * LINE_WORDS % (bytes / 4)
                );
            }
        }
    }
}
