//! Forwarding by flow tables.
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use ::flow::{Controller, Field, Key, Learn};
use flow_tables::{
    Connection, Delivery, Departure, Effect, HeaderRange, HeaderWindow, LookUp, Outcome, PacketIn,
    PlainFrame, Surroundings, Track,
};
use frame::{DropReason, Frame, FrameBatch, HeadEdit, OwnFrames, WINDOW_BYTES};
use virtio::net::{MacAddress, checksum};

use crate::connections::tracked_bytes;
use crate::fragments::{Datagram, is_fragment};
use crate::learning::Egress;
use crate::worker_flows::flow_ms;
use crate::{
    Announced, BondedNetwork, Connections, Flooded, Guard, Learning, Now, Output, PortId, PortNumbers,
    Program, PuntedFrame, Reach, TablesId, Unguarded, Upcalls, WorkerFlows,
};

/// Forwarding by flow tables, for one port. The tables are the worker's: [`Output::flows`].
#[derive(Debug)]
pub struct FlowProgram<G = Unguarded> {
    /// The port, its network and what the action `normal` does.
    pub learning: Learning<G>,
    /// The bonds of the network, if there are some. The action `normal` chooses a port of a bond; `output` names one.
    pub bonds: Option<BondedNetwork>,
    /// The tables by which the port's frames are forwarded.
    pub tables: TablesId,
    /// The port's OpenFlow number.
    pub number: u16,
    /// The OpenFlow numbers of the network's ports.
    pub numbers: Arc<PortNumbers>,
    /// The connections of the switch.
    pub connections: Arc<Connections>,
    /// Frames for controllers, and flows to be learned.
    pub upcalls: Arc<Upcalls>,
}

/// The time of a burst, which is read once, when it is needed.
struct BurstTime<'a> {
    /// Reads the clock.
    now: Now<'a>,
    read: Cell<Option<u64>>,
}

impl<'a> BurstTime<'a> {
    fn new(now: Now<'a>) -> Self {
        BurstTime { now, read: Cell::new(None) }
    }

    /// The time in ms, by [`flow_ms`].
    fn ms(&self) -> u64 {
        self.read.get().unwrap_or_else(|| {
            let read = flow_ms((self.now)());
            self.read.set(Some(read));
            read
        })
    }
}

/// The parts of a switch that tables use for a frame.
struct Around<'a, G> {
    program: &'a FlowProgram<G>,
    time: &'a BurstTime<'a>,
    /// Whether a frame for controllers has found no room.
    is_refused: bool,
    /// The datagram of which the frame is a fragment, once it is complete.
    datagram: Option<&'a mut Datagram>,
    /// Whether the frame is a fragment that may wait for others: no tunnel brought it, and no label is in front of it.
    may_wait: bool,
    /// Whether the frame waits for other fragments.
    waits: bool,
}

impl<G> Surroundings for Around<'_, G> {
    fn now_ms(&mut self) -> u64 {
        self.time.ms()
    }

    fn ports(&self) -> &[u16] {
        self.program.numbers.numbers()
    }

    fn is_live(&self, port: u16) -> bool {
        self.program.numbers.is_live(port)
    }

    fn is_tunnel(&self, port: u16) -> bool {
        self.program.numbers.is_tunnel(port)
    }

    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        let (port, now) = (self.program.learning.port, Duration::from_millis(self.time.ms()));
        let connections = &self.program.connections;
        if !self.may_wait || !is_fragment(window) {
            return connections.track(Some(port), track, window, now);
        }
        match &mut self.datagram {
            Some(datagram) => datagram.track(connections, port, track, window, now),
            None => {
                self.waits = true;
                Connection::default()
            }
        }
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn learn(&mut self, learn: &Arc<Learn>, key: &Key) -> bool {
        let FlowProgram { learning, tables, upcalls, .. } = self.program;
        upcalls.learn(Some(learning.port), *tables, learn, key, (self.time.now)())
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        let FlowProgram { learning, upcalls, .. } = self.program;
        let room = upcalls.has_room(Some(learning.port), (self.time.now)());
        self.is_refused |= !room;
        room
    }
}

impl<G: Guard> Program for FlowProgram<G> {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let admission = &self.learning.admission;
        let passing = admission.police(batch, now, output);
        let mut flooded = Flooded::default();
        let Some(mut flows) = output.flows(self.tables).take() else {
            output.drop(DropReason::ByFlow, passing as u64);
            return flooded;
        };
        let time = BurstTime::new(now);
        for index in 0..passing as u16 {
            let admitted = admission.admit(&batch.frame(index.into()));
            let frame = Forwarded { batch, index, time: &time, datagram: None };
            match admitted.and_then(|()| self.forward(frame, &mut flows, output)) {
                Ok(copies) => flooded.count(copies),
                Err(reason) => output.drop(reason, 1),
            }
        }
        flows.end_burst(now);
        *output.flows(self.tables) = Some(flows);
        flooded
    }

    fn take_held(&self, into: &mut OwnFrames, output: &mut dyn Output) -> bool {
        let flows = output.flows(self.tables).as_mut();
        flows.is_some_and(|flows| flows.datagrams.take(&self.connections, into))
    }

    fn run_held(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let mut flooded = Flooded::default();
        let Some(mut flows) = output.flows(self.tables).take() else { return flooded };
        let (time, mut datagram) = (BurstTime::new(now), flows.datagrams.present());
        for index in 0..batch.len() as u16 {
            datagram.begin_fragment();
            let frame = Forwarded { batch, index, time: &time, datagram: Some(&mut datagram) };
            match self.forward(frame, &mut flows, output) {
                Ok(copies) => flooded.count(copies),
                Err(reason) => output.drop(reason, 1),
            }
        }
        flows.datagrams.put_back(datagram);
        *output.flows(self.tables) = Some(flows);
        flooded
    }

    fn reach(&self) -> Reach<'_> {
        Reach::All(self.bonds.as_ref().map_or(&self.learning.members, |network| &network.ports))
    }

    fn announce(&self, address: MacAddress) -> Announced {
        self.learning.announce(address)
    }
}

/// A frame of a burst.
struct Forwarded<'a> {
    batch: &'a FrameBatch,
    index: u16,
    time: &'a BurstTime<'a>,
    /// The complete datagram of which the frame is a fragment.
    datagram: Option<&'a mut Datagram>,
}

impl<G: Guard> FlowProgram<G> {
    /// How many copies of a frame leave; none if it is held. Inlined: the second caller is rare, and a call costs each frame
    /// thirty instructions.
    #[inline(always)]
    fn forward(
        &self,
        Forwarded { batch, index, time, datagram }: Forwarded<'_>,
        flows: &mut WorkerFlows,
        output: &mut dyn Output,
    ) -> Result<u64, DropReason> {
        let frame = batch.frame(index.into());
        let (offload, tunnel) = (frame.offload(), batch.metadata(index.into()));
        let (mut plain, max_tags) = (None, flows.tables.max_tags());
        let (head, is_partial) = (frame.full_snapshot(), offload.checksum.is_some());
        if tunnel.is_none()
            && let Some(of) = PlainFrame::of(head, frame.len_bytes(), max_tags, is_partial)
        {
            match flows.look_up(self.learning.port, self.number, &of) {
                LookUp::Departs(departure) => return self.depart(index, &of, departure, time, output),
                LookUp::Other(looked) => plain = Some((of, looked)),
            }
        }
        let mut is_extended = false;
        let mut rest = Some(&mut *output);
        let mut more = || {
            let output = rest.take()?;
            is_extended = true;
            Some(output.window(index, WINDOW_BYTES))
        };
        match &plain {
            Some((plain, _)) => flows.window.take_plain(plain, max_tags),
            None => flows.window.take_with(frame.snapshot(), frame.len_bytes(), max_tags, &mut more),
        }
        // Flows with `ct` read or write the zone.
        if flows.tables.compared().get(Field::CtZone) != 0 {
            let bytes = tracked_bytes(&flows.window, flows.tables.has_helper());
            if bytes > flows.window.bytes().len() {
                is_extended = true;
                flows.window.extend(output.window(index, bytes));
            }
        }
        flows.window.leave(
            offload.checksum.map(|sum| usize::from(sum.start) + usize::from(sum.offset)),
            offload.segmentation.map(|cut| usize::from(cut.segment_bytes.get())),
        );
        let may_wait = tunnel.is_none() && flows.window.held().get(Field::IpFrag) != 0;
        let mut around = Around { program: self, time, is_refused: false, datagram, may_wait, waits: false };
        match tunnel {
            None if may_wait => {
                flows.execute_fragment(self.number, &mut around);
            }
            tunnel => flows.execute(self.learning.port, self.number, tunnel, plain, &mut around),
        }
        if around.waits {
            return self.hold(&frame, time, flows, output);
        }
        let leaving = Leaving {
            frame: &frame,
            from: Some(self.learning.port),
            tables: self.tables,
            numbers: &self.numbers,
            upcalls: &self.upcalls,
            is_refused: around.is_refused,
        };
        Sending::new(index, is_extended, &flows.outcome, output).leave(&leaving, |header, sending| {
            let head = sending.outcome.header(header);
            self.normal(head, frame.len_bytes(), time, |to| sending.send(header, to))
        })
    }

    /// Gives a plain frame to ports. How many copies have left; at least one.
    #[inline(always)]
    fn depart(
        &self,
        index: u16,
        frame: &PlainFrame<'_>,
        departure: &Departure,
        time: &BurstTime<'_>,
        output: &mut dyn Output,
    ) -> Result<u64, DropReason> {
        let (frames, mut copies) = (index..index + 1, 0);
        let mut result = Err(DropReason::ByFlow);
        if departure.is_normal() {
            let send = |to| copies += u64::from(output.send(to, frames.clone()));
            result = self.normal(frame.bytes(), frame.frame_bytes(), time, send);
        }
        let head = departure.head(frame);
        if let Some(head) = &head {
            let edit = HeadEdit { at: head.at, removed: head.removed, inserted: head.inserted() };
            output.edit(frames.clone(), &edit);
        }
        for port in departure.ports() {
            result = Err(DropReason::NotConnected);
            if let Some(to) = self.numbers.port(*port) {
                let sent = match head {
                    Some(_) => output.send_edited(to),
                    None => output.send(to, frames.clone()),
                };
                copies += u64::from(sent);
            }
        }
        match copies {
            0 => Err(result.err().unwrap_or(DropReason::NotConnected)),
            copies => Ok(copies),
        }
    }

    /// Holds a fragment: no copy of it leaves yet.
    #[cold]
    fn hold(
        &self,
        frame: &Frame<'_>,
        time: &BurstTime<'_>,
        flows: &mut WorkerFlows,
        output: &mut dyn Output,
    ) -> Result<u64, DropReason> {
        let (port, now) = (self.learning.port, Duration::from_millis(time.ms()));
        let holding = flows.datagrams.hold(&self.connections, port, frame, &flows.window, now);
        if holding.dropped > 0 {
            output.drop(DropReason::Incomplete, holding.dropped);
        }
        if holding.is_complete {
            output.again();
        }
        if holding.is_held { Ok(0) } else { Err(DropReason::Incomplete) }
    }

    /// Forwards a frame that begins with `head` as a switch does that learns addresses.
    fn normal(
        &self,
        head: &[u8],
        bytes: usize,
        time: &BurstTime<'_>,
        mut send: impl FnMut(PortId),
    ) -> Result<(), DropReason> {
        let Some((destination, rest)) = head.split_first_chunk() else {
            return Err(DropReason::NowhereToGo);
        };
        let Some(source) = rest.first_chunk() else { return Err(DropReason::NowhereToGo) };
        let (destination, source) = (MacAddress(*destination), MacAddress(*source));
        if !self.learning.admission.allows(source) {
            return Err(DropReason::Spoofed);
        }
        self.learning.table.learn(source, self.learning.port)?;
        let bonds = self.bonds.as_ref();
        let exit = |to: PortId| bonds.map_or(to, |network| network.exit(to, head, bytes));
        match self.learning.egress(destination) {
            Egress::Port(to) => send(exit(to)),
            Egress::Nowhere => return Err(DropReason::NowhereToGo),
            Egress::Flood => {
                if self.learning.floods.as_ref().is_some_and(|floods| floods.take(1, (time.now)()) == 0) {
                    return Err(DropReason::FloodLimit);
                }
                let others = self.learning.members.iter().filter(|port| **port != self.learning.port);
                others.for_each(|port| send(exit(*port)));
            }
        }
        Ok(())
    }
}

/// Where a frame comes from, and the parts of the switch by which it leaves.
pub(crate) struct Leaving<'a> {
    pub frame: &'a Frame<'a>,
    /// The port whose upcalls count; `None` for a frame of a controller from a reserved port.
    pub from: Option<PortId>,
    pub tables: TablesId,
    pub numbers: &'a PortNumbers,
    pub upcalls: &'a Upcalls,
    /// Whether a frame for controllers has found no room.
    pub is_refused: bool,
}

/// One frame on its way to ports.
pub(crate) struct Sending<'a> {
    index: u16,
    /// Whether more of the frame than its snapshot was read.
    is_extended: bool,
    /// The header of the last edit.
    edited: Option<&'a HeaderRange>,
    pub copies: u64,
    pub outcome: &'a Outcome,
    output: &'a mut dyn Output,
}

impl<'a> Sending<'a> {
    /// A frame of a burst. `is_extended` says whether more of the frame than its snapshot was read.
    pub fn new(index: u16, is_extended: bool, outcome: &'a Outcome, output: &'a mut dyn Output) -> Self {
        Sending { index, is_extended, edited: None, copies: 0, outcome, output }
    }

    /// Gives the frame to ports and controllers, as its outcome says. `normal` forwards it by addresses. How many copies
    /// have left; at least one.
    #[inline(always)]
    pub fn leave(
        mut self,
        leaving: &Leaving<'_>,
        mut normal: impl FnMut(&'a HeaderRange, &mut Self) -> Result<(), DropReason>,
    ) -> Result<u64, DropReason> {
        let outcome = self.outcome;
        if outcome.overrun.is_some() {
            return Err(DropReason::FlowLimit);
        }
        let mut result =
            Err(if leaving.is_refused { DropReason::ControllerLimit } else { DropReason::ByFlow });
        for delivery in &outcome.deliveries {
            result = Err(DropReason::NotConnected);
            if let Some(port) = leaving.numbers.port(delivery.port) {
                self.deliver(delivery, port);
            }
        }
        for effect in &outcome.effects {
            match effect {
                Effect::Normal(header) => result = normal(header, &mut self),
                Effect::PacketIn(packet) => {
                    let punted = self.punted(leaving.frame, packet);
                    result = Err(leaving.upcalls.punt(leaving.from, leaving.tables, punted));
                }
                Effect::Sample(..) => {}
            }
        }
        match self.copies {
            0 => Err(result.err().unwrap_or(DropReason::NotConnected)),
            copies => Ok(copies),
        }
    }

    /// Gives the frame to the port of a delivery.
    pub fn deliver(&mut self, delivery: &'a Delivery, to: PortId) {
        let Some(tunnel) = &delivery.tunnel else { return self.send(&delivery.header, to) };
        self.edit(&delivery.header);
        self.output.attach(tunnel);
        // Other ports get the frame without the fields.
        self.edited = None;
        self.copies += u64::from(self.output.send_edited(to));
    }

    fn edit(&mut self, header: &HeaderRange) {
        let edit = match header.is_changed {
            true => difference(self.output.window(self.index, 0), self.outcome.header(header)),
            false => HeadEdit::NONE,
        };
        self.output.edit(self.index..self.index + 1, &edit);
    }

    /// Gives the frame to a port, with this header.
    pub fn send(&mut self, header: &'a HeaderRange, to: PortId) {
        let frames = self.index..self.index + 1;
        let sent = if !header.is_changed && !self.is_extended {
            self.output.send(to, frames)
        } else {
            if self.edited != Some(header) {
                self.edit(header);
                self.edited = Some(header);
            }
            self.output.send_edited(to)
        };
        self.copies += u64::from(sent);
    }
}

impl Sending<'_> {
    /// The frame for controllers with the header of its actions, and with a checksum that its sender left partial.
    #[cold]
    pub fn punted(&mut self, frame: &Frame<'_>, packet: &PacketIn) -> PuntedFrame {
        let known = self.output.window(self.index, 0).len();
        let head = self.outcome.header(&packet.header);
        let frame_bytes = head.len() + frame.len_bytes().saturating_sub(known);
        let most_bytes = PuntedFrame::most_bytes(&packet.controller);
        let partial = frame.offload().checksum;
        // The checksum is of all bytes.
        let read_bytes = if partial.is_some() { frame_bytes } else { frame_bytes.min(most_bytes) };
        let mut bytes = vec![0; read_bytes];
        let (begin, rest) = bytes.split_at_mut(head.len().min(read_bytes));
        begin.copy_from_slice(&head[..begin.len()]);
        frame.read(known, rest);
        if let Some(partial) = partial {
            // Added or removed tags move the start.
            let start = (usize::from(partial.start) + head.len()).saturating_sub(known);
            let sum = bytes.get(start..).map_or(0, checksum::sum);
            if let Some(place) =
                bytes.get_mut(start + usize::from(partial.offset)..).and_then(<[u8]>::first_chunk_mut)
            {
                *place = checksum::nonzero_field(sum).to_be_bytes();
            }
        }
        bytes.truncate(most_bytes);
        bytes.shrink_to_fit();
        PuntedFrame { packet: Box::new(packet.clone()), bytes, frame_bytes }
    }
}

/// The edit that makes the second of two beginnings of a frame out of the first.
fn difference<'a>(from: &[u8], to: &'a [u8]) -> HeadEdit<'a> {
    const WORD: usize = 8;
    let words = from.chunks_exact(WORD).zip(to.chunks_exact(WORD));
    let equal = words.take_while(|(from, to)| from == to).count() * WORD;
    let rest = from[equal..].iter().zip(&to[equal..]);
    let at = equal + rest.take_while(|(from, to)| from == to).count();
    let (old, new) = (&from[at..], &to[at..]);
    let words = old.rchunks_exact(WORD).zip(new.rchunks_exact(WORD));
    let equal = words.take_while(|(from, to)| from == to).count() * WORD;
    let rest = old[..old.len() - equal].iter().rev().zip(new[..new.len() - equal].iter().rev());
    let kept = equal + rest.take_while(|(from, to)| from == to).count();
    HeadEdit { at, removed: old.len() - kept, inserted: &new[..new.len() - kept] }
}

#[cfg(test)]
mod tests;
