//! The `virtio-user` port against DPDK's vhost library: every frame that goes out comes back, in order and
//! unaltered.
mod common_driver;

use std::time::Instant;

use common_driver::board::Board;
use common_driver::frames::{Checker, Sender};
use common_driver::soon;
use common_driver::testpmd::{Setup, Testpmd};
use port::virtio_user::{VirtioUser, VirtioUserOptions};
use port::{Port, Side};

/// Sends frames of all lengths through pair 0 and checks that they come back.
fn there_and_back(board: &mut Board, port: &mut VirtioUser, frames: u64, longest: usize) {
    let (mut sender, mut checker) = (Sender::new(0), Checker::default());
    let deadline = soon();
    let mut len = 60;
    while checker.next[0] < frames {
        // Never more under way than the queues on the way hold: then nothing may be lost.
        if sender.next < frames && sender.next - checker.next[0] < 64 {
            let lengths: Vec<usize> = (0..16)
                .map(|_| {
                    len = if len + 7 > longest { 60 } else { len + 7 };
                    len
                })
                .collect();
            sender.send(board.sinks.get_mut(&0).unwrap().as_mut(), &lengths);
        }
        for source in board.sources.values_mut() {
            checker.drain(source.as_mut());
        }
        board.turn_now(port);
        let counts = port.counters(0, Side::ToGuest).unwrap().counts();
        assert!(Instant::now() < deadline, "{} of {} back; {counts:?}", checker.next[0], sender.next);
    }
    let counts = port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.dropped()), (sender.next, 0), "{counts:?}");
    println!("{}: {} frames there and back", port.describe(), checker.next[0]);
}

fn loop_through_testpmd(prefix: &str, change: impl Fn(&mut VirtioUserOptions)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vhost.sock");
    let device = format!("iface={},queues=1", path.display());
    let setup = Setup { prefix, devices: &[device], queues: 1, forward: "io", more: &[] };
    let _testpmd = Testpmd::start(folder.path(), setup);
    let mut options = VirtioUserOptions::new(&path);
    change(&mut options);
    let mut port = VirtioUser::new(options).unwrap();
    let mut board = Board::new();
    port.start(&mut board).unwrap();
    board.until_plugged(&mut port, 1);
    there_and_back(&mut board, &mut port, 20_000, 1514);
    port.end(&mut board);
    assert!(board.sources.is_empty() && board.sinks.is_empty());
}

#[test]
fn packed_rings_with_everything() {
    loop_through_testpmd("vd-packed", |_| {});
}

#[test]
fn split_rings_with_everything() {
    loop_through_testpmd("vd-split", |options| options.packed = false);
}
