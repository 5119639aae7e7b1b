//! Forwarding by address: a frame goes to the port from which its destination last sent.
//!
//! Ports that learn from each other are a *network*: they share one [`MacTable`] and one list of members. A frame for
//! more than one station, or for a station that was not heard, goes to all other members. A network of its own has a
//! table of its own, so addresses need no number of a network beside them.
pub(crate) mod station;
pub(crate) mod table;

use std::ops::Range;
use std::sync::Arc;

use frame::{DropReason, FrameBatch};
use virtio::net::MacAddress;

use crate::{
    Admission, Announced, Flooded, Guard, MacTable, Now, Output, PortId, Program, RateLimit, Reach, Refused,
    Unguarded,
};

pub use station::Station;

/// Learning by address, for one port.
#[derive(Debug)]
pub struct Learning<G = Unguarded> {
    /// The port.
    pub port: PortId,
    /// The table of the network.
    pub table: Arc<MacTable>,
    /// All ports of the network, this one included.
    pub members: Arc<[PortId]>,
    /// Which frames may come from the port.
    pub admission: Admission<G>,
    /// Whether 01:80:c2:00:00:00 to 0f are forwarded.
    pub link_local: bool,
    /// How many of the port's frames may go to several others in a second.
    pub floods: Option<RateLimit>,
}

/// Longer than any address.
const NO_ADDRESS: u64 = u64::MAX;

/// The target of a frame, by its destination address.
#[derive(Clone, Copy)]
pub(crate) enum Egress {
    Port(PortId),
    Flood,
    Nowhere,
}

impl From<Refused> for DropReason {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Owned => DropReason::Spoofed,
            Refused::MovesTooOften => DropReason::MovesTooOften,
        }
    }
}

/// 01:80:c2:00:00:00 to 0f belong to the link and are not forwarded (IEEE 802.1Q §8.6.3).
pub(crate) fn is_link_local(address: MacAddress) -> bool {
    address.to_u64() & !0xf == 0x0180_c200_0000
}

impl<G: Guard> Program for Learning<G> {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let mut flooded = Flooded::default();
        let mut last_seen = NO_ADDRESS;
        let passing = self.admission.police(batch, now, output);
        for frames in self.admission.runs(batch, passing) {
            let count = frames.len() as u64;
            match self.decide(batch, frames.start, &mut last_seen) {
                Ok(Egress::Port(port)) => {
                    if !output.send(port, frames) {
                        output.drop(DropReason::NotConnected, count);
                    }
                }
                Ok(Egress::Nowhere) => output.drop(DropReason::NowhereToGo, count),
                Ok(Egress::Flood) => self.flood(frames, now, output, &mut flooded),
                Err(reason) => output.drop(reason, count),
            }
        }
        flooded
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Others(&self.members)
    }

    fn announce(&self, address: MacAddress) -> Announced {
        if !self.admission.allows(address) {
            return Announced::NotAllowed;
        }
        self.table.learn(address, self.port).map_or_else(Announced::Refused, |()| Announced::Accepted)
    }
}

impl<G: Guard> Learning<G> {
    /// The target of a frame, and of all frames with the same addresses. `last_seen` is the last source that was
    /// learned of this burst.
    #[inline(always)]
    fn decide(&self, batch: &FrameBatch, at: u16, last_seen: &mut u64) -> Result<Egress, DropReason> {
        let frame = batch.frame(at.into());
        self.admission.admit(&frame)?;
        let source = frame.source().to_u64();
        if *last_seen != source {
            self.table.learn(frame.source(), self.port)?;
            *last_seen = source;
        }
        Ok(self.egress(frame.destination()))
    }

    #[inline]
    pub(crate) fn egress(&self, destination: MacAddress) -> Egress {
        if destination.is_group() {
            return match is_link_local(destination) && !self.link_local {
                true => Egress::Nowhere,
                false => Egress::Flood,
            };
        }
        match self.table.lookup(destination) {
            Some(port) if port == self.port => Egress::Nowhere,
            Some(port) => Egress::Port(port),
            None => Egress::Flood,
        }
    }

    /// To all other members that have a queue running.
    fn flood(&self, frames: Range<u16>, now: Now<'_>, output: &mut dyn Output, flooded: &mut Flooded) {
        let frames = self.limit_floods(frames, now, output);
        let count = frames.len() as u64;
        if count == 0 {
            return;
        }
        let mut receivers = 0;
        for port in self.members.iter().filter(|port| **port != self.port) {
            receivers += u64::from(output.send(*port, frames.clone()));
        }
        if receivers > 0 {
            flooded.frames += count;
            flooded.copies += receivers * count;
            return;
        }
        let alone = self.members.iter().all(|port| *port == self.port);
        output.drop(if alone { DropReason::NowhereToGo } else { DropReason::NotConnected }, count);
    }

    /// Returns the number of frames that the port's limit still allows to go to several ports. The others are dropped.
    pub(crate) fn limit_floods(
        &self,
        frames: Range<u16>,
        now: Now<'_>,
        output: &mut dyn Output,
    ) -> Range<u16> {
        let Some(floods) = &self.floods else { return frames };
        let passed = floods.take(frames.len() as u64, now()) as u16;
        let refused = frames.len() as u64 - u64::from(passed);
        if refused > 0 {
            output.drop(DropReason::FloodLimit, refused);
        }
        frames.start..frames.start + passed
    }
}

#[cfg(test)]
mod tests;
