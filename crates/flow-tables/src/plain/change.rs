//! The change of plain frames' first bytes when they leave.
use super::{HEAD_BYTES, HEAD_WORDS, Kind, PlainFrame, TAG_BYTES, TYPE, number, words};

/// The change of the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Stays,
    Pushed([u8; TAG_BYTES]),
    Popped,
}

/// A change of plain frames' first bytes: bits that are the same in all of them, checksums, and a tag.
#[derive(Debug)]
pub(crate) struct HeadChange {
    kept: [u64; HEAD_WORDS],
    set: [u64; HEAD_WORDS],
    /// What the one's complement sums of the header and of the transport header grow by (RFC 1624), if they change.
    network: Option<u16>,
    transport: Option<u16>,
    tag: Tag,
    kind: Kind,
    /// The first byte that changes, and the one behind the last.
    from: u8,
    to: u8,
}

/// The first bytes of a plain frame that leaves: they replace `removed` bytes from `at` on.
#[derive(Clone, Copy, Debug)]
pub struct NewHead {
    /// The place of the first byte.
    pub at: usize,
    /// The number of bytes that are replaced.
    pub removed: usize,
    bytes: [u8; HEAD_BYTES + TAG_BYTES],
    from: usize,
    to: usize,
}

impl NewHead {
    /// The bytes.
    pub fn inserted(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

impl HeadChange {
    /// The change of all plain frames that are equal to this one under a mask, where this one begins with `after` when it
    /// leaves. `None` if another frame may be changed otherwise.
    pub(crate) fn new(mask: &[u8; HEAD_BYTES], frame: &PlainFrame<'_>, after: &[u8]) -> Option<Self> {
        let (before, at) = (frame.bytes(), frame.kind.places());
        let (tag, aligned) = tag_of(before, after)?;
        let aligned = &aligned[..before.len()];
        let (mut kept, mut set) = ([u8::MAX; HEAD_BYTES], [0; HEAD_BYTES]);
        let sums = [at.network_sum, at.transport_sum];
        let (mut from, mut to) = match tag {
            Tag::Stays => (HEAD_BYTES, 0),
            Tag::Pushed(_) => (TYPE, TYPE),
            Tag::Popped => (TYPE, TYPE + TAG_BYTES),
        };
        for (at, (old, new)) in before.iter().zip(aligned).enumerate().filter(|(_, (old, new))| old != new) {
            (from, to) = (from.min(at), to.max(at + 1));
            if sums.iter().any(|sum| (*sum..sum + 2).contains(&at)) {
                continue;
            }
            if (old ^ new) & !mask[at] != 0 {
                return None;
            }
            (kept[at], set[at]) = (!mask[at], new & mask[at]);
        }
        // The words that the checksums cover, whole if a bit of them has changed.
        let grows = |fields: &[(usize, usize)]| {
            let changed = fields.iter().filter(|(at, end)| before[*at..*end] != aligned[*at..*end]);
            let words = changed.flat_map(|(at, end)| (*at..*end).step_by(2));
            words.fold(None, |sum: Option<u16>, at| {
                Some(plus(plus(sum.unwrap_or(0), !number(before, at)), number(aligned, at)))
            })
        };
        let (source, destination) = ((at.source, at.source + 4), (at.destination, at.destination + 4));
        let network = grows(&[(at.network, at.tos + 1), (at.ttl, at.protocol + 1), source, destination]);
        let ports = [(at.transport, at.transport + 2), (at.transport + 2, at.transport + 4)];
        let transport = grows(&[source, destination, ports[0], ports[1]]);
        for (_, sum) in [network, transport].iter().zip(sums).filter(|(grows, _)| grows.is_some()) {
            (from, to) = (from.min(sum), to.max(sum + 2));
        }
        let (from, to) = (from.min(to) as u8, to as u8); // at most 64, and empty if nothing changes
        let (kept, set, kind) = (words(&kept), words(&set), frame.kind);
        let change = Self { kept, set, network, transport, tag, kind, from, to };
        let head = change.of(frame);
        let (end, after_end) = (head.at + head.removed, head.at + head.inserted().len());
        let is_same = before[..head.at] == after[..head.at]
            && after.get(head.at..after_end) == Some(head.inserted())
            && before[end..] == after[after_end..];
        is_same.then_some(change)
    }

    /// Whether the checksum of the transport header changes.
    pub(crate) fn is_summed(&self) -> bool {
        self.transport.is_some()
    }

    /// The first bytes of a frame after the change.
    #[inline(always)]
    pub(crate) fn of(&self, frame: &PlainFrame<'_>) -> NewHead {
        let (from, to) = (usize::from(self.from), usize::from(self.to));
        let mut head = NewHead { at: from, removed: to - from, bytes: [0; HEAD_BYTES + TAG_BYTES], from, to };
        let (chunks, _) = head.bytes.as_chunks_mut();
        for (at, word) in frame.words().into_iter().enumerate() {
            chunks[at] = (word & self.kept[at] | self.set[at]).to_ne_bytes();
        }
        let at = self.kind.places();
        if let Some(grows) = self.network {
            grow(&mut head.bytes, at.network_sum, grows, false);
        }
        if let Some(grows) = self.transport {
            grow(&mut head.bytes, at.transport_sum, grows, !self.kind.is_tcp);
        }
        match self.tag {
            Tag::Stays => {}
            Tag::Pushed(tag) => {
                head.bytes.copy_within(TYPE..HEAD_BYTES, TYPE + TAG_BYTES);
                head.bytes[TYPE..TYPE + TAG_BYTES].copy_from_slice(&tag);
                head.to += TAG_BYTES;
            }
            Tag::Popped => {
                head.bytes.copy_within(from..TYPE, from + TAG_BYTES);
                head.from += TAG_BYTES;
            }
        }
        head
    }
}

/// The change of the tags between two beginnings of a frame, and the second one with the tags of the first. `None` if more
/// than one tag has come or gone.
fn tag_of(before: &[u8], after: &[u8]) -> Option<(Tag, [u8; HEAD_BYTES])> {
    let mut bytes = [0; HEAD_BYTES];
    let tag = if after.len() == before.len() {
        bytes[..after.len()].copy_from_slice(after);
        Tag::Stays
    } else if after.len() == before.len() + TAG_BYTES {
        let tag = *after[TYPE..].first_chunk()?;
        bytes[..TYPE].copy_from_slice(&after[..TYPE]);
        bytes[TYPE..before.len()].copy_from_slice(&after[TYPE + TAG_BYTES..]);
        Tag::Pushed(tag)
    } else if after.len() + TAG_BYTES == before.len() {
        bytes[..TYPE].copy_from_slice(&after[..TYPE]);
        bytes[TYPE..TYPE + TAG_BYTES].copy_from_slice(&before[TYPE..TYPE + TAG_BYTES]);
        bytes[TYPE + TAG_BYTES..before.len()].copy_from_slice(&after[TYPE..]);
        Tag::Popped
    } else {
        return None;
    };
    Some((tag, bytes))
}

/// The one's complement sum.
fn plus(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u16::from(carry) // the sum is at most 0xfffe if there is a carry
}

/// Changes a checksum. A sum of zero that says "none" stays (RFC 768).
fn grow(head: &mut [u8], at: usize, grows: u16, none_is_zero: bool) {
    let before = number(head, at);
    if none_is_zero && before == 0 {
        return;
    }
    let after = !plus(!before, grows);
    let after = if none_is_zero && after == 0 { u16::MAX } else { after };
    head[at..at + 2].copy_from_slice(&after.to_be_bytes());
}
