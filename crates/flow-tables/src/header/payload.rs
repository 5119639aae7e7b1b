//! Changes behind the fields: numbers of the TCP header, and text of another length.
use flow::Field;

use super::{HeaderWindow, MAX_BYTES};

impl HeaderWindow {
    /// Whether the frame is still to be cut into segments.
    pub fn is_segmented_later(&self) -> bool {
        self.segment_bytes.is_some()
    }

    /// Replaces four bytes of the transport header. The bytes count from the beginning of the frame.
    pub fn put_transport(&mut self, at: usize, new: [u8; 4]) {
        let Some(transport) = self.layers.transport.map(usize::from) else { return };
        let Some((sum, none_is_zero)) = self.transport_sum() else { return };
        // The checksum has 16-bit words at even places.
        let odd = at.saturating_sub(transport) % 2;
        let (start, length) = (at - odd, 4 + 2 * odd);
        let Some(old) = self.bytes().get(start..start + length) else { return };
        let mut words = [0; 6];
        words[..length].copy_from_slice(old);
        words[odd..odd + 4].copy_from_slice(&new);
        self.put_summed(start, &words[..length], Some(sum), none_is_zero);
    }

    /// Replaces a part of a payload that lies in the window to its end, and adapts lengths and checksums. Returns false, and
    /// changes nothing, if the payload does not lie there, or if the window would be too long. [`HeaderWindow::extract`] is to
    /// be called afterwards.
    pub fn replace_payload(&mut self, at: usize, removed: usize, text: &[u8]) -> bool {
        let end = self.datagram_end();
        let Some(transport) = self.layers.transport.map(usize::from) else { return false };
        let Some((sum, none_is_zero)) = self.transport_sum() else { return false };
        let is_inside = at > transport && at + removed <= end && end <= self.length;
        let length = (self.length + text.len()).saturating_sub(removed);
        if !is_inside || length > MAX_BYTES || self.is_segmented_later() {
            return false;
        }
        let even = at - (at - transport) % 2;
        let (old, old_bytes) = (self.bytes, end - transport);
        self.is_changed = true;
        self.bytes.copy_within(at + removed..self.length, at + text.len());
        self.bytes[at..at + text.len()].copy_from_slice(text);
        self.frame_bytes = self.frame_bytes + text.len() - removed;
        self.length = length;
        let (new_end, new) = (end + text.len() - removed, self.bytes);
        self.sum(Some(sum), &old[even..end], &new[even..new_end], none_is_zero);
        let lengths = [old_bytes, new_end - transport].map(|bytes| (bytes as u16).to_be_bytes()); // below 2^16
        self.sum_pseudo(sum, &lengths[0], &lengths[1], none_is_zero);
        let network = usize::from(self.layers.network);
        match self.held.get(Field::EthType) as u16 {
            flow::protocol::IPV6 => {
                self.put(network + 4, &((new_end - network - 40) as u16).to_be_bytes());
            }
            _ => {
                let total = ((new_end - network) as u16).to_be_bytes();
                self.put_summed(network + 2, &total, Some(network + 10), false);
            }
        }
        true
    }
}
