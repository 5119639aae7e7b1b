//! No frame makes the tables allocate, once the lists have the size that earlier frames needed.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use common::Random;
use flow::{Controller, Flow, Group, Key, Learn};
use flow_tables::{
    Cache, Change, Connection, HeaderWindow, Limits, LookUp, Original, Outcome, PlainFrame, Surroundings,
    Tables, Track,
};

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

fn count() {
    // A thread that ends has no counter any more.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + 1));
}

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of this thread that `act` makes.
fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATED.get();
    act();
    ALLOCATED.get() - before
}

/// Ports without a controller: a frame for a controller is given to it in memory of its own.
struct Alone;

impl Surroundings for Alone {
    fn now_ms(&mut self) -> u64 {
        0
    }

    fn ports(&self) -> &[u16] {
        &[1, 2, 3, 4]
    }

    fn is_live(&self, port: u16) -> bool {
        self.ports().contains(&port)
    }

    /// The state and the mark depend on the frame and on the request.
    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection {
        let number = u32::from(window.bytes().last().copied().unwrap_or(0)) + u32::from(track.zone);
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let original = Original { source: address, destination: address, protocol: 6, ports: [0; 2] };
        let original = Some(original).filter(|_| number % 3 == 0);
        Connection { state: 0x20 | 1 << (number % 3), mark: number % 2, label: 7, original }
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        false
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        false
    }
}

/// Groups that select among several buckets, conjunctions, bundles, action sets, copies in copies, and the stack.
const FLOWS: [&str; 10] = [
    "table=0,priority=9,tcp actions=push:NXM_NX_REG0[],clone(set_field:7->reg1,clone(dec_ttl,push_vlan:0x8100,set_field:4101->vlan_vid,output:3),resubmit(,1)),pop:NXM_NX_REG1[],group:10",
    "table=0,priority=8,udp actions=write_actions(dec_ttl,set_field:02:00:00:00:00:09->eth_src,output:2),goto_table:2",
    "table=0,priority=7,ip actions=meter:1,bundle(symmetric_l3,7,hrw,ofport,slaves:1,2,3),group:11,normal",
    "table=0,priority=1 actions=normal,output:4",
    "table=1,priority=9,conj_id=5,ip actions=output:2",
    "table=1,priority=9,ip,nw_src=10.0.0.0/25 actions=conjunction(5,1/2)",
    "table=1,priority=9,tcp,tp_dst=80 actions=conjunction(5,2/2)",
    "table=1,priority=2 actions=set_field:02:00:00:00:00:08->eth_dst,flood",
    "table=2,priority=2,udp,tp_dst=80 actions=set_field:8080->udp_dst,set_field:10.9.9.9->ip_dst",
    "table=2,priority=1 actions=output:1",
];

/// Zones, copies that go on in tables, with the stack and the action set or without, and frames that are translated.
const TRACKED: [&str; 9] = [
    "table=0,priority=9,ip actions=set_field:7->reg0,ct(table=1,zone=NXM_NX_REG0[0..15],nat)",
    "table=0,priority=9,ipv6 actions=push:NXM_NX_REG0[],clone(ct(table=1,zone=3),output:2),ct(table=2),output:1",
    "table=0,priority=1 actions=output:4",
    "table=1,priority=9,ip,ct_state=+trk+new actions=ct(commit,zone=7,nat(src=10.9.9.9),exec(move:NXM_OF_ETH_SRC[]->NXM_NX_CT_LABEL[0..47])),resubmit(,2)",
    "table=1,priority=8,ipv6,ct_mark=1 actions=dec_ttl,push_vlan:0x8100,set_field:4101->vlan_vid,resubmit(,2)",
    "table=1,priority=7 actions=write_actions(output:3),goto_table:2",
    "table=2,priority=9,ip,ct_state=+trk+est actions=ct(table=3,zone=9),ct(commit,table=3,zone=8),normal",
    "table=2,priority=1 actions=output:2",
    "table=3,priority=1 actions=output:2,output:3",
];

const GROUPS: [&str; 2] = [
    "group_id=10,type=select,selection_method=dp_hash,bucket=output:1,bucket=output:2,set_field:02:00:00:00:00:07->eth_dst",
    "group_id=11,type=fast_failover,bucket=watch_port:9,output:1,bucket=watch_port:2,output:2",
];

fn tables(flows: &[&str]) -> Tables {
    let mut tables = Tables::new(1, 7, Limits::default());
    let groups = GROUPS.iter().chain(&flows::GROUPS);
    groups.for_each(|group| tables.set_group(Group::parse(group).unwrap()).unwrap());
    for text in flows {
        tables.change(Change::Add(Flow::parse(text).unwrap()), 0).unwrap();
    }
    tables
}

/// Allocations for these frames, after all of them have passed some times.
fn in_steady_state(tables: &Tables, cache: &mut Cache, frames: &[Vec<u8>]) -> u64 {
    let mut outcome = Outcome::default();
    let mut window = HeaderWindow::new(&[], 0, 1);
    let mut all = || {
        for frame in frames {
            let mut head = [0; 64];
            let known = frame.len().min(head.len());
            head[..known].copy_from_slice(&frame[..known]);
            let Some(plain) = PlainFrame::of(&head, frame.len(), 1, false) else {
                window.take(frame, frame.len(), 1);
                cache.execute(tables, &mut window, &mut Alone, &mut outcome);
                continue;
            };
            if let LookUp::Other(looked) = cache.look_up(tables, &plain) {
                window.take_plain(&plain, 1);
                cache.execute_plain(&plain, looked, tables, &mut window, &mut Alone, &mut outcome);
            }
        }
    };
    (0..12).for_each(|_| all());
    allocations(all)
}

#[test]
fn neither_hits_nor_misses_allocate() {
    let mut random = Random(3);
    let frames: Vec<_> = (0..300).map(|_| frames::frame(&mut random)).collect();
    let mut sets = vec![tables(&FLOWS), tables(&TRACKED)];
    for _ in 0..10 {
        let flows = flows::flows(&mut random);
        sets.push(tables(&flows.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    for tables in &sets {
        // One place in which most frames miss, and places for all.
        for places in [4, 1 << 14] {
            let mut cache = Cache::new(places, &Key::ZERO);
            assert_eq!(in_steady_state(tables, &mut cache, &frames), 0, "{places} places");
            let counts = cache.counts();
            assert!(counts.misses > 0 && (places == 4 || counts.hits > 0), "{counts:?}");
        }
    }
}

/// The counter counts: a first frame makes lists grow.
#[test]
fn a_first_frame_allocates() {
    let tables = tables(&FLOWS);
    let (mut cache, mut outcome) = (Cache::new(4, &Key::ZERO), Outcome::default());
    let mut window = HeaderWindow::new(&[2; 60], 60, 1);
    assert!(allocations(|| cache.execute(&tables, &mut window, &mut Alone, &mut outcome)) > 0);
}
