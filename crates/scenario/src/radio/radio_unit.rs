//! The radio unit: one transport block for each user at each tick, as layer 1 receives it from the air.

use super::packet;
use super::transport_block::{CRC_BYTES, Scrambler, attach};
use crate::description::Load;
use crate::work::{First, Out};

/// The scrambling seed of a user (3GPP TS 38.211 §7.3.1.1: the user's number, then the cell's).
pub(super) fn seed(user: u32) -> u32 {
    user << 15 | 1
}

pub(crate) struct RadioUnit {
    bytes: usize,
    scramblers: Vec<Scrambler>,
    block: Vec<u8>,
}

impl RadioUnit {
    pub fn new(load: &Load) -> Self {
        let bytes = load.bytes as usize;
        let scrambler = |user| Scrambler::new(seed(user), bytes + CRC_BYTES);
        RadioUnit { bytes, scramblers: (0..load.all_users()).map(scrambler).collect(), block: Vec::new() }
    }
}

impl First for RadioUnit {
    fn prepare(&mut self, tick: u64, out: &mut Out<'_>) {
        for (user, scrambler) in (0..).zip(&self.scramblers) {
            packet::write(user, tick, self.bytes, &mut self.block);
            attach(&mut self.block);
            scrambler.apply(&mut self.block);
            out(user, &self.block);
        }
    }
}
