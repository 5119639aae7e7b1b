//! The part of layer 1 that works on bytes: descrambling and the CRC. Signal processing, which a card does, is not
//! included.

use super::radio_unit::seed;
use super::transport_block::{CRC_BYTES, Scrambler, check};
use crate::description::Load;
use crate::work::{Middle, Out};

pub(crate) struct Layer1 {
    scramblers: Vec<Scrambler>,
    block: Vec<u8>,
    refused: u64,
}

impl Layer1 {
    pub fn new(load: &Load) -> Self {
        let scrambler = |user| Scrambler::new(seed(user), load.bytes as usize + CRC_BYTES);
        Layer1 { scramblers: (0..load.all_users()).map(scrambler).collect(), block: Vec::new(), refused: 0 }
    }
}

impl Middle for Layer1 {
    fn take(&mut self, user: u32, bytes: &[u8], out: &mut Out<'_>) {
        let Some(scrambler) = self.scramblers.get(user as usize) else {
            self.refused += 1;
            return;
        };
        self.block.clear();
        self.block.extend_from_slice(bytes);
        scrambler.apply(&mut self.block);
        match check(&self.block) {
            Ok(data) => out(user, data),
            Err(_) => self.refused += 1,
        }
    }

    fn finish(&mut self, _: &mut Out<'_>) {}

    fn refused(&self) -> u64 {
        self.refused
    }
}
