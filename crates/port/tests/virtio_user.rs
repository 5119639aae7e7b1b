//! The `virtio-user` port against DPDK's vhost library: every frame that goes out comes back, in order and
//! unaltered.
mod common_driver;

use std::path::Path;
use std::time::Instant;

use common_driver::board::Board;
use common_driver::frames::{Checker, Sender};
use common_driver::soon;
use common_driver::testpmd::{Setup, Testpmd};
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use port::{Port, Side};

/// A port and the board that it is plugged into.
struct Plugged {
    port: VirtioUser,
    board: Board,
}

impl Plugged {
    fn start(options: VirtioUserOptions) -> Self {
        let mut plugged = Plugged { port: VirtioUser::new(options).unwrap(), board: Board::new() };
        plugged.port.start(&mut plugged.board).unwrap();
        plugged
    }

    fn until_connected(&mut self, pairs: usize) {
        self.board.until_plugged(&mut self.port, pairs);
    }

    fn end(mut self) {
        self.port.end(&mut self.board);
        assert!(self.board.sources.is_empty() && self.board.sinks.is_empty());
    }
}

/// Lengths that go up from 60, by little, and begin anew at the longest.
fn lengths(longest: usize) -> impl Iterator<Item = usize> {
    (60..=longest).step_by(if longest > 2000 { 97 } else { 7 }).cycle()
}

/// Sends so many frames through each pair of `from`, and checks that they come out of `to` (or of `from`
/// itself). Never more are under way than the queues hold, so none may be lost.
fn pass(from: &mut Plugged, mut to: Option<&mut Plugged>, frames: u64, longest: usize) {
    let pairs = from.board.sinks.len();
    let mut senders: Vec<_> = (0..pairs as u8).map(Sender::new).collect();
    let mut lengths = lengths(longest);
    let mut checker = Checker::default();
    let window = if longest > 2000 { 24 } else { 64 };
    let before: Vec<_> = (0..pairs).map(|pair| sent(from, pair)).collect();
    let deadline = soon();
    while checker.next[..pairs].iter().any(|next| *next < frames) {
        for (pair, sender) in senders.iter_mut().enumerate() {
            if sender.next < frames && sender.next - checker.next[pair] + 8 <= window {
                let burst: Vec<_> = lengths.by_ref().take(8).collect();
                sender.send(from.board.sinks.get_mut(&(pair as u16)).unwrap().as_mut(), &burst);
            }
        }
        for side in [Some(&mut *from), to.as_deref_mut()].into_iter().flatten() {
            for source in side.board.sources.values_mut() {
                checker.drain(source.as_mut());
            }
            side.board.turn_now(&mut side.port);
        }
        let states: Vec<_> = (0..pairs).map(|pair| sent(from, pair)).collect();
        assert!(Instant::now() < deadline, "{:?} of {frames} came; {states:?}", checker.next);
    }
    for (pair, sender) in senders.iter().enumerate() {
        let (frames, dropped) = sent(from, pair);
        assert_eq!((frames - before[pair].0, dropped), (sender.next, 0), "pair {pair}");
    }
}

/// Frames that the peer was given on this pair, and frames that it had no room for.
fn sent(plugged: &Plugged, pair: usize) -> (u64, u64) {
    let counts = plugged.port.counters(pair as u16, Side::ToGuest).unwrap().counts();
    (counts.frames, counts.dropped())
}

fn socket(folder: &Path, name: &str) -> (std::path::PathBuf, String) {
    let path = folder.join(name);
    let device = format!("iface={}", path.display());
    (path, device)
}

#[test]
fn every_kind_of_ring() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = socket(folder.path(), "vhost.sock");
    let setup = Setup { prefix: "vd-kinds", devices: &[device], queues: 1, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    for bits in 0..32 {
        let on = |bit: u32| bits & (1 << bit) != 0;
        let mut plugged = Plugged::start(VirtioUserOptions {
            packed: on(0),
            in_order: on(1),
            mergeable: on(2),
            event_idx: on(3),
            offloads: on(4),
            ..VirtioUserOptions::new(&path)
        });
        plugged.until_connected(1);
        let said = plugged.port.describe();
        for (bit, name) in [(0, "RING_PACKED"), (1, "IN_ORDER"), (2, "MRG_RXBUF"), (3, "EVENT_IDX")] {
            assert_eq!(said.contains(name), on(bit), "{said}");
        }
        println!("{said}");
        pass(&mut plugged, None, 2000, 1514);
        plugged.end();
    }
}

/// Longer than a buffer, both ways.
#[test]
fn jumbo_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = socket(folder.path(), "vhost.sock");
    let setup = Setup { prefix: "vd-jumbo", devices: &[device], queues: 1, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    for (packed, mergeable, offloads) in [
        (true, true, true),
        (true, true, false),
        (true, false, true),
        (false, true, true),
        (false, false, false),
    ] {
        let mut plugged = Plugged::start(VirtioUserOptions {
            packed,
            mergeable,
            offloads,
            mtu_bytes: Some(9000),
            ..VirtioUserOptions::new(&path)
        });
        plugged.until_connected(1);
        pass(&mut plugged, None, 2000, 9014);
        plugged.end();
    }
}

#[test]
fn two_queue_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = socket(folder.path(), "vhost.sock");
    let device = format!("{device},queues=2");
    let setup = Setup { prefix: "vd-pairs", devices: &[device], queues: 2, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    for packed in [true, false] {
        let options = VirtioUserOptions { queue_pairs: 2, packed, ..VirtioUserOptions::new(&path) };
        let mut plugged = Plugged::start(options);
        plugged.until_connected(2);
        pass(&mut plugged, None, 5000, 1514);
        plugged.end();
    }
}

/// From one port through testpmd to another, and back.
#[test]
fn from_port_to_port() {
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = (socket(folder.path(), "left.sock"), socket(folder.path(), "right.sock"));
    let devices = [left.1, right.1];
    let setup = Setup { prefix: "vd-ports", devices: &devices, queues: 1, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    let mut left = Plugged::start(VirtioUserOptions::new(&left.0));
    let split = VirtioUserOptions { packed: false, ..VirtioUserOptions::new(&right.0) };
    let mut right = Plugged::start(split);
    left.until_connected(1);
    right.until_connected(1);
    pass(&mut left, Some(&mut right), 10_000, 1514);
    pass(&mut right, Some(&mut left), 10_000, 1514);
    left.end();
    right.end();
}

/// As OVS wants it: the back-end connects.
#[test]
fn the_back_end_may_be_the_one_that_connects() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = socket(folder.path(), "vhost.sock");
    let device = format!("{device},client=1");
    let setup = Setup { prefix: "vd-server", devices: &[device], queues: 1, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    let options = VirtioUserOptions { server: true, ..VirtioUserOptions::new(&path) };
    let mut plugged = Plugged::start(options);
    plugged.until_connected(1);
    pass(&mut plugged, None, 5000, 1514);
    plugged.end();
    assert!(!path.exists(), "the socket's path goes with the port");
}

#[test]
fn a_back_end_that_is_killed_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = socket(folder.path(), "vhost.sock");
    let mut plugged = Plugged::start(VirtioUserOptions::new(&path));
    let start = |prefix| {
        let devices = std::slice::from_ref(&device);
        Testpmd::start(folder.path(), Setup { prefix, devices, queues: 1, forward: "io", more: &[] })
    };
    for prefix in ["vd-again-1", "vd-again-2", "vd-again-3"] {
        let testpmd = start(prefix);
        plugged.until_connected(1);
        pass(&mut plugged, None, 2000, 1514);
        drop(testpmd);
        plugged.until_connected(0);
        // Killed, it leaves its socket behind, and the next one would not start.
        std::fs::remove_file(&path).unwrap();
    }
    let closed = plugged.board.said.iter().filter(|line| line.contains("closed the connection")).count();
    assert_eq!(closed, 3, "one line for each: {:?}", plugged.board.said);
    assert!(plugged.board.said.len() <= 12, "{:?}", plugged.board.said);
    plugged.end();
}
