//! Forwarding by address within VLANs.
use std::ops::Range;
use std::sync::Arc;

use frame::{DropReason, FrameBatch};
use virtio::net::MacAddress;

use super::port::PortVlans;
use super::tags::{TagEdit, Tags};
use crate::learning::is_link_local;
use crate::{Announced, Flooded, Guard, Learning, Now, Output, PortId, Program, Reach, Unguarded};

/// Learning by address, for one port of a network with VLANs. Stations are known by VLAN and address. A frame
/// leaves only at ports of its VLAN, with the tags that are required there.
#[derive(Debug)]
pub struct VlanLearning<G = Unguarded> {
    /// The port and its network.
    pub learning: Learning<G>,
    /// By port.
    pub vlans: Arc<[PortVlans]>,
}

/// Frames with the same addresses and tags.
struct Run<'a> {
    frames: Range<u16>,
    /// The tags that the frames came with, and the tags that they have in the switch.
    tags: Tags,
    within: Tags,
    now: Now<'a>,
}

impl<G: Guard> Program for VlanLearning<G> {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let mut flooded = Flooded::default();
        let mut last_seen = None;
        let admission = &self.learning.admission;
        let passing = admission.police(batch, now, output);
        for frames in admission.runs(batch, passing) {
            let mut rest = frames;
            while !rest.is_empty() {
                let tags = Tags::of(batch.frame(rest.start.into()).snapshot());
                let same = |index: &u16| tags.are_of(batch.frame((*index).into()).snapshot());
                let end = rest.start + 1 + (rest.start + 1..rest.end).take_while(same).count() as u16;
                let frames = rest.start..end;
                rest.start = end;
                let count = frames.len() as u64;
                let within = self.admit(batch, frames.start, &tags, &mut last_seen);
                match within {
                    Ok(within) => {
                        self.forward(batch, Run { frames, tags, within, now }, output, &mut flooded)
                    }
                    Err(reason) => output.drop(reason, count),
                }
            }
        }
        flooded
    }

    fn reach(&self) -> Reach<'_> {
        self.learning.reach()
    }

    fn announce(&self, address: MacAddress) -> Announced {
        if !self.learning.admission.allows(address) {
            return Announced::NotAllowed;
        }
        let vlan = self.of(self.learning.port).map_or(0, PortVlans::untagged_vlan);
        let learned = self.learning.table.learn_in(vlan, address, self.learning.port);
        learned.map_or_else(Announced::Refused, |()| Announced::Accepted)
    }
}

impl<G: Guard> VlanLearning<G> {
    fn of(&self, port: PortId) -> Option<&PortVlans> {
        self.vlans.get(usize::from(port.0))
    }

    /// The tags that a frame has in the switch. Its sender is learned in its VLAN; `last_seen` is the last that was.
    fn admit(
        &self,
        batch: &FrameBatch,
        at: u16,
        tags: &Tags,
        last_seen: &mut Option<(u16, MacAddress)>,
    ) -> Result<Tags, DropReason> {
        let frame = batch.frame(at.into());
        self.learning.admission.admit(&frame)?;
        let port = self.of(self.learning.port).ok_or(DropReason::NowhereToGo)?;
        let within = port.ingress(tags).ok_or(DropReason::WrongVlan)?;
        let station = (within.vlan(), frame.source());
        if *last_seen != Some(station) {
            self.learning.table.learn_in(station.0, station.1, self.learning.port)?;
            *last_seen = Some(station);
        }
        Ok(within)
    }

    fn forward(&self, batch: &FrameBatch, run: Run<'_>, output: &mut dyn Output, flooded: &mut Flooded) {
        let destination = batch.frame(run.frames.start.into()).destination();
        let count = run.frames.len() as u64;
        if destination.is_group() {
            return match is_link_local(destination) && !self.learning.link_local {
                true => output.drop(DropReason::NowhereToGo, count),
                false => self.flood(run, output, flooded),
            };
        }
        let Some(port) = self.learning.table.lookup_in(run.within.vlan(), destination) else {
            return self.flood(run, output, flooded);
        };
        if port == self.learning.port {
            return output.drop(DropReason::NowhereToGo, count);
        }
        // A port that was taken out of the VLAN is not its station's any more.
        let Some(tags) = self.of(port).and_then(|port| port.egress(&run.within, &run.tags)) else {
            return self.flood(run, output, flooded);
        };
        let sent = if tags == run.tags {
            output.send(port, run.frames)
        } else {
            output.edit(run.frames, &TagEdit::new(&run.tags, &tags).edit());
            output.send_edited(port)
        };
        if !sent {
            output.drop(DropReason::NotConnected, count);
        }
    }

    /// To all other members of the VLAN that have a queue running.
    fn flood(&self, run: Run<'_>, output: &mut dyn Output, flooded: &mut Flooded) {
        let frames = self.learning.limit_floods(run.frames.clone(), run.now, output);
        let count = frames.len() as u64;
        if count == 0 {
            return;
        }
        let (mut members, mut receivers) = (false, 0);
        // Frames are sent with the received tags, with the tags that they have in the switch, or without the outermost
        // of these: each edit is made once. The remaining ports need other tags.
        let mut done = [None; 3];
        for (at, form) in [run.tags, run.within, run.within.popped()].into_iter().enumerate() {
            if done.contains(&Some(form)) {
                continue;
            }
            done[at] = Some(form);
            let mut is_edited = form == run.tags;
            for port in self.others(&run).filter(|(_, tags)| *tags == form).map(|(port, _)| port) {
                members = true;
                if !is_edited {
                    output.edit(frames.clone(), &TagEdit::new(&run.tags, &form).edit());
                    is_edited = true;
                }
                let sent = if form == run.tags {
                    output.send(port, frames.clone())
                } else {
                    output.send_edited(port)
                };
                receivers += u64::from(sent);
            }
        }
        for (port, tags) in self.others(&run).filter(|(_, tags)| !done.contains(&Some(*tags))) {
            members = true;
            output.edit(frames.clone(), &TagEdit::new(&run.tags, &tags).edit());
            receivers += u64::from(output.send_edited(port));
        }
        if receivers > 0 {
            flooded.frames += count;
            flooded.copies += receivers * count;
            return;
        }
        output.drop(if members { DropReason::NotConnected } else { DropReason::NowhereToGo }, count);
    }

    /// The other ports of the VLAN of some frames, each with the tags that the frames must have there.
    fn others(&self, run: &Run<'_>) -> impl Iterator<Item = (PortId, Tags)> {
        let others = self.learning.members.iter().filter(|port| **port != self.learning.port);
        others.filter_map(|port| Some((*port, self.of(*port)?.egress(&run.within, &run.tags)?)))
    }
}
