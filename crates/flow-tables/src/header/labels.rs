//! Labels of MPLS (RFC 3032) between the Ethernet type and the network header.
use flow::{Field, Key, Needs, protocol};

use super::{HeaderWindow, MAX_LABELLED};
use crate::fields::has;

const LABEL_BYTES: usize = 4;
/// Labels that say which version of IP follows (RFC 3032 §2.1).
const IPV4_NULL: u32 = 0;
const IPV6_NULL: u32 = 2;
/// The bit of the label at the bottom of the stack.
const BOTTOM: u32 = 1 << 8;
/// The time to live of a label in front of a frame that has none.
const TTL: u32 = 64;

/// The entry of the label stack that these fields are.
fn entry(key: &Key) -> u32 {
    let of = |field: Field| key.get(field) as u32;
    of(Field::MplsLabel) << 12 | of(Field::MplsTc) << 9 | of(Field::MplsBos) << 8 | of(Field::MplsTtl)
}

impl HeaderWindow {
    /// The entry that is pushed: a copy of the outermost one, or one for the frame behind it, as in Open vSwitch.
    fn pushed(&self) -> u32 {
        let held = &self.held;
        if has(held, Needs::Mpls) {
            return entry(held) & !BOTTOM;
        }
        let label = match held.get(Field::EthType) as u16 {
            protocol::IPV6 => IPV6_NULL,
            _ => IPV4_NULL,
        };
        let (class, ttl) = match has(held, Needs::Ip) {
            true => (held.get(Field::IpDscp) as u32 & 7, held.get(Field::NwTtl) as u32),
            false => (0, 0),
        };
        label << 12 | class << 9 | BOTTOM | if ttl == 0 { TTL } else { ttl }
    }

    /// Where labels stand: behind the Ethernet type. `None` if the window ends before, or if the frame is still to be cut
    /// into segments, whose headers would not be found.
    fn label_at(&self) -> Option<usize> {
        let at = usize::from(self.layers.network);
        (at >= 14 && at <= self.length && !self.is_segmented_later()).then_some(at)
    }

    /// Puts a label in front of the frame's labels or network header, and writes `kind` as its type. Reads the fields again.
    /// Returns false, and changes nothing, if there is no room for it, or if the frame is still to be cut into segments.
    pub(crate) fn push_mpls(&mut self, kind: u16) -> bool {
        let Some(at) = self.label_at().filter(|_| self.length + LABEL_BYTES <= MAX_LABELLED) else {
            return false;
        };
        let entry = self.pushed();
        self.bytes.copy_within(at..self.length, at + LABEL_BYTES);
        self.bytes[at..at + LABEL_BYTES].copy_from_slice(&entry.to_be_bytes());
        self.length += LABEL_BYTES;
        self.frame_bytes += LABEL_BYTES;
        self.checksum_at = self.checksum_at.map(|checksum| checksum + LABEL_BYTES);
        self.typed(at, kind)
    }

    /// Removes the outermost label, and writes `kind` as the frame's type. Reads the fields again. Returns false, and changes
    /// nothing, if there is no whole label, or if the frame is still to be cut into segments.
    pub(crate) fn pop_mpls(&mut self, kind: u16) -> bool {
        let Some(at) = self.label_at().filter(|at| at + LABEL_BYTES <= self.length) else { return false };
        self.bytes.copy_within(at + LABEL_BYTES..self.length, at);
        self.length -= LABEL_BYTES;
        self.frame_bytes -= LABEL_BYTES;
        self.checksum_at = self.checksum_at.map(|checksum| checksum.saturating_sub(LABEL_BYTES));
        self.typed(at, kind)
    }

    fn typed(&mut self, at: usize, kind: u16) -> bool {
        self.bytes[at - 2..at].copy_from_slice(&kind.to_be_bytes());
        self.is_changed = true;
        // Tags that actions have added are tags here too.
        let known = self.max_tags;
        self.max_tags = known.max(self.layers.tags);
        self.extract();
        self.max_tags = known;
        true
    }

    /// Writes the outermost label.
    pub(super) fn label(&mut self, key: &Key) {
        let at = usize::from(self.layers.network);
        if entry(key) != entry(&self.held) && self.put(at, &entry(key).to_be_bytes()) {
            for field in [Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl] {
                self.held.set(field, key.get(field));
            }
        }
    }
}
