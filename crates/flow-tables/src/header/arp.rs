//! The fields of ARP (RFC 826).
use flow::{Field, Key};

use super::HeaderWindow;

impl HeaderWindow {
    pub(super) fn arp(&mut self, key: &Key) {
        let at = usize::from(self.layers.network);
        let packet = self.bytes().get(at..at + 28);
        if packet.is_none_or(|packet| packet[..6] != [0, 1, 8, 0, 6, 4]) {
            return;
        }
        for (field, place, bytes) in [
            (Field::ArpOp, 6, 2),
            (Field::ArpSha, 8, 6),
            (Field::ArpSpa, 14, 4),
            (Field::ArpTha, 18, 6),
            (Field::ArpTpa, 24, 4),
        ] {
            if let Some(value) = self.differs(key, field) {
                self.put(at + place, &value.to_be_bytes()[16 - bytes..]);
                self.held.set(field, value);
            }
        }
    }
}
