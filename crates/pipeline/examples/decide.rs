//! What it costs to decide where frames go: bursts of 32 frames of a port that learns, all to one station or each to
//! another, and of an access port to a trunk; bursts of 32 connections by flow tables; and an output that only counts.
//!
//! By flow tables: `hit` outputs by the cache, `edit` sets addresses and a port and pushes a tag by the cache, `normal`
//! forwards by address by the cache, `meter` asks a meter and outputs by the cache, `tracked` outputs frames of established
//! connections by the cache, `inline` writes the connection's mark and goes on without a table, as OVN does, and `miss`
//! visits two tables for each frame, each with another port that an action reads, and keeps its outcome, because the cache
//! forgets after each burst. With `begin` and `begin-nat` each frame begins a connection, the latter with another source
//! address, and an older one ends for it: bursts that fill the port's share come first, whatever BURSTS is. These two figures
//! include the making of the frame.
//!
//! `cargo run --release -p tautline-pipeline --example decide CASE BURSTS` runs them; with `gate` it counts instructions,
//! which repeat exactly, and says whether the limits are kept.
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Flow, Meter};
use flow_tables::{Change, HeaderWindow, Limits, Tables, Track};
use frame::{DropReason, FrameBatch, HeadEdit, OwnMemory};
use peers::callgrind::{Runs, gate};
use pipeline::{
    Admission, Connections, FlowProgram, Learning, MacTable, Output, PortId, PortNumbers, PortVlans, Program,
    TableOptions, TablesId, Upcalls, VlanLearning, VlanOptions, WorkerFlows,
};
use virtio::net::{HeaderLayout, MacAddress, NetHeader};

const BURST: usize = 32;
const ROOM: usize = 128;
/// The most connections that frames of one port begin.
const PORTS_SHARE: u64 = 1 << 16;

/// Instructions a frame that must not be exceeded: what was measured, and a tenth for other compilers.
const LIMITS: [(&str, f64); 12] = [
    ("one", 20.1),
    ("each", 181.0),
    ("access", 60.0),
    ("hit", 433.0),
    ("edit", 615.0),
    ("normal", 537.0),
    ("meter", 1140.0),
    ("tracked", 2897.0),
    ("inline", 2925.0),
    ("miss", 5090.0),
    ("begin", 3415.0),
    ("begin-nat", 6160.0),
];

const BYTES: usize = 64;

struct Counting {
    frames: u64,
    /// Of the last edit.
    edited: u64,
    dropped: u64,
    flows: Option<Box<WorkerFlows>>,
    /// The first bytes of all frames.
    window: [u8; BYTES],
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
        &self.window
    }

    fn attach(&mut self, _metadata: &frame::Metadata) {}

    fn edit(&mut self, frames: Range<u16>, _edit: &HeadEdit<'_>) {
        self.edited = frames.len() as u64;
    }

    fn send_edited(&mut self, _to: PortId) -> bool {
        self.frames += self.edited;
        true
    }

    fn flows(&mut self, _: TablesId) -> &mut Option<Box<WorkerFlows>> {
        &mut self.flows
    }

    fn drop(&mut self, _reason: DropReason, frames: u64) {
        self.dropped += frames;
    }
}

fn station(n: usize) -> MacAddress {
    MacAddress::from_u64(0x0200_0000_0000 + n as u64)
}

/// A frame to one of these stations.
fn frame(index: usize, stations: usize) -> [u8; BYTES] {
    let mut frame = [0; BYTES];
    frame[..6].copy_from_slice(&station(1 + index % stations).0);
    frame[6..12].copy_from_slice(&station(0).0);
    frame
}

/// UDP of one of 32 connections.
fn udp(index: usize) -> [u8; BYTES] {
    let mut frame = frame(index, 1);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..40].copy_from_slice(&[4, index as u8, 0, 53, 0, 30]);
    frame
}

/// Begins the connections of [`udp`], and answers each.
fn establish(connections: &Connections) {
    let track = |port: u16, frame: &[u8], commit: bool| {
        let track = Track { commit, zone: 5, ..Track::default() };
        let mut window = HeaderWindow::new(frame, frame.len(), 1);
        connections.track(Some(PortId(port)), &track, &mut window, Duration::ZERO);
    };
    for index in 0..BURST {
        let mut frame = udp(index);
        track(0, &frame, true);
        frame[26..38].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1, 0, 53, 4, index as u8]);
        track(1, &frame, false);
    }
}

/// UDP of a connection with this number, all of them to one station.
fn udp_of(connection: u64) -> [u8; BYTES] {
    let mut frame = udp(0);
    // Spread over addresses and ports of the sender.
    let spread = connection.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    frame[27..30].copy_from_slice(&spread[..3]);
    frame[34..36].copy_from_slice(&[spread[3] | 4, spread[4]]);
    frame
}

fn burst(frame: impl Fn(usize) -> [u8; BYTES]) -> (FrameBatch, OwnMemory) {
    let memory = OwnMemory::new(c"burst", (BURST * ROOM) as u64).expect("memory");
    let mut batch = FrameBatch::of_memory(BURST);
    fill(&mut batch, &memory, frame);
    (batch, memory)
}

/// Replaces the frames of a batch.
fn fill(batch: &mut FrameBatch, memory: &OwnMemory, frame: impl Fn(usize) -> [u8; BYTES]) {
    batch.clear();
    let mut builder = memory.sg_builder();
    for index in 0..BURST {
        let start = index * ROOM;
        let frame = frame(index);
        memory.slice(start + NetHeader::BYTES, frame.len()).write(&frame);
        let arena = batch.arena_mut().expect("a batch of memory");
        let first = arena.len();
        builder.push(arena, start as u64, (NetHeader::BYTES + frame.len()) as u32);
        batch.push(first, HeaderLayout::Full).expect("a sound frame");
    }
}

/// The flows of a case.
fn flows(case: &str) -> &'static [&'static str] {
    match case {
        "hit" => {
            &["udp,tp_src=1024/0xfc00,nw_dst=10.0.0.2 actions=resubmit(,1)", "table=1,ip actions=output:2"]
        }
        "edit" => &[
            "udp actions=dec_ttl,set_field:10.0.0.9->ip_dst,set_field:5353->udp_dst,push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
        ],
        "normal" => &["priority=1 actions=normal"],
        "tracked" => &[
            "udp,nw_dst=10.0.0.2 actions=set_field:5->reg1,ct(table=1,zone=NXM_NX_REG1[0..15])",
            "table=1,ip,ct_state=+trk+est-inv,reg1=5 actions=output:2",
            "table=1,priority=1 actions=drop",
        ],
        "meter" => &[
            "udp,tp_src=1024/0xfc00,nw_dst=10.0.0.2 actions=meter:1,goto_table:1",
            "table=1,ip actions=output:2",
        ],
        "inline" => &[
            "udp,nw_dst=10.0.0.2 actions=ct(commit,zone=5,nat(src),exec(set_field:1->ct_mark)),resubmit(,1)",
            "table=1,ip,nw_dst=10.0.0.2 actions=output:2",
        ],
        "begin" => &["udp,nw_dst=10.0.0.2 actions=ct(commit,zone=5),output:2"],
        "begin-nat" => &["udp,nw_dst=10.0.0.2 actions=ct(commit,zone=5,nat(src=10.1.0.1-10.1.0.9)),output:2"],
        "miss" => &[
            "udp,nw_dst=10.0.0.2 actions=goto_table:1",
            "table=1,udp,tp_src=7 actions=drop",
            "table=1,priority=1,udp actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:2",
        ],
        _ => &[],
    }
}

/// Tables of these flows, and a meter that lets all frames pass.
fn tables(flows: &[&str]) -> Arc<Tables> {
    let mut tables = Tables::new(1, 7, Limits::default());
    tables.set_meter(Meter { id: 1, ..Meter::default() }, 0).expect("a meter");
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).expect("a flow")), 0).expect("a flow that fits");
    }
    Arc::new(tables)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (case, bursts) = match words[..] {
        ["gate"] => {
            let runs = Runs { few: 64, many: 1088, frames: BURST };
            return gate(&LIMITS, runs, |case| match flows(case) {
                [] => format!("learning, to {case}"),
                _ => format!("by flow tables, {case}"),
            });
        }
        [case, bursts] if LIMITS.iter().any(|(name, _)| *name == case) => (case, bursts.parse()),
        _ => {
            eprintln!(
                "decide: gate, or one|each|access|hit|edit|normal|meter|tracked|inline|miss|begin|begin-nat and a number of bursts"
            );
            return ExitCode::from(2);
        }
    };
    let bursts: u64 = bursts.expect("a number of bursts");
    let stations = if case == "each" { BURST } else { 1 };
    let vlan = if case == "access" { 10 } else { 0 };
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
    let program: Arc<dyn Program> = match (flows(case), vlan) {
        ([], 0) => Arc::new(learning),
        ([], _) => Arc::new(VlanLearning { learning, vlans }),
        _ => {
            let numbers = Arc::new(PortNumbers::new([(1, PortId(0)), (2, PortId(1))]));
            let connections = Arc::new(Connections::new(2));
            establish(&connections);
            let upcalls = Arc::new(Upcalls::new(2));
            Arc::new(FlowProgram {
                learning,
                bonds: None,
                tables: TablesId(0),
                number: 1,
                numbers,
                connections,
                upcalls,
            })
        }
    };
    let (mut batch, memory) = match flows(case) {
        [] => burst(|index| frame(index, stations)),
        _ => burst(udp),
    };
    let flows = Some(Box::new(WorkerFlows::new(tables(flows(case)))));
    let mut output = Counting { frames: 0, edited: 0, dropped: 0, flows, window: udp(0) };
    let begins = case.starts_with("begin");
    // From then on a connection without an answer ends for each new one.
    let bursts = bursts + if begins { PORTS_SHARE / BURST as u64 } else { 0 };
    for number in 0..bursts {
        if begins {
            fill(&mut batch, &memory, |index| udp_of(number * BURST as u64 + index as u64));
        }
        program.run(&batch, &Instant::now, &mut output);
        if let ("miss", Some(flows)) = (case, &mut output.flows) {
            flows.forget();
        }
    }
    assert_eq!((output.frames, output.dropped), (bursts * BURST as u64, 0));
    ExitCode::SUCCESS
}
