//! The first bytes of a frame, which are written when the fields of its key change.
//!
//! Only fields that differ are written. A checksum is updated by the difference (RFC 1624): a wrong checksum stays
//! wrong, and bytes behind the window are not needed.
mod arp;
mod labels;
mod payload;

use flow::{Field, Key, Layers, extract_with, protocol};

use crate::checksum::updated;
use crate::crc32c::{change_of, zeros};
use crate::fields::same_frame;
use crate::plain::PlainFrame;

const TAG_BYTES: usize = 4;
const FRAGMENT_LATER: u128 = 2;

/// The longest header to which a label was added: the longest window, two tags and two labels.
const MAX_LABELLED: usize = flow::WINDOW_BYTES + 2 * TAG_BYTES + 8;
/// The longest header: two tags always have room, so that a kept outcome never fails to add one.
const MAX_BYTES: usize = MAX_LABELLED + 2 * TAG_BYTES;

/// The first bytes of a frame, their fields, and the places of the layers.
#[derive(Clone, Debug)]
pub struct HeaderWindow {
    bytes: [u8; MAX_BYTES],
    length: usize,
    frame_bytes: usize,
    /// The fields in the bytes.
    held: Key,
    layers: Layers,
    max_tags: u8,
    /// Whether the bytes may differ from the bytes that were taken.
    is_changed: bool,
    /// Whether tags were not added because the header would be too long.
    is_full: bool,
    /// The offset of the checksum that the sender left partial.
    checksum_at: Option<usize>,
    /// The payload bytes of each segment, for a frame that is still to be segmented.
    segment_bytes: Option<usize>,
    /// The bytes of the datagram in later fragments.
    later_bytes: usize,
}

impl HeaderWindow {
    /// The window of a frame of `frame_bytes` whose first bytes are `window`. At most `max_tags` VLAN tags are read.
    pub fn new(window: &[u8], frame_bytes: usize, max_tags: u8) -> Self {
        let mut header = Self {
            bytes: [0; MAX_BYTES],
            length: 0,
            frame_bytes: 0,
            held: Key::ZERO,
            layers: Layers::default(),
            max_tags,
            is_changed: false,
            is_full: false,
            checksum_at: None,
            segment_bytes: None,
            later_bytes: 0,
        };
        header.take(window, frame_bytes, max_tags);
        header
    }

    /// Replaces the frame by another one.
    pub fn take(&mut self, window: &[u8], frame_bytes: usize, max_tags: u8) {
        self.take_with(window, frame_bytes, max_tags, &mut || None);
    }

    /// Works like [`HeaderWindow::take`]. If a header lies behind the window, `more` is asked for a longer one.
    pub fn take_with<'a>(
        &mut self,
        window: &'a [u8],
        frame_bytes: usize,
        max_tags: u8,
        more: flow::More<'_, 'a>,
    ) {
        self.begin(frame_bytes, max_tags);
        let window = &window[..window.len().min(flow::WINDOW_BYTES)];
        let read = extract_with(window, frame_bytes, max_tags, &mut self.held, more);
        self.layers = read.0;
        // A window that is longer than its frame is taken whole.
        let window = if read.1.len() > window.len() { read.1 } else { window };
        self.bytes[..window.len()].copy_from_slice(window);
        self.length = window.len();
    }

    /// Works like [`HeaderWindow::take`] for a plain frame.
    pub fn take_plain(&mut self, frame: &PlainFrame<'_>, max_tags: u8) {
        self.begin(frame.frame_bytes(), max_tags);
        self.layers = frame.read(&mut self.held);
        let window = frame.bytes();
        self.bytes[..window.len()].copy_from_slice(window);
        self.length = window.len();
    }

    #[inline(always)]
    fn begin(&mut self, frame_bytes: usize, max_tags: u8) {
        (self.frame_bytes, self.max_tags) = (frame_bytes, max_tags);
        (self.checksum_at, self.segment_bytes) = (None, None);
        (self.is_changed, self.is_full, self.later_bytes) = (false, false, 0);
    }

    /// Replaces the window by a longer one that begins with the same bytes. No field may have been written before.
    pub fn extend(&mut self, window: &[u8]) {
        let window = &window[..window.len().min(flow::WINDOW_BYTES)];
        if let Some(more) = window.get(self.length..) {
            self.bytes[self.length..window.len()].copy_from_slice(more);
            self.length = window.len();
        }
    }

    /// Sets the offloads that the frame's sender left to others. The checksum at `checksum_at` is the sum of the pseudo
    /// header, not complemented (VIRTIO 1.3 §5.1.6.2). The frame is to be cut into segments with `segment_bytes` bytes
    /// of payload.
    pub fn leave(&mut self, checksum_at: Option<usize>, segment_bytes: Option<usize>) {
        (self.checksum_at, self.segment_bytes) = (checksum_at, segment_bytes);
    }

    /// Says how many bytes of the datagram are in later fragments: the checksum of SCTP covers them.
    pub fn set_later_bytes(&mut self, later_bytes: usize) {
        self.later_bytes = later_bytes;
    }

    /// Reads the fields from the bytes again.
    pub fn extract(&mut self) {
        let bytes = &self.bytes[..self.length];
        let read = extract_with(bytes, self.frame_bytes, self.max_tags, &mut self.held, &mut || None);
        self.layers = read.0;
    }

    /// Reads the fields again if the bytes may have changed.
    pub(crate) fn refresh(&mut self) {
        if self.is_changed {
            self.extract();
        }
    }

    /// The fields that the bytes have. The metadata fields are zero.
    pub fn held(&self) -> &Key {
        &self.held
    }

    /// The present bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The present bytes, for changes that [`HeaderWindow::extract`] reads afterwards.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.is_changed = true;
        &mut self.bytes[..self.length]
    }

    /// Whether the bytes may differ from the bytes that were taken.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether a tag was not added because the header would be longer than a window with two tags.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The present length of the whole frame.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// The length of the frame without the padding behind an IP datagram. For a frame that is still to be segmented, it
    /// is the length of a segment.
    pub(crate) fn unpadded_bytes(&self) -> usize {
        let Some(transport) = self.layers.transport else { return self.frame_bytes };
        let (at, whole) = (usize::from(transport), self.datagram_end());
        let header_bytes = match self.held.get(Field::NwProto) as u8 {
            protocol::TCP => self.bytes().get(at + 12).map_or(20, |offset| usize::from(offset >> 4) * 4),
            _ => 8, // UDP
        };
        self.segment_bytes.map_or(whole, |payload| whole.min(at + header_bytes + payload))
    }

    /// The places of the layers.
    pub fn layers(&self) -> Layers {
        self.layers
    }

    /// Writes the fields of the frame that differ in `key`. Returns true if bytes have changed.
    pub fn write(&mut self, key: &Key) -> bool {
        if same_frame(&self.held, key) {
            return false;
        }
        self.is_changed = true;
        self.ethernet(key);
        self.tags(key);
        match self.held.get(Field::EthType) as u16 {
            protocol::IPV4 => self.ipv4(key),
            protocol::IPV6 => self.ipv6(key),
            protocol::ARP | protocol::RARP => self.arp(key),
            protocol::MPLS | protocol::MPLS_MULTICAST => self.label(key),
            _ => {}
        }
        true
    }

    fn differs(&self, key: &Key, field: Field) -> Option<u128> {
        Some(key.get(field)).filter(|new| *new != self.held.get(field))
    }

    fn put(&mut self, at: usize, new: &[u8]) -> bool {
        match self.bytes_mut().get_mut(at..at + new.len()) {
            Some(old) => old.copy_from_slice(new),
            None => return false,
        }
        true
    }

    /// Replaces bytes that the checksum at `checksum` covers. A sum of zero that says "none" stays.
    fn put_summed(&mut self, at: usize, new: &[u8], checksum: Option<usize>, none_is_zero: bool) {
        let mut old = [0; 16]; // an IPv6 address is the longest field
        let old = &mut old[..new.len()];
        let Some(bytes) = self.bytes().get(at..at + new.len()) else { return };
        old.copy_from_slice(bytes);
        self.put(at, new);
        self.sum(checksum, old, new, none_is_zero);
    }

    /// Updates the checksum of a header or a payload that has changed. A partial one covers neither yet.
    fn sum(&mut self, checksum: Option<usize>, old: &[u8], new: &[u8], none_is_zero: bool) {
        if checksum.is_some() && checksum == self.checksum_at {
            return;
        }
        let Some(sum) = checksum.and_then(|at| self.bytes_mut().get_mut(at..at + 2)) else { return };
        let before = u16::from_be_bytes([sum[0], sum[1]]);
        if none_is_zero && before == 0 {
            return;
        }
        let after = updated(before, old, new);
        sum.copy_from_slice(&if none_is_zero && after == 0 { 0xffff } else { after }.to_be_bytes());
    }

    /// Updates the checksum of a pseudo header that has changed.
    fn sum_pseudo(&mut self, checksum: usize, old: &[u8], new: &[u8], none_is_zero: bool) {
        if self.checksum_at != Some(checksum) {
            return self.sum(Some(checksum), old, new, none_is_zero);
        }
        let Some(sum) = self.bytes_mut().get_mut(checksum..checksum + 2) else { return };
        let before = u16::from_be_bytes([sum[0], sum[1]]);
        sum.copy_from_slice(&(!updated(!before, old, new)).to_be_bytes());
    }

    fn ethernet(&mut self, key: &Key) {
        for (field, at) in [(Field::EthDst, 0), (Field::EthSrc, 6)] {
            if let Some(address) = self.differs(key, field)
                && self.put(at, &address.to_be_bytes()[10..])
            {
                self.held.set(field, address);
            }
        }
    }

    /// Tags are equal from the innermost on, or they are taken away and put in front anew.
    fn tags(&mut self, key: &Key) {
        let of = |key: &Key| {
            let both = [(Field::VlanTpid, Field::VlanTci), (Field::InnerTpid, Field::InnerTci)];
            both.map(|(kind, tag)| (key.get(kind) as u16, key.get(tag) as u16))
        };
        let count = |tags: &[(u16, u16); 2]| tags.iter().take_while(|(kind, _)| *kind != 0).count();
        let (held, wanted) = (of(&self.held), of(key));
        if held == wanted || self.length < 12 {
            return;
        }
        let (mut old, mut new) = (count(&held), count(&wanted));
        while old > 0 && new > 0 && held[old - 1] == wanted[new - 1] {
            old -= 1;
            new -= 1;
        }
        let (removed, added) = ((old * TAG_BYTES).min(self.length - 12), new * TAG_BYTES);
        if self.length - removed + added > MAX_BYTES {
            self.is_full = true;
            return;
        }
        self.bytes.copy_within(12 + removed..self.length, 12 + added);
        for ((kind, tag), bytes) in wanted[..new].iter().zip(self.bytes[12..].chunks_exact_mut(TAG_BYTES)) {
            bytes[..2].copy_from_slice(&kind.to_be_bytes());
            bytes[2..].copy_from_slice(&(tag & !0x1000).to_be_bytes()); // the bit of presence is not on the wire
        }
        self.length = self.length + added - removed;
        self.frame_bytes = self.frame_bytes + added - removed;
        let moved = |at: u16| (usize::from(at) + added - removed) as u16; // within the window and two tags
        let (network, transport) = (self.layers.network, self.layers.transport);
        (self.layers.network, self.layers.transport) = (moved(network), transport.map(moved));
        self.checksum_at = self.checksum_at.map(|at| (at + added).saturating_sub(removed));
        self.layers.tags = (usize::from(self.layers.tags) + new - old) as u8; // 0 to 4
        for field in [Field::VlanTpid, Field::VlanTci, Field::InnerTpid, Field::InnerTci] {
            self.held.set(field, key.get(field));
        }
    }

    /// The end of the datagram: padding may follow.
    fn datagram_end(&self) -> usize {
        let at = usize::from(self.layers.network);
        let (at, header_bytes) = match self.held.get(Field::EthType) as u16 {
            protocol::IPV6 => (at + 4, 40),
            _ => (at + 2, 0),
        };
        let length =
            self.bytes().get(at..at + 2).map_or(0, |length| u16::from_be_bytes([length[0], length[1]]));
        let end = usize::from(self.layers.network) + usize::from(length) + header_bytes;
        end.min(self.frame_bytes)
    }

    /// The place of the transport header's checksum, if the header is whole, and whether the value zero means that
    /// there is no checksum.
    fn transport_sum(&self) -> Option<(usize, bool)> {
        let at = usize::from(self.layers.transport?);
        if self.held.get(Field::IpFrag) & FRAGMENT_LATER != 0 {
            return None;
        }
        let left = self.datagram_end().saturating_sub(at);
        match self.held.get(Field::NwProto) as u8 {
            protocol::TCP if left >= 20 => Some((at + 16, false)),
            protocol::UDP if left >= 8 => Some((at + 6, true)),
            protocol::ICMPV6 if left >= 8 => Some((at + 2, false)),
            _ => None,
        }
    }

    fn ipv4(&mut self, key: &Key) {
        let at = usize::from(self.layers.network);
        if self.layers.transport.is_none() {
            return;
        }
        let header = Some(at + 10);
        for (field, place) in [(Field::IpSrc, 12), (Field::IpDst, 16)] {
            let Some(address) = self.differs(key, field) else { continue };
            let new = (address as u32).to_be_bytes();
            let old = (self.held.get(field) as u32).to_be_bytes();
            if self.held.get(Field::NwProto) as u8 != protocol::ICMPV6
                && let Some((sum, none_is_zero)) = self.transport_sum()
            {
                self.sum_pseudo(sum, &old, &new, none_is_zero);
            }
            self.put_summed(at + place, &new, header, false);
            self.held.set(field, address);
        }
        if let Some(tos) = self.differs(key, Field::NwTos) {
            let version = self.bytes[at];
            self.put_summed(at, &[version, tos as u8], header, false);
            self.held.set(Field::NwTos, tos);
        }
        if let Some(ttl) = self.differs(key, Field::NwTtl) {
            let protocol = self.bytes[at + 9];
            self.put_summed(at + 8, &[ttl as u8, protocol], header, false);
            self.held.set(Field::NwTtl, ttl);
        }
        self.transport(key, protocol::ICMP);
    }

    /// Whether a routing header says another last destination than the header, which the checksum does not cover then.
    fn is_routed(&self) -> bool {
        let (mut at, mut next) =
            (usize::from(self.layers.network) + 40, self.bytes[usize::from(self.layers.network) + 6]);
        while let (0 | 43 | protocol::IPV6_FRAGMENT | 51 | 60, Some([after, length])) =
            (next, self.bytes().get(at..at + 2))
        {
            match next {
                43 if self.bytes().get(at + 3).is_some_and(|left| *left > 0) => return true,
                protocol::IPV6_FRAGMENT => at += 8,
                51 => at += 4 * (usize::from(*length) + 2),
                _ => at += 8 * (usize::from(*length) + 1),
            }
            next = *after;
        }
        false
    }

    fn ipv6(&mut self, key: &Key) {
        let at = usize::from(self.layers.network);
        if self.layers.transport.is_none() {
            return;
        }
        for (field, place) in [(Field::Ipv6Src, 8), (Field::Ipv6Dst, 24)] {
            let Some(address) = self.differs(key, field) else { continue };
            let covered = field == Field::Ipv6Src || !self.is_routed();
            let (old, new) = (self.held.get(field).to_be_bytes(), address.to_be_bytes());
            if let Some((sum, none_is_zero)) = self.transport_sum().filter(|_| covered) {
                self.sum_pseudo(sum, &old, &new, none_is_zero);
            }
            self.put(at + place, &new);
            self.held.set(field, address);
        }
        let (tos, label) = (key.get(Field::NwTos), key.get(Field::Ipv6Label));
        if self.differs(key, Field::NwTos).is_some() || self.differs(key, Field::Ipv6Label).is_some() {
            let first = 6 << 28 | (tos as u32) << 20 | label as u32;
            self.put(at, &first.to_be_bytes());
            self.held.set(Field::NwTos, tos);
            self.held.set(Field::Ipv6Label, label);
        }
        if let Some(ttl) = self.differs(key, Field::NwTtl) {
            self.put(at + 7, &[ttl as u8]);
            self.held.set(Field::NwTtl, ttl);
        }
        self.transport(key, protocol::ICMPV6);
    }

    fn transport(&mut self, key: &Key, icmp: u8) {
        let Some(at) = self.layers.transport.map(usize::from) else { return };
        if self.held.get(Field::IpFrag) & FRAGMENT_LATER != 0 {
            return;
        }
        let number = self.held.get(Field::NwProto) as u8;
        match number {
            protocol::TCP | protocol::UDP => {
                let Some((sum, none_is_zero)) = self.transport_sum() else { return };
                for (field, place) in [(Field::TcpSrc, 0), (Field::TcpDst, 2)] {
                    if let Some(port) = self.differs(key, field) {
                        self.put_summed(at + place, &(port as u16).to_be_bytes(), Some(sum), none_is_zero);
                        self.held.set(field, port);
                    }
                }
            }
            protocol::SCTP => self.sctp(key, at),
            number if number == icmp => self.icmp(key, at),
            _ => {}
        }
    }

    /// Changes the ports and the checksum. The checksum is linear: it changes by the checksum of the changed bits,
    /// followed by one zero byte for each byte behind them.
    fn sctp(&mut self, key: &Key, at: usize) {
        let (source, destination) = (key.get(Field::SctpSrc), key.get(Field::SctpDst));
        let left = self.datagram_end().saturating_sub(at);
        let Some(header) = self.bytes[..self.length].get_mut(at..at + 12).filter(|_| left >= 12) else {
            return;
        };
        let new = ((source << 16 | destination) as u32).to_be_bytes();
        if header[..4] == new {
            return;
        }
        let change = change_of((0..4).map(|byte| header[byte] ^ new[byte]));
        let change = zeros(change, left - 4 + self.later_bytes);
        header[..4].copy_from_slice(&new);
        header[8..12].iter_mut().zip(change.to_le_bytes()).for_each(|(sum, change)| *sum ^= change);
        self.held.set(Field::SctpSrc, source);
        self.held.set(Field::SctpDst, destination);
    }

    fn icmp(&mut self, key: &Key, at: usize) {
        if self.datagram_end().saturating_sub(at) < 8 || self.length < at + 8 {
            return;
        }
        let (kind, code) = (key.get(Field::IcmpType), key.get(Field::IcmpCode));
        let sum = Some(at + 2);
        if self.differs(key, Field::IcmpType).is_some() || self.differs(key, Field::IcmpCode).is_some() {
            self.put_summed(at, &[kind as u8, code as u8], sum, false);
        }
        let was_neighbor = self.held.get(Field::NwProto) as u8 == protocol::ICMPV6
            && protocol::is_neighbor(self.held.get(Field::IcmpType) as u8)
            && self.held.get(Field::IcmpCode) == 0;
        self.held.set(Field::IcmpType, kind);
        self.held.set(Field::IcmpCode, code);
        if !was_neighbor {
            return;
        }
        if let Some(reserved) = self.differs(key, Field::NdReserved) {
            self.put_summed(at + 4, &(reserved as u32).to_be_bytes(), sum, false);
            self.held.set(Field::NdReserved, reserved);
        }
        if let Some(target) = self.differs(key, Field::NdTarget)
            && self.length >= at + 24
        {
            self.put_summed(at + 8, &target.to_be_bytes(), sum, false);
            self.held.set(Field::NdTarget, target);
        }
        for (field, kind) in [(Field::NdSll, 1), (Field::NdTll, 2)] {
            if let Some(address) = self.differs(key, field) {
                if let Some(option) = self.option(at + 24, kind) {
                    self.put_summed(option + 2, &address.to_be_bytes()[10..], sum, false);
                }
                self.held.set(field, address);
            }
        }
    }

    /// The place of the link-layer address of this kind among the options.
    fn option(&self, mut at: usize, wanted: u8) -> Option<usize> {
        loop {
            let [kind, length] = *self.bytes().get(at..at + 2)?.first_chunk()?;
            if length == 0 {
                return None;
            }
            if kind == wanted && length == 1 {
                return Some(at).filter(|at| at + 8 <= self.length);
            }
            at += 8 * usize::from(length);
        }
    }
}
