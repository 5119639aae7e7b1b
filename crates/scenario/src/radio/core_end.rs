//! The core's end, which undoes the work of layer 2 and checks each byte.

use super::header_compression::Decompressor;
use super::packet;
use super::pdcp::{Bearer, Receiver};
use super::rlc::Assembler;
use crate::description::Load;
use crate::work::Last;

struct User {
    rlc: Assembler,
    pdcp: Receiver,
    decompressor: Decompressor,
    /// The tick of the user's last correct packet.
    tick: u64,
}

pub(crate) struct CoreEnd {
    users: Vec<User>,
    packet: Vec<u8>,
    scratch: Vec<u8>,
    refused: u64,
}

impl CoreEnd {
    pub fn new(load: &Load) -> Self {
        let user = |user| User {
            rlc: Assembler::default(),
            pdcp: Receiver::new(Bearer::of_user(user)),
            decompressor: Decompressor::default(),
            tick: 0,
        };
        CoreEnd {
            users: (0..load.all_users()).map(user).collect(),
            packet: Vec::new(),
            scratch: Vec::new(),
            refused: 0,
        }
    }

    /// The tick of a packet that is now complete; `None` if it is not. Returns an error if the packet differs from the
    /// sent one.
    fn open(&mut self, number: u32, bytes: &[u8]) -> Result<Option<u64>, ()> {
        let user = self.users.get_mut(number as usize).ok_or(())?;
        let Some(mut pdu) = user.rlc.take(bytes).map_err(drop)? else { return Ok(None) };
        let compressed = user.pdcp.open(&mut pdu).map_err(drop)?;
        user.decompressor.restore(compressed, &mut self.packet).map_err(drop)?;
        let tick = packet::check(number, &self.packet, &mut self.scratch).map_err(drop)?;
        user.tick = tick;
        Ok(Some(tick))
    }
}

impl Last for CoreEnd {
    fn take(&mut self, user: u32, bytes: &[u8]) {
        self.refused += u64::from(self.open(user, bytes).is_err());
    }

    fn finish(&mut self, tick: u64) -> u32 {
        self.users.iter().filter(|user| user.tick == tick).count() as u32
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layer1, Layer2, RadioUnit};
    use super::*;
    use crate::work::{First, Middle};

    /// The whole chain in one thread.
    fn ticks(load: &Load, count: u64, alter: impl Fn(u64, u32, &mut Vec<u8>)) -> (Vec<u32>, u64) {
        let mut radio_unit = RadioUnit::new(load);
        let (mut layer_1, mut layer_2) = (Layer1::new(load), Layer2::new(load).unwrap());
        let mut core = CoreEnd::new(load);
        let done = (1..=count).map(|tick| {
            let (mut blocks, mut packets, mut pdus) = (Vec::new(), Vec::new(), Vec::new());
            radio_unit.prepare(tick, &mut |user, bytes| blocks.push((user, bytes.to_vec())));
            for (user, mut block) in blocks {
                alter(tick, user, &mut block);
                layer_1.take(user, &block, &mut |user, bytes| packets.push((user, bytes.to_vec())));
            }
            for (user, packet) in packets {
                layer_2.take(user, &packet, &mut |_, _| panic!("not before the tick's end"));
            }
            layer_2.finish(&mut |user, bytes| pdus.push((user, bytes.to_vec())));
            pdus.iter().for_each(|(user, pdu)| core.take(*user, pdu));
            core.finish(tick)
        });
        let done = done.collect();
        (done, layer_1.refused() + layer_2.refused() + core.refused())
    }

    const LOAD: Load = Load { cells: 2, users: 5, bytes: 200, workers: 1 };

    #[test]
    fn every_packet_of_every_user_arrives_in_its_tick() {
        for load in
            [LOAD, Load { workers: 2, ..LOAD }, Load { bytes: 1400, ..LOAD }, Load { bytes: 36, ..LOAD }]
        {
            assert_eq!(ticks(&load, 200, |_, _, _| {}), (vec![10; 200], 0), "{load:?}");
        }
    }

    #[test]
    fn an_altered_block_costs_its_user_that_tick_and_nothing_else() {
        let (done, refused) =
            ticks(&LOAD, 100, |tick, user, block| block[20] ^= u8::from(tick == 50 && user == 3));
        assert_eq!((done[49], refused), (9, 1));
        assert_eq!(done.iter().sum::<u32>(), 999);
    }
}
