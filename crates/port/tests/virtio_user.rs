//! The `virtio-user` port against DPDK's vhost library: every frame that goes out comes back, in order and
//! unaltered.
mod common_driver;

use std::path::PathBuf;

use common_driver::attached::Attached;
use common_driver::passing::pass;
use peers::Testpmd;
use peers::testpmd::{Forward, Settings, Vdev};
use port::Port;
use port::virtio_user::VirtioUserOptions;

/// Sends what comes from a device to its pair, or back if it has none.
fn testpmd(devices: impl IntoIterator<Item = Vdev>, pairs: u16) -> Testpmd {
    let settings = Settings::default().queue_pairs(pairs);
    let settings = devices.into_iter().fold(settings, |settings, device| {
        settings.port(if pairs > 1 { device.queue_pairs(pairs) } else { device })
    });
    let mut testpmd = settings.start().unwrap();
    testpmd.set_forward(Forward::Io).unwrap();
    testpmd.start_forwarding().unwrap();
    testpmd
}

fn at(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

#[test]
fn every_kind_of_ring() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "vhost.sock");
    let _testpmd = testpmd([Vdev::vhost(&path)], 1);
    for bits in 0..32 {
        let on = |bit: u32| bits & (1 << bit) != 0;
        let mut attached = Attached::start(VirtioUserOptions {
            packed: on(0),
            in_order: on(1),
            mergeable: on(2),
            event_idx: on(3),
            offloads: on(4),
            ..VirtioUserOptions::new(&path)
        });
        attached.until_connected(1);
        let description = attached.port.describe();
        for (bit, name) in [(0, "RING_PACKED"), (1, "IN_ORDER"), (2, "MRG_RXBUF"), (3, "EVENT_IDX")] {
            assert_eq!(description.contains(name), on(bit), "{description}");
        }
        println!("{description}");
        pass(&mut attached, None, 1000, 1514);
        attached.end();
    }
}

/// Longer than a buffer, both ways.
#[test]
fn jumbo_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "vhost.sock");
    let _testpmd = testpmd([Vdev::vhost(&path)], 1);
    for (packed, mergeable, offloads) in [
        (true, true, true),
        (true, true, false),
        (true, false, true),
        (false, true, true),
        (false, false, false),
    ] {
        let mut attached = Attached::start(VirtioUserOptions {
            packed,
            mergeable,
            offloads,
            mtu_bytes: Some(9000),
            ..VirtioUserOptions::new(&path)
        });
        attached.until_connected(1);
        pass(&mut attached, None, 2000, 9014);
        attached.end();
    }
}

#[test]
fn two_queue_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "vhost.sock");
    let _testpmd = testpmd([Vdev::vhost(&path)], 2);
    for packed in [true, false] {
        let options = VirtioUserOptions { queue_pairs: 2, packed, ..VirtioUserOptions::new(&path) };
        let mut attached = Attached::start(options);
        attached.until_connected(2);
        pass(&mut attached, None, 5000, 1514);
        attached.end();
    }
}

/// From one port through testpmd to another, and back.
#[test]
fn from_port_to_port() {
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = (at(&folder, "left.sock"), at(&folder, "right.sock"));
    let _testpmd = testpmd([Vdev::vhost(&left), Vdev::vhost(&right)], 1);
    let mut left = Attached::start(VirtioUserOptions::new(&left));
    let split = VirtioUserOptions { packed: false, ..VirtioUserOptions::new(&right) };
    let mut right = Attached::start(split);
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
    let path = at(&folder, "vhost.sock");
    let _testpmd = testpmd([Vdev::vhost(&path).other_role()], 1);
    let options = VirtioUserOptions { server: true, ..VirtioUserOptions::new(&path) };
    let mut attached = Attached::start(options);
    attached.until_connected(1);
    pass(&mut attached, None, 5000, 1514);
    attached.end();
    assert!(!path.exists(), "the socket's path goes with the port");
}

#[test]
fn a_back_end_that_is_killed_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = at(&folder, "vhost.sock");
    let mut attached = Attached::start(VirtioUserOptions::new(&path));
    for _ in 0..3 {
        let testpmd = testpmd([Vdev::vhost(&path)], 1);
        attached.until_connected(1);
        pass(&mut attached, None, 2000, 1514);
        testpmd.kill();
        attached.until_connected(0);
        // Killed, it leaves its socket behind, and the next one would not start.
        std::fs::remove_file(&path).unwrap();
    }
    let closed = attached.context.logged.iter().filter(|line| line.contains("closed the connection")).count();
    assert_eq!(closed, 3, "one line for each: {:?}", attached.context.logged);
    assert!(attached.context.logged.len() <= 12, "{:?}", attached.context.logged);
    attached.end();
}
