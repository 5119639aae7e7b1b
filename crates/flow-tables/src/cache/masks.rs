//! The masks under which a cache keeps outcomes: the bits on which the passages of earlier frames depended.
//!
//! The number of masks is fixed. An outcome is kept under the first mask that has its bits and few others, also if it must be
//! widened by few bits: frames then have more outcomes, and no look-up more. Other outcomes get a mask of their own. When
//! there are as many masks as there may be, such an outcome goes to a mask that has its bits, or widens the last one. So the
//! last mask grows to the compared bits of the tables, at worst, and the others stay narrow: a sender that chooses its frames
//! well gets one outcome for each of them, and no more look-ups.
use std::cmp::Reverse;

use flow::{Field, Key};

use crate::fields::{FRAME_WORDS, frame_words};
use crate::plain::{self, HEAD_BYTES, HEAD_WORDS, Kind};

/// The most masks of the frames that begin in one place, and so the most look-ups of a hit.
pub const MASKS: usize = 4;
/// The most places where frames begin: behind each `ct` of a chain of tables there is one.
pub(super) const STARTS: usize = 32;

/// The most bits by which a mask but the last is widened. Each of them at most doubles the number of outcomes.
const WIDER: u32 = 8;

/// After so many outcomes, masks are brought into the order of their hits.
const SORTED: u32 = 64;

/// By which words frames are compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// By those of their fields.
    Fields,
    /// By those of their first bytes, for plain frames of this kind.
    Plain(Kind),
}

/// A word of compared fields or bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// The index of the word in a key or in the first bytes.
    pub at: u8,
    pub mask: u64,
}

/// The compared bits of some outcomes.
#[derive(Debug)]
pub(super) struct Mask {
    /// A number that no other mask of the cache has.
    id: u64,
    words: Vec<Word>,
    /// The words of plain frames' first bytes, by kind.
    plain: [Vec<Word>; Kind::ALL.len()],
    /// The compared bits of plain frames' first bytes, by kind.
    heads: [[u8; HEAD_BYTES]; Kind::ALL.len()],
    /// The bits of the frame's own fields.
    pub frame: [u64; FRAME_WORDS],
    bits: Key,
    /// The number of bits, and that of the bits that the mask had at first.
    count: u32,
    first: u32,
    /// Hits, of which those count more that were not long ago.
    hits: u64,
}

impl Mask {
    fn new() -> Self {
        let words = Vec::with_capacity(Key::WORDS);
        let plain = Kind::ALL.map(|_| Vec::with_capacity(HEAD_WORDS));
        let heads = Kind::ALL.map(|_| [0; HEAD_BYTES]);
        let frame = [0; FRAME_WORDS];
        Self { id: 0, words, plain, heads, frame, bits: Key::ZERO, count: 0, first: 0, hits: 0 }
    }

    /// The words by which frames are compared in a form, and a number that no other form of a mask has.
    #[inline(always)]
    pub fn form(&self, form: Form) -> (u64, &[Word]) {
        match form {
            Form::Fields => (self.id << 3, &self.words),
            Form::Plain(kind) => (self.id << 3 | (1 + kind.number() as u64), &self.plain[kind.number()]),
        }
    }

    /// The compared bits of plain frames' first bytes.
    pub fn head(&self, kind: Kind) -> &[u8; HEAD_BYTES] {
        &self.heads[kind.number()]
    }

    /// Gets these bits and a new number.
    fn set(&mut self, id: u64, bits: &Key) {
        (self.id, self.frame, self.bits, self.count) = (id, *frame_words(bits), *bits, count(bits));
        // The words of frames tell them apart sooner than those of registers.
        let others = (0..Field::FRAME_WORDS.start).chain(Field::FRAME_WORDS.end..Key::WORDS);
        let words = Field::FRAME_WORDS.chain(others).map(|at| Word { at: at as u8, mask: bits.words()[at] }); // 51 words
        self.words.clear();
        self.words.extend(words.filter(|word| word.mask != 0));
        for kind in Kind::ALL {
            let head = plain::mask(bits, kind);
            let words = plain::words(&head).into_iter().enumerate();
            let words = words.map(|(at, mask)| Word { at: at as u8, mask }); // 8 words
            let plain = &mut self.plain[kind.number()];
            plain.clear();
            plain.extend(words.filter(|word| word.mask != 0));
            self.heads[kind.number()] = head;
        }
    }
}

fn count(bits: &Key) -> u32 {
    bits.words().iter().map(|word| word.count_ones()).sum()
}

fn both(one: &Key, other: &Key) -> Key {
    let mut both = *one;
    both.add(other);
    both
}

/// The masks of the frames that begin in one place.
#[derive(Debug)]
pub(super) struct Masks {
    /// The number of this place, see [`Start::number`](crate::segment::Start::number); 0 for the first segment. `None` for
    /// masks that are not in use.
    pub from: Option<u64>,
    all: [Mask; MASKS],
    used: usize,
    /// The masks in the order in which frames are looked up: the one with the most hits first.
    order: [usize; MASKS],
    /// The bits of all masks.
    union: Key,
    /// How many outcomes were kept.
    taken: u32,
}

impl Masks {
    pub fn new(from: u64) -> Self {
        let all = [(); MASKS].map(|()| Mask::new());
        Self {
            from: Some(from),
            all,
            used: 0,
            order: std::array::from_fn(|at| at),
            union: Key::ZERO,
            taken: 0,
        }
    }

    /// Forgets all masks. Their memory is kept for the masks of this place.
    pub fn begin(&mut self, from: Option<u64>) {
        (self.from, self.used, self.union) = (from, 0, Key::ZERO);
        self.all[0].bits = Key::ZERO;
    }

    pub fn order(&self) -> &[usize] {
        &self.order[..self.used]
    }

    pub fn get(&self, mask: usize) -> &Mask {
        &self.all[mask]
    }

    /// The bits on which outcomes should depend rather than on others, the best first.
    pub fn preferred(&self) -> [&Key; 2] {
        [&self.all[0].bits, &self.union]
    }

    /// Counts a hit.
    pub fn hit(&mut self, mask: usize) {
        self.all[mask].hits += 1;
    }

    /// The mask for an outcome that depends on these bits. New masks get numbers behind `last`. Outcomes under a mask that is
    /// made wider are not found any more.
    pub fn take(&mut self, bits: &Key, last: &mut u64) -> usize {
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(SORTED) {
            self.sort();
        }
        let all = &self.all[..self.used];
        if let Some(at) = all.iter().position(|mask| mask.bits == *bits) {
            return at;
        }
        let wanted = count(bits);
        let has = |mask: &Mask| bits.is_within(&mask.bits);
        if let Some(at) = all.iter().position(|mask| mask.count <= wanted + WIDER && has(mask)) {
            return at;
        }
        let fits = |mask: &Mask| count(&both(&mask.bits, bits)) <= WIDER + mask.first.min(wanted);
        let at = match all.iter().position(fits) {
            Some(at) => at,
            None if self.used < MASKS => {
                self.order[self.used] = self.used;
                self.used += 1;
                let mask = &mut self.all[self.used - 1];
                (mask.bits, mask.first, mask.hits) = (Key::ZERO, wanted, 0);
                self.used - 1
            }
            None => match all.iter().position(has) {
                Some(at) => return at,
                None => MASKS - 1,
            },
        };
        self.union.add(bits);
        let mask = &mut self.all[at];
        *last += 1;
        mask.set(*last, &both(&mask.bits, bits));
        at
    }

    /// Brings the masks into the order of their hits, of which those count more that were not long ago.
    fn sort(&mut self) {
        let all = &mut self.all;
        self.order[..self.used].sort_by_key(|at| Reverse(all[*at].hits));
        all.iter_mut().for_each(|mask| mask.hits /= 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(of: &[(Field, u128)]) -> Key {
        of.iter().fold(Key::ZERO, |mut key, (field, bits)| {
            key.set(*field, *bits);
            key
        })
    }

    #[test]
    fn few_bits_widen_a_mask_and_many_make_one() {
        let (mut masks, mut last) = (Masks::new(0), 0);
        let ids = |masks: &Masks| masks.order().iter().map(|at| masks.get(*at).id).collect::<Vec<_>>();
        let ports = |of: u128| bits(&[(Field::TcpDst, of)]);
        assert_eq!(masks.take(&ports(1 << 15), &mut last), 0);
        assert_eq!(masks.take(&ports(1 << 14), &mut last), 0);
        assert_eq!(masks.take(&ports(1 << 15), &mut last), 0, "within it");
        assert_eq!((ids(&masks), masks.get(0).bits), (vec![2], ports(3 << 14)));
        // Another field: too many bits more.
        let address = |of: u128| bits(&[(Field::IpDst, of)]);
        assert_eq!(masks.take(&address(0xff00_0000), &mut last), 1);
        assert_eq!(masks.take(&address(0x00ff_ff00), &mut last), 2);
        assert_eq!(masks.take(&address(1 << 24), &mut last), 1, "within it");
        assert_eq!(masks.take(&bits(&[(Field::IpSrc, 8)]), &mut last), 0, "one bit more");
        masks.hit(2);
        assert_eq!(masks.take(&address(0xffff_ffff), &mut last), 3);
        masks.sort();
        assert_eq!(ids(&masks), [4, 5, 3, 6], "the one with hits is the first");
        let ipv6 = bits(&[(Field::Ipv6Dst, u128::MAX)]);
        assert_eq!(masks.take(&ipv6, &mut last), 3, "there is no room for another");
        masks.sort();
        assert_eq!(masks.all[3].id, 7);
        assert_eq!(masks.preferred()[0], &both(&ports(3 << 14), &bits(&[(Field::IpSrc, 8)])));
        let of_addresses = both(&address(0xffff_ffff), &bits(&[(Field::IpSrc, 8)]));
        assert_eq!(masks.preferred()[1], &both(&both(&ports(3 << 14), &of_addresses), &ipv6));
        // All bits are in the last mask, but it has many others.
        let (mut masks, mut last) = (Masks::new(0), 0);
        assert_eq!([u128::MAX, 1 << 3, 1 << 4].map(|of| masks.take(&ports(of), &mut last)), [0, 1, 1]);
        masks.begin(Some(7));
        assert_eq!((ids(&masks), masks.preferred()), (vec![], [&Key::ZERO; 2]));
    }

    /// Each mask that is new makes one of the masks wider, so that there are no more than there are bits.
    #[test]
    fn masks_come_to_rest_whatever_is_sent() {
        let (mut masks, mut last) = (Masks::new(0), 0);
        let mut state = 1_u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            masks.take(
                &bits(&[(Field::IpDst, (state >> 32).into()), (Field::TcpDst, (state >> 40).into())]),
                &mut last,
            );
            assert!(masks.order().len() <= MASKS);
        }
        assert!(last <= MASKS as u64 * 48, "{last}");
    }
}
