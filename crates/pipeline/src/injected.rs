//! A frame that a controller sends (OpenFlow 1.5 §7.3.6): its actions are executed in the place of a port's program.
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::flow::{Controller, Key, Learn};
use flow_tables::{Connection, Continuation, HeaderRange, HeaderWindow, Surroundings, Track};
use frame::{DropReason, FrameBatch, WINDOW_BYTES};
use virtio::net::MacAddress;

use crate::flows::{Leaving, Sending};
use crate::worker_flows::flow_ms;
use crate::{
    Announced, BondedNetwork, Connections, Flooded, MacTable, Now, Output, PortId, PortNumbers, Program,
    Reach, TablesId, Upcalls,
};

/// A frame of a controller.
#[derive(Clone, Debug)]
pub struct ControllersFrame {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The number of its input port, which may be a reserved one.
    pub input: u16,
    /// Its input port and registers.
    pub metadata: Key,
    /// The actions.
    pub rest: Continuation,
}

/// The execution of one frame of a controller.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The tables that its actions may visit.
    pub tables: TablesId,
    /// The OpenFlow numbers of the network's ports.
    pub numbers: Arc<PortNumbers>,
    /// The port by which the network knows the input port: another one if that belongs to a bond.
    pub home: Option<PortId>,
    /// The ports of the network, with one port for each bond.
    pub members: Arc<[PortId]>,
    /// The bonds of the network, if there are some.
    pub bonds: Option<BondedNetwork>,
    /// The addresses that the network has learned.
    pub addresses: Arc<MacTable>,
    /// The connections of the switch.
    pub connections: Arc<Connections>,
    /// Frames for controllers, and flows to be learned.
    pub upcalls: Arc<Upcalls>,
    /// The frame.
    pub frame: ControllersFrame,
}

/// The parts of a switch that actions use for a controller's frame.
struct Around<'a> {
    program: &'a Injected,
    now: Instant,
    is_refused: bool,
}

impl Surroundings for Around<'_> {
    fn now_ms(&mut self) -> u64 {
        flow_ms(self.now)
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
        self.program.connections.track(None, track, window, Duration::from_millis(flow_ms(self.now)))
    }

    fn learn(&mut self, learn: &Arc<Learn>, key: &Key) -> bool {
        self.program.upcalls.learn(self.program.from(), self.program.tables, learn, key, self.now)
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        let room = self.program.upcalls.has_room(self.program.from(), self.now);
        self.is_refused |= !room;
        room
    }
}

impl Program for Injected {
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        let copies = self.execute(batch, now(), output);
        match copies {
            Ok(1) => Flooded::default(),
            Ok(copies) => Flooded { frames: 1, copies },
            Err(reason) => {
                output.drop(reason, 1);
                Flooded::default()
            }
        }
    }

    fn reach(&self) -> Reach<'_> {
        Reach::All(self.bonds.as_ref().map_or(&self.members, |network| &network.ports))
    }

    fn announce(&self, _: MacAddress) -> Announced {
        Announced::NotAllowed
    }
}

impl Injected {
    /// The frame's input port, whose upcalls count; `None` for a reserved one.
    fn from(&self) -> Option<PortId> {
        self.numbers.port(self.frame.input)
    }

    /// How many copies of the frame leave; at least one.
    fn execute(&self, batch: &FrameBatch, now: Instant, output: &mut dyn Output) -> Result<u64, DropReason> {
        let mut flows = output.flows(self.tables).take().ok_or(DropReason::ByFlow)?;
        let frame = batch.frame(0);
        let frame_bytes = frame.len_bytes();
        let window = output.window(0, WINDOW_BYTES).to_vec();
        let mut around = Around { program: self, now, is_refused: false };
        let (metadata, rest) = (&self.frame.metadata, self.frame.rest.clone());
        flows.tables.resume(&window, frame_bytes, metadata, rest, &mut around, &mut flows.outcome);
        let leaving = Leaving {
            frame: &frame,
            from: self.from(),
            tables: self.tables,
            numbers: &self.numbers,
            upcalls: &self.upcalls,
            is_refused: around.is_refused,
        };
        let (outcome, now_ms) = (&flows.outcome, flow_ms(now));
        outcome.hits.iter().for_each(|entry| entry.count(frame_bytes, now_ms));
        let copies = Sending::new(0, true, outcome, output)
            .leave(&leaving, |header, sending| self.normal(header, sending));
        *output.flows(self.tables) = Some(flows);
        copies
    }

    /// Forwards by address; nothing is learned from a controller's frame.
    fn normal<'a>(&self, header: &'a HeaderRange, sending: &mut Sending<'a>) -> Result<(), DropReason> {
        let from = self.home;
        let head = sending.outcome.header(header);
        let Some(destination) = head.first_chunk() else {
            return Err(DropReason::NowhereToGo);
        };
        let destination = MacAddress(*destination);
        let known = if destination.is_group() { None } else { self.addresses.lookup(destination) };
        let bytes = self.frame.bytes.len();
        let exit = |to: PortId| self.bonds.as_ref().map_or(to, |network| network.exit(to, head, bytes));
        match known {
            Some(port) if Some(port) == from => return Err(DropReason::NowhereToGo),
            Some(port) => sending.send(header, exit(port)),
            None => {
                let others = self.members.iter().filter(|port| Some(**port) != from);
                others.for_each(|port| sending.send(header, exit(*port)));
            }
        }
        Ok(())
    }
}
