//! For tests: a burst in memory, and an output that records its calls.
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{DropReason, FrameBatch, HeadEdit, OwnMemory};
use virtio::net::{HeaderLayout, MacAddress, NetHeader};

use crate::{
    Admission, Flooded, Learning, MacTable, Output, PortId, Program, TableOptions, TablesId, WorkerFlows,
};

/// The address of station `n`.
pub fn mac(n: u64) -> MacAddress {
    MacAddress::from_u64(0x0200_0000_0000 + n)
}

/// The programs of a network of these ports, which share a table of addresses.
pub fn network(members: &[PortId]) -> Vec<Learning> {
    let ports = members.iter().map(|port| usize::from(port.0) + 1).max().unwrap_or(0);
    let table = Arc::new(MacTable::new(TableOptions::default(), ports, []));
    let members: Arc<[PortId]> = members.into();
    let learning = |port: &PortId| Learning {
        port: *port,
        table: Arc::clone(&table),
        members: Arc::clone(&members),
        admission: Admission::default(),
        link_local: false,
        floods: None,
    };
    members.iter().map(learning).collect()
}

/// A burst of frames with these destinations, sources and lengths in bytes.
pub fn burst(frames: &[(MacAddress, MacAddress, usize)]) -> FrameBatch {
    let frame = |(destination, source, bytes): &(MacAddress, MacAddress, usize)| {
        let mut frame = vec![0; *bytes];
        frame[..6].copy_from_slice(&destination.0);
        frame[6..12].copy_from_slice(&source.0);
        frame
    };
    burst_of(&frames.iter().map(frame).collect::<Vec<_>>())
}

/// A burst of these frames.
pub fn burst_of(frames: &[Vec<u8>]) -> FrameBatch {
    const ROOM: usize = 2048;
    let memory = OwnMemory::new(c"burst", (frames.len().max(1) * ROOM) as u64).unwrap();
    let mut batch = FrameBatch::of_memory(frames.len());
    for (index, frame) in frames.iter().enumerate() {
        let start = index * ROOM;
        memory.slice(start + NetHeader::BYTES, frame.len()).write(frame);
        let arena = batch.arena_mut().unwrap();
        let first = arena.len();
        memory.sg_builder().push(arena, start as u64, (NetHeader::BYTES + frame.len()) as u32);
        batch.push(first, HeaderLayout::Full).unwrap();
    }
    batch
}

/// A call that a program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Send(PortId, Range<u16>),
    All(PortId),
    /// The position of the edit, the number of bytes removed, and the bytes inserted.
    SendEdited(PortId, Range<u16>, (usize, usize, Vec<u8>)),
    Drop(DropReason, u64),
}

/// Records the calls of a program. Ports in `down` have no queue.
#[derive(Default)]
pub struct Recorder {
    pub said: Vec<Said>,
    pub down: Vec<PortId>,
    pub several_queues: bool,
    pub again: bool,
    pub flows: Option<Box<WorkerFlows>>,
    /// The frames of the last edit, and the edit.
    pub edited: (Range<u16>, (usize, usize, Vec<u8>)),
}

impl Output for Recorder {
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool {
        let up = !self.down.contains(&to);
        if up {
            self.said.push(Said::Send(to, frames));
        }
        up
    }

    fn send_all(&mut self, to: PortId) -> bool {
        let up = !self.several_queues && !self.down.contains(&to);
        if up {
            self.said.push(Said::All(to));
        }
        up
    }

    fn window(&mut self, _frame: u16, _bytes: usize) -> &[u8] {
        &[]
    }

    fn attach(&mut self, _metadata: &frame::Metadata) {}

    fn edit(&mut self, frames: Range<u16>, edit: &HeadEdit<'_>) {
        self.edited = (frames, (edit.at, edit.removed, edit.inserted.to_vec()));
    }

    fn send_edited(&mut self, to: PortId) -> bool {
        let up = !self.down.contains(&to);
        if up {
            let (frames, edit) = self.edited.clone();
            self.said.push(Said::SendEdited(to, frames, edit));
        }
        up
    }

    fn flows(&mut self, _: TablesId) -> &mut Option<Box<WorkerFlows>> {
        &mut self.flows
    }

    fn again(&mut self) {
        self.again = true;
    }

    fn drop(&mut self, reason: DropReason, frames: u64) {
        self.said.push(Said::Drop(reason, frames));
    }
}

/// Runs a program over a burst, with these ports down. Returns its calls, and how often it read the clock.
pub fn run_with(
    program: &dyn Program,
    batch: &FrameBatch,
    mut output: Recorder,
) -> (Vec<Said>, Flooded, u32) {
    let (asked, start) = (Cell::new(0), Instant::now());
    let now = || {
        asked.set(asked.get() + 1);
        start + Duration::from_millis(1)
    };
    let flooded = program.run(batch, &now, &mut output);
    (output.said, flooded, asked.get())
}

/// Runs a program on a batch, with all ports up.
pub fn run(program: &dyn Program, batch: &FrameBatch) -> Vec<Said> {
    run_with(program, batch, Recorder::default()).0
}
