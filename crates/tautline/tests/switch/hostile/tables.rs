//! Rings in which every slot is one and the same table of descriptors: little work for an attacker, and as much as it
//! likes for the switch.
use virtio::Features;

use crate::switch_process::guest::{Guest, RECEIVE, ring_at};
use crate::switch_process::wait_for;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// A packed ring's slot, as a driver leaves it where its wrap counter is 1 and where it is 0; and as a device does.
const AVAILABLE: [u16; 2] = [0x80, 0x8000];
const USED: [u16; 2] = [0x8080, 0];

/// A ring of a guest with INDIRECT_DESC, which only this test fills.
pub struct Tables {
    index: u8,
    table: (u64, u32),
    laps: u16,
}

impl Tables {
    /// Writes the table at a guest address: one descriptor for each of these buffers.
    pub fn new(guest: &Guest, index: u8, at: u64, buffers: &[(u64, u32)]) -> Self {
        assert!(guest.features.contains(Features::RING_INDIRECT_DESC));
        let packed = guest.features.contains(Features::RING_PACKED);
        let write = if index == RECEIVE { WRITE } else { 0 };
        let mut table = Vec::new();
        for (i, (address, len)) in (1..).zip(buffers) {
            let more = !packed && i < buffers.len();
            let flags = write | if more { NEXT } else { 0 };
            let next = if more { i as u16 } else { 0 };
            table.extend_from_slice(&descriptor(packed, *address, *len, flags, next));
        }
        guest.write(at, &table);
        Tables { index, table: (at, table.len() as u32), laps: 0 }
    }

    /// Makes every slot of the ring available.
    pub fn offer(&mut self, guest: &Guest) {
        let packed = guest.features.contains(Features::RING_PACKED);
        let (descriptors, driver, _) = ring_at(self.index);
        let (at, len) = self.table;
        for slot in 0..guest.size {
            let flags = INDIRECT | if packed { AVAILABLE[usize::from(self.laps % 2)] } else { 0 };
            let id = if packed { slot } else { 0 };
            guest.write(descriptors + 16 * u64::from(slot), &descriptor(packed, at, len, flags, id));
            if !packed {
                guest.write(driver + 4 + 2 * u64::from(slot), &slot.to_le_bytes());
            }
        }
        self.laps += 1;
        if !packed {
            let index = guest.size.wrapping_mul(self.laps);
            guest.write(driver + 2, &index.to_le_bytes());
        }
        guest.kick_anyway(self.index);
    }

    /// Whether the switch has given all of them back.
    pub fn is_used(&self, guest: &Guest) -> bool {
        let (descriptors, _, device) = ring_at(self.index);
        let read = |at| u16::from_le_bytes(guest.read(at, 2).try_into().unwrap());
        if guest.features.contains(Features::RING_PACKED) {
            let last = descriptors + 16 * (u64::from(guest.size) - 1) + 14;
            return read(last) & 0x8080 == USED[usize::from((self.laps - 1) % 2)];
        }
        read(device + 2) == guest.size.wrapping_mul(self.laps)
    }

    /// One lap after the other.
    #[track_caller]
    pub fn laps(&mut self, guest: &Guest, laps: u32, mut meanwhile: impl FnMut()) {
        for _ in 0..laps {
            self.offer(guest);
            wait_for("used tables", || {
                meanwhile();
                self.is_used(guest).then_some(())
            });
        }
    }
}

fn descriptor(packed: bool, address: u64, len: u32, flags: u16, other: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    let [third, fourth] = if packed { [other, flags] } else { [flags, other] };
    bytes[12..14].copy_from_slice(&third.to_le_bytes());
    bytes[14..].copy_from_slice(&fourth.to_le_bytes());
    bytes
}
