//! What it costs to decide where frames go: bursts of 32 frames of a port that learns, all to one station or each to
//! another, and of an access port to a trunk; and an output that only counts.
//!
//! `cargo run --release -p tautline-pipeline --example decide one|each|access BURSTS` runs them; with `gate` it counts instructions,
//! which repeat exactly, and says whether the limits are kept.
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use frame::{DropReason, FrameBatch, HeadEdit, OwnMemory};
use peers::callgrind::{Runs, gate};
use pipeline::{
    Admission, Learning, MacTable, Output, PortId, PortVlans, Program, TableOptions, VlanLearning,
    VlanOptions, WorkerFlows,
};
use virtio::net::{HeaderLayout, MacAddress, NetHeader};

const BURST: usize = 32;
const ROOM: usize = 128;

/// Instructions a frame that must not be exceeded: what was measured, and a tenth for other compilers.
const LIMITS: [(&str, f64); 3] = [("one", 21.0), ("each", 185.0), ("access", 60.0)];

struct Counting {
    frames: u64,
    /// Of the last edit.
    edited: u64,
    dropped: u64,
    flows: Option<Box<WorkerFlows>>,
}

impl Output for Counting {
    fn send(&mut self, _to: PortId, frames: Range<u16>) -> bool {
        self.frames += frames.len() as u64;
        true
    }

    fn send_all(&mut self, _to: PortId) -> bool {
        false
    }

    fn window(&mut self, _frame: u16, _bytes: usize) -> &[u8] {
        &[]
    }

    fn edit(&mut self, frames: Range<u16>, _edit: &HeadEdit<'_>) {
        self.edited = frames.len() as u64;
    }

    fn send_edited(&mut self, _to: PortId) -> bool {
        self.frames += self.edited;
        true
    }

    fn flows(&mut self) -> &mut Option<Box<WorkerFlows>> {
        &mut self.flows
    }

    fn drop(&mut self, _reason: DropReason, frames: u64) {
        self.dropped += frames;
    }
}

fn station(n: usize) -> MacAddress {
    MacAddress::from_u64(0x0200_0000_0000 + n as u64)
}

fn burst(stations: usize) -> FrameBatch {
    let memory = OwnMemory::new(c"burst", (BURST * ROOM) as u64).expect("memory");
    let mut batch = FrameBatch::of_memory(BURST);
    for index in 0..BURST {
        let start = index * ROOM;
        let mut frame = [0; 64];
        frame[..6].copy_from_slice(&station(1 + index % stations).0);
        frame[6..12].copy_from_slice(&station(0).0);
        memory.slice(start + NetHeader::BYTES, frame.len()).write(&frame);
        let arena = batch.arena_mut().expect("a batch of memory");
        let first = arena.len();
        memory.sg_builder().push(arena, start as u64, (NetHeader::BYTES + frame.len()) as u32);
        batch.push(first, HeaderLayout::Full).expect("a sound frame");
    }
    batch
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (stations, vlan, bursts) = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["gate"] => {
            let runs = Runs { few: 64, many: 1088, frames: BURST };
            return gate(&LIMITS, runs, |case| format!("learning, to {case}"));
        }
        ["one", bursts] => (1, 0, bursts.parse()),
        ["each", bursts] => (BURST, 0, bursts.parse()),
        ["access", bursts] => (1, 10, bursts.parse()),
        _ => {
            eprintln!("decide: gate, or one|each|access and a number of bursts");
            return ExitCode::from(2);
        }
    };
    let bursts: u64 = bursts.expect("a number of bursts");
    let table = Arc::new(MacTable::new(TableOptions::default(), 2, []));
    (1..=stations).for_each(|n| table.learn_in(vlan, station(n), PortId(1)).expect("a station of its own"));
    let learning = Learning {
        port: PortId(0),
        table,
        members: [PortId(0), PortId(1)].into(),
        admission: Admission::default(),
        link_local: false,
        floods: None,
    };
    let access = VlanOptions { tag: Some(vlan), ..VlanOptions::default() };
    let vlans = [PortVlans::new(&access), PortVlans::default()].into();
    let program: Arc<dyn Program> = match vlan {
        0 => Arc::new(learning),
        _ => Arc::new(VlanLearning { learning, vlans }),
    };
    let batch = burst(stations);
    let mut output = Counting { frames: 0, edited: 0, dropped: 0, flows: None };
    for _ in 0..bursts {
        program.run(&batch, &Instant::now, &mut output);
    }
    assert_eq!((output.frames, output.dropped), (bursts * BURST as u64, 0));
    ExitCode::SUCCESS
}
