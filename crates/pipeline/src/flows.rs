//! Forwarding by flow tables.
use std::sync::Arc;

use ::flow::{Field, Flow, Key, Learn};
use flow_tables::{Connection, Effect, HeaderRange, HeaderWindow, Outcome, Surroundings, Track};
use frame::{DropReason, FrameBatch, HeadEdit, WINDOW_BYTES};
use virtio::net::MacAddress;

use crate::learning::Egress;
use crate::{Announced, Flooded, Learning, Now, Output, PortId, Program, Reach, WorkerFlows};

/// Forwarding by flow tables, for one port. The tables are the worker's: [`Output::flows`].
#[derive(Debug)]
pub struct FlowProgram {
    /// The port, its network and what the action `normal` does.
    pub learning: Learning,
    /// The OpenFlow numbers of the network's ports, in ascending order.
    pub numbers: Arc<[u16]>,
}

/// The OpenFlow number of a port: numbers begin at 1.
pub fn port_number(port: PortId) -> u16 {
    port.0 + 1
}

/// What tables ask of a switch that has ports and nothing else.
struct Ports<'a>(&'a [u16]);

impl Surroundings for Ports<'_> {
    fn ports(&self) -> &[u16] {
        self.0
    }

    fn is_live(&self, port: u16) -> bool {
        self.0.binary_search(&port).is_ok()
    }

    fn meter(&mut self, _: u32, _: usize) -> bool {
        true
    }

    fn track(&mut self, _: &Track<'_>, _: &mut HeaderWindow, _: &Key) -> Connection {
        Connection::default()
    }

    fn learn(&mut self, _: &Flow, _: &Learn, _: u16) -> bool {
        false
    }
}

impl Program for FlowProgram {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let admission = &self.learning.admission;
        let passing = admission.police(batch, now, output);
        let mut flooded = Flooded::default();
        let Some(mut flows) = output.flows().take() else {
            output.drop(DropReason::ByFlow, passing as u64);
            return flooded;
        };
        for index in 0..passing as u16 {
            let admitted = admission.admit(&batch.frame(index.into()));
            match admitted.and_then(|()| self.forward(batch, index, now, &mut flows, output)) {
                Ok(1) => {}
                Ok(copies) => {
                    flooded.frames += 1;
                    flooded.copies += copies;
                }
                Err(reason) => output.drop(reason, 1),
            }
        }
        *output.flows() = Some(flows);
        flooded
    }

    fn reach(&self) -> Reach<'_> {
        Reach::All(&self.learning.members)
    }

    fn announce(&self, address: MacAddress) -> Announced {
        self.learning.announce(address)
    }
}

impl FlowProgram {
    /// How many copies of a frame leave; at least one.
    fn forward(
        &self,
        batch: &FrameBatch,
        index: u16,
        now: Now<'_>,
        flows: &mut WorkerFlows,
        output: &mut dyn Output,
    ) -> Result<u64, DropReason> {
        let frame = batch.frame(index.into());
        flows.window.take(frame.snapshot(), frame.len_bytes(), flows.tables.max_tags());
        let is_extended = flows.window.layers().is_cut;
        if is_extended {
            let window = output.window(index, WINDOW_BYTES);
            flows.window.take(window, frame.len_bytes(), flows.tables.max_tags());
        }
        let offload = frame.offload();
        flows.window.leave(
            offload.checksum.map(|sum| usize::from(sum.start) + usize::from(sum.offset)),
            offload.segmentation.map(|cut| usize::from(cut.segment_bytes.get())),
        );
        let mut metadata = Key::ZERO;
        metadata.set(Field::InPortOxm, port_number(self.learning.port).into());
        let outcome = flows.execute(self.learning.port, &metadata, &mut Ports(&self.numbers));
        outcome.hits.iter().for_each(|entry| entry.count(frame.len_bytes(), 0));
        if outcome.overrun.is_some() {
            return Err(DropReason::FlowLimit);
        }
        let mut sending = Sending { index, is_extended, edited: None, copies: 0, outcome, output };
        let mut result = Err(DropReason::ByFlow);
        for delivery in &outcome.deliveries {
            result = Err(DropReason::NotConnected);
            if self.numbers.binary_search(&delivery.port).is_ok() {
                sending.send(&delivery.header, PortId(delivery.port - 1));
            }
        }
        for effect in &outcome.effects {
            if let Effect::Normal(header, fields) = effect {
                result = self.normal(header, fields, now, &mut sending);
            }
        }
        match sending.copies {
            0 => Err(result.err().unwrap_or(DropReason::NotConnected)),
            copies => Ok(copies),
        }
    }

    /// Forwards as a switch does that learns addresses.
    fn normal<'a>(
        &self,
        header: &'a HeaderRange,
        fields: &Key,
        now: Now<'_>,
        sending: &mut Sending<'a>,
    ) -> Result<(), DropReason> {
        let address = |field| MacAddress::from_u64(fields.get(field) as u64);
        if !self.learning.admission.allows(address(Field::EthSrc)) {
            return Err(DropReason::Spoofed);
        }
        self.learning.table.learn(address(Field::EthSrc), self.learning.port)?;
        match self.learning.egress(address(Field::EthDst)) {
            Egress::Port(to) => sending.send(header, to),
            Egress::Nowhere => return Err(DropReason::NowhereToGo),
            Egress::Flood => {
                if self.learning.floods.as_ref().is_some_and(|floods| floods.take(1, now()) == 0) {
                    return Err(DropReason::FloodLimit);
                }
                let others = self.learning.members.iter().filter(|port| **port != self.learning.port);
                others.for_each(|port| sending.send(header, *port));
            }
        }
        Ok(())
    }
}

/// One frame on its way to ports.
struct Sending<'a> {
    index: u16,
    /// Whether more of the frame than its snapshot was read.
    is_extended: bool,
    /// The header of the last edit.
    edited: Option<&'a HeaderRange>,
    copies: u64,
    outcome: &'a Outcome,
    output: &'a mut dyn Output,
}

impl<'a> Sending<'a> {
    /// Gives the frame to a port, with this header.
    fn send(&mut self, header: &'a HeaderRange, to: PortId) {
        let edit = difference(self.output.window(self.index, 0), self.outcome.header(header));
        let is_same = edit.removed == 0 && edit.inserted.is_empty();
        let frames = self.index..self.index + 1;
        let sent = if is_same && !self.is_extended {
            self.output.send(to, frames)
        } else {
            if self.edited != Some(header) {
                self.output.edit(frames, &edit);
                self.edited = Some(header);
            }
            self.output.send_edited(to)
        };
        self.copies += u64::from(sent);
    }
}

/// The edit that makes the second of two beginnings of a frame out of the first.
fn difference<'a>(from: &[u8], to: &'a [u8]) -> HeadEdit<'a> {
    let at = from.iter().zip(to).take_while(|(from, to)| from == to).count();
    let (old, new) = (&from[at..], &to[at..]);
    let kept = old.iter().rev().zip(new.iter().rev()).take_while(|(from, to)| from == to).count();
    HeadEdit { at, removed: old.len() - kept, inserted: &new[..new.len() - kept] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_makes_one_beginning_out_of_the_other() {
        for (from, to, expected) in [
            ("abcdef", "abcdef", (6, 0, "")),
            ("abcdef", "abXdeY", (2, 4, "XdeY")),
            ("abcdef", "abcXYdef", (3, 0, "XY")),
            ("abcdef", "abef", (2, 2, "")),
            ("aa", "aaa", (2, 0, "a")),
            ("aaa", "aa", (2, 1, "")),
            ("", "ab", (0, 0, "ab")),
        ] {
            let edit = difference(from.as_bytes(), to.as_bytes());
            assert_eq!(
                (edit.at, edit.removed, edit.inserted),
                (expected.0, expected.1, expected.2.as_bytes())
            );
        }
    }
}
