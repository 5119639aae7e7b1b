//! What a sender that makes every cache miss costs its neighbor: look-ups and time of a frame, before the attack and under
//! it. The page "How the caches work" shows the output.
//!
//! `cargo run --release -p tautline-flow-tables --example attack` runs it; `ROUNDS` as argument repeats more often.
mod random;

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Controller, Field, Flow, Group, Key, Learn, Meter};
use flow_tables::{
    Cache, CacheCounts, Change, Connection, HeaderWindow, Limits, LookUp, Outcome, PlainFrame, Surroundings,
    Tables, Track,
};
use random::Random;

const BURST: usize = 32;
const PLACES: usize = 4096;
/// Connections of the neighbor.
const CONNECTIONS: usize = 1000;

/// The rules of CVE-2019-25076's demonstration: three flows, for which Open vSwitch makes a mask for each pair of a prefix
/// length of the address and a prefix length of the port.
const THREE: [&str; 3] = [
    "priority=30,tcp,tp_dst=80 actions=output:2",
    "priority=20,tcp,nw_src=10.0.0.1 actions=output:2",
    "priority=1 actions=drop",
];

const OVN: &str = include_str!("../tests/data/ovn-23.03.txt");

/// The ports of a switch.
struct Ports {
    /// The state of all connections.
    state: u32,
}

/// The bits of `ct_state`: tracked, and new or established.
const NEW: u32 = 0x21;
const ESTABLISHED: u32 = 0x22;

impl Surroundings for Ports {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    }

    fn is_live(&self, _: u16) -> bool {
        true
    }

    fn track(&mut self, _: &Track, _: &mut HeaderWindow) -> Connection {
        Connection { state: self.state, ..Connection::default() }
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        false
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        false
    }
}

type Frame = [u8; 64];

/// A TCP segment with these addresses and ports.
fn tcp(ethernet: [[u8; 6]; 2], addresses: [u32; 2], ports: [u16; 2]) -> Frame {
    let mut frame = [0; 64];
    frame[..6].copy_from_slice(&ethernet[1]);
    frame[6..12].copy_from_slice(&ethernet[0]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 6]);
    frame[26..30].copy_from_slice(&addresses[0].to_be_bytes());
    frame[30..34].copy_from_slice(&addresses[1].to_be_bytes());
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame[46] = 0x50;
    frame
}

/// One input: its frames, and the cache of its port.
struct Input {
    frames: Vec<Frame>,
    next: usize,
    ports: Ports,
    cache: Cache,
    outcome: Outcome,
    window: HeaderWindow,
    /// The time of each burst.
    times: Vec<Duration>,
}

impl Input {
    fn new(port: u16, state: u32, frames: Vec<Frame>) -> Self {
        let mut metadata = Key::ZERO;
        metadata.set(Field::InPortOxm, port.into());
        let cache = Cache::new(PLACES, &metadata);
        let (outcome, window) = (Outcome::default(), HeaderWindow::new(&[], 0, 1));
        Self { frames, next: 0, ports: Ports { state }, cache, outcome, window, times: Vec::new() }
    }

    fn burst(&mut self, tables: &Tables) {
        let since = Instant::now();
        for _ in 0..BURST {
            let frame = &self.frames[self.next];
            self.next = (self.next + 1) % self.frames.len();
            let Self { cache, window, ports, outcome, .. } = self;
            let Some(plain) = PlainFrame::of(frame, frame.len(), 1, false) else {
                window.take(frame, frame.len(), 1);
                cache.execute(tables, window, ports, outcome);
                continue;
            };
            if let LookUp::Other(looked) = cache.look_up(tables, &plain) {
                window.take_plain(&plain, 1);
                cache.execute_plain(&plain, looked, tables, window, ports, outcome);
            }
        }
        self.times.push(since.elapsed());
    }

    /// The median time of a frame in ns.
    fn median_ns(&mut self) -> f64 {
        self.times.sort_unstable();
        let median = self.times[self.times.len() / 2].as_nanos() as f64 / BURST as f64;
        self.times.clear();
        median
    }

    /// What the cache has done since these counts.
    fn since(&self, before: CacheCounts) -> CacheCounts {
        let now = self.cache.counts();
        let mut since =
            CacheCounts { hits: now.hits - before.hits, misses: now.misses - before.misses, ..now };
        since.cost.tuples -= before.cost.tuples;
        since
    }
}

/// Tables with these flows, groups and meters.
fn tables<'a>(lines: impl Iterator<Item = &'a str>) -> Tables {
    let mut tables = Tables::new(1, 0x5eed_5eed, Limits::default());
    for line in lines {
        if line.starts_with("group_id=") {
            tables.set_group(Group::parse(line).expect("a group")).expect("room for a group");
        } else if line.starts_with("meter=") {
            tables.set_meter(Meter::parse(line).expect("a meter"), 0).expect("room for a meter");
        } else {
            tables.change(Change::Add(Flow::parse(line).expect("a flow")), 0).expect("a flow that fits");
        }
    }
    tables
}

fn tuples(tables: &Tables) -> usize {
    (0..=u8::MAX).map(|table| tables.tuples(table)).sum()
}

fn run(name: &str, tables: &Tables, mut neighbor: Input, mut attacker: Input, rounds: usize) {
    (0..4 * CONNECTIONS / BURST).for_each(|_| neighbor.burst(tables));
    neighbor.times.clear();
    println!("{name}: {} flows, {} tuples", tables.flows(), tuples(tables));
    for is_attacked in [false, true] {
        let (before, attack) = (neighbor.cache.counts(), attacker.cache.counts());
        for _ in 0..rounds {
            neighbor.burst(tables);
            if is_attacked {
                attacker.burst(tables);
            }
        }
        let counts = neighbor.since(before);
        let share = 100.0 * counts.hits as f64 / (counts.hits + counts.misses) as f64;
        let when = if is_attacked { "under the attack" } else { "before the attack" };
        println!("  {when}: the neighbor's frames take {:.0} ns; {share:.1} % hits", neighbor.median_ns());
        if counts.misses > 0 {
            let tuples = counts.cost.tuples as f64 / counts.misses as f64;
            println!("    a frame that goes through the tables: {tuples:.1} look-ups");
        }
        if is_attacked {
            let counts = attacker.since(attack);
            let tuples = counts.cost.tuples as f64 / counts.misses.max(1) as f64;
            let ns = attacker.median_ns();
            let share = 100.0 * counts.hits as f64 / (counts.hits + counts.misses) as f64;
            println!(
                "    the attacker's own take {ns:.0} ns; {share:.1} % hits; {tuples:.1} look-ups for each other frame"
            );
        }
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(20_000, |rounds| rounds.parse().expect("a number of rounds"));
    let station = |n: u8| [2, 0, 0, 0, 0, n];
    let to = [station(1), station(2)];
    let connections =
        (0..CONNECTIONS as u16).map(|n| tcp(to, [0x0a00_0001, 0x0a00_0002], [1024 + n, 80])).collect();
    // Each address differs from the rule's in one bit, and each port too: 32 times 16 masks.
    let pairs = (0..32).flat_map(|bit| (0..16).map(move |port| (0x0a00_0001 ^ 1 << bit, 80 ^ 1 << port)));
    let pairs = pairs.map(|(address, port)| tcp(to, [address, 0x0a00_0002], [1, port])).collect();
    let three = tables(THREE.into_iter());
    run(
        "three flows, 512 frames of as many masks",
        &three,
        Input::new(1, ESTABLISHED, connections),
        Input::new(3, NEW, pairs),
        rounds,
    );

    let mut random = Random(0x1234_5678_9abc_def1);
    let any = (0..100_000).map(|_| {
        let [a, b, c] = [(); 3].map(|()| random.next());
        tcp(to, [a as u32, b as u32], [c as u16, (c >> 16) as u16])
    });
    let connections =
        (0..CONNECTIONS as u16).map(|n| tcp(to, [0x0a00_0001, 0x0a00_0002], [1024 + n, 80])).collect();
    run(
        "three flows, 100,000 random frames",
        &three,
        Input::new(1, ESTABLISHED, connections),
        Input::new(3, NEW, any.collect()),
        rounds,
    );

    // Two machines of one network, as OVN names them.
    let machines = [[0xfa, 0x16, 0x3e, 1, 0, 0x11], [0xfa, 0x16, 0x3e, 1, 0, 0x15]];
    let addresses = [0x0a01_000b, 0x0a01_000f];
    let connections = (0..CONNECTIONS as u16).map(|n| tcp(machines, addresses, [1024 + n, 80])).collect();
    let any = (0..5_000).map(|_| {
        let [a, b] = [(); 2].map(|()| random.next());
        tcp(machines, [addresses[0], a as u32], [b as u16, (b >> 16) as u16])
    });
    let ovn = tables(OVN.lines());
    run(
        "OVN's flows, 5,000 random frames",
        &ovn,
        Input::new(4, ESTABLISHED, connections),
        Input::new(6, NEW, any.collect()),
        rounds,
    );
}
