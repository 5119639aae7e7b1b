//! The tags of a frame.
use frame::HeadEdit;

/// IEEE 802.1Q C-tag and S-tag (802.1ad).
pub(super) const CUSTOMER: u16 = 0x8100;
pub(super) const SERVICE: u16 = 0x88a8;

/// The place of the first tag: behind the addresses.
const TAGS_AT: usize = 12;
const TAG_BYTES: usize = 4;

/// The most tags that are read. The bytes behind them are payload.
const READ: usize = 2;

/// Tags of a frame: those that are read, and one that a tunnel port puts in front.
const MOST: usize = READ + 1;

/// A tag: its type and its control information (priority, drop eligibility, VLAN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub kind: u16,
    pub control: u16,
}

impl Tag {
    const PRIORITY: u16 = 0xe000;

    pub fn vlan(self) -> u16 {
        self.control & 0xfff
    }

    /// The tag for another VLAN, with the same priority.
    pub fn of_vlan(self, vlan: u16) -> Tag {
        let kind = if self.kind == 0 { CUSTOMER } else { self.kind };
        Tag { kind, control: self.control & Self::PRIORITY | vlan }
    }

    /// The tag with the priority of another.
    pub fn of_priority(self, other: Tag) -> Tag {
        let kind = if self.kind == 0 { CUSTOMER } else { self.kind };
        Tag { kind, control: self.control & !Self::PRIORITY | other.control & Self::PRIORITY }
    }
}

/// Tags, the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tags {
    tags: [Tag; MOST],
    len: usize,
}

impl Tags {
    /// The first tags of a frame with this snapshot. A tag that is cut off by the frame's end does not count.
    #[inline(always)]
    pub fn of(snapshot: &[u8]) -> Tags {
        let mut tags = Tags::default();
        for at in 0..READ {
            let at = TAGS_AT + at * TAG_BYTES;
            // A tag, and the type of what follows.
            let Some(&[a, b, c, d, _, _]) = snapshot.get(at..).and_then(|rest| rest.first_chunk()) else {
                break;
            };
            let tag = Tag { kind: u16::from_be_bytes([a, b]), control: u16::from_be_bytes([c, d]) };
            if !matches!(tag.kind, CUSTOMER | SERVICE) {
                break;
            }
            tags.tags[tags.len] = tag;
            tags.len += 1;
        }
        tags
    }

    /// Whether a frame with this snapshot has these tags.
    #[inline(always)]
    pub fn are_of(&self, snapshot: &[u8]) -> bool {
        let kind =
            snapshot.get(TAGS_AT..).and_then(|rest| rest.first_chunk()).copied().map(u16::from_be_bytes);
        match kind {
            Some(CUSTOMER | SERVICE) => Tags::of(snapshot) == *self,
            _ => self.len == 0,
        }
    }

    /// The tag at a position; all zeros if there is none.
    pub fn get(&self, at: usize) -> Tag {
        self.as_slice().get(at).copied().unwrap_or_default()
    }

    /// The VLAN of the outermost tag, 0 if there is none.
    pub fn vlan(&self) -> u16 {
        self.get(0).vlan()
    }

    /// The tags without the outermost one, if that has no VLAN.
    #[inline(always)]
    pub fn without_priority_tag(&self) -> Tags {
        if self.len > 0 && self.vlan() == 0 { self.popped() } else { *self }
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tags behind the outermost one.
    pub fn popped(&self) -> Tags {
        let mut popped = *self;
        // Unused places are zeros, so that equal tags compare as equal.
        popped.tags[0] = Tag::default();
        popped.tags.rotate_left(1);
        popped.len = self.len.saturating_sub(1);
        popped
    }

    /// The tags with one more in front.
    pub fn pushed(&self, tag: Tag) -> Tags {
        let mut pushed = *self;
        pushed.tags.rotate_right(1);
        pushed.tags[0] = tag;
        pushed.len = (self.len + 1).min(MOST);
        pushed
    }

    pub fn as_slice(&self) -> &[Tag] {
        &self.tags[..self.len]
    }
}

/// The edit that changes the tags of a frame. Tags that stay, which are the innermost, are not rewritten.
#[derive(Debug)]
pub(super) struct TagEdit {
    removed: usize,
    bytes: [u8; MOST * TAG_BYTES],
    inserted: usize,
}

impl TagEdit {
    pub fn new(from: &Tags, to: &Tags) -> Self {
        let (from, to) = (from.as_slice(), to.as_slice());
        let stay = from.iter().rev().zip(to.iter().rev()).take_while(|(from, to)| from == to).count();
        let mut bytes = [0; MOST * TAG_BYTES];
        let new = &to[..to.len() - stay];
        for (place, tag) in bytes.as_chunks_mut::<TAG_BYTES>().0.iter_mut().zip(new) {
            let ([a, b], [c, d]) = (tag.kind.to_be_bytes(), tag.control.to_be_bytes());
            *place = [a, b, c, d];
        }
        TagEdit { removed: (from.len() - stay) * TAG_BYTES, bytes, inserted: new.len() * TAG_BYTES }
    }

    pub fn edit(&self) -> HeadEdit<'_> {
        HeadEdit { at: TAGS_AT, removed: self.removed, inserted: &self.bytes[..self.inserted] }
    }
}
