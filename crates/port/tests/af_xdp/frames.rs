//! Single frames, both ways.
use std::time::{Duration, Instant};

use frame::{DropReason, Side};
use port::Port;
use rustix::net::{SendFlags, send};
use virtio::net::NetHeader;

use crate::exchange::{accept, frame, lend, packet_socket, readable, receive};
use crate::namespace::Namespace;
use crate::veth::{join, open};

#[test]
fn frames_of_all_sizes_go_both_ways_in_both_modes() {
    for (mode, said) in [("generic", "generic, copied by the kernel"), ("native", "native, copied")] {
        let (ports, kernel) = (Namespace::new(), Namespace::new());
        join(&ports, "p0", &kernel, 1);
        let (port, mut context) = open(&ports, &format!("p0,xdp-mode={mode}"));
        assert!(port.describe().contains(said), "{}", port.describe());
        let socket = packet_socket(&kernel, "e0");
        let sink = context.sinks.get_mut(&0).unwrap();
        let sizes = [14, 15, 59, 60, 63, 64, 65, 128, 1000, 1514];
        let plain = NetHeader::default();
        let sent: Vec<_> = (0..).zip(sizes).map(|(i, size)| (plain, frame(size, i))).collect();
        accept(sink.as_mut(), &sent);
        for (_, frame) in &sent {
            assert_eq!(receive(&socket), *frame, "{mode}");
        }
        let counts = port.counters(0, Side::ToGuest).unwrap().counts();
        assert_eq!((counts.frames, counts.bytes), (10, sizes.iter().sum::<usize>() as u64), "{mode}");
        assert_eq!(counts.drops, []);

        let source = context.sources.get_mut(&0).unwrap();
        for (_, frame) in &sent {
            assert_eq!(send(&socket, frame, SendFlags::empty()), Ok(frame.len()));
        }
        let mut came = Vec::new();
        while came.len() < sent.len() {
            came.extend(lend(source.as_mut()));
        }
        assert_eq!(came, sent.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), "{mode}");
        assert!(!source.needs_release());
    }
}

#[test]
fn chunks_go_round_for_as_long_as_frames_come() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    // Far fewer chunks than frames.
    let (port, mut context) = open(&ports, "p0,queue-size=64");
    let socket = packet_socket(&kernel, "e0");
    for round in 0..200 {
        let sent = frame(60 + round, round as u8);
        accept(context.sinks.get_mut(&0).unwrap().as_mut(), &[(NetHeader::default(), sent.clone())]);
        assert_eq!(receive(&socket), sent);
        assert_eq!(send(&socket, &sent, SendFlags::empty()), Ok(sent.len()));
        assert_eq!(lend(context.sources.get_mut(&0).unwrap().as_mut()), [sent]);
    }
    for side in [Side::ToGuest, Side::FromGuest] {
        assert_eq!(port.counters(0, side).unwrap().counts().drops, [], "{side:?}");
    }
}

#[test]
fn a_burst_longer_than_the_kernel_sends_at_once_arrives_whole_and_in_order() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let (port, mut context) = open(&ports, "p0");
    let socket = packet_socket(&kernel, "e0");
    let sent: Vec<_> = (0..150).map(|number| (NetHeader::default(), frame(60, number))).collect();
    accept(context.sinks.get_mut(&0).unwrap().as_mut(), &sent);
    for (_, frame) in sent {
        assert_eq!(receive(&socket), frame);
    }
    let counts = port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.drops), (150, vec![]));
}

/// A veth drops what is longer than its other end takes (since about Linux 6.6), and so does a card without a link.
#[test]
fn frames_that_the_interface_drops_hold_up_no_others() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let (_port, mut context) = open(&ports, "p0,queue-size=64");
    let socket = packet_socket(&kernel, "e0");
    let frames = |bytes: usize| -> Vec<_> {
        (0..30).map(|number| (NetHeader::default(), frame(bytes, number))).collect()
    };
    let sink = context.sinks.get_mut(&0).unwrap();
    // No thread polls for frames from the interface meanwhile, which would wake the kernel again.
    accept(sink.as_mut(), &frames(1700));
    accept(sink.as_mut(), &frames(60));
    for (_, frame) in frames(60) {
        let mut came = receive(&socket);
        // Before that a veth took them.
        while came.len() == 1700 {
            came = receive(&socket);
        }
        assert_eq!(came, frame);
    }
}

#[test]
fn what_has_no_room_is_counted_here_or_by_the_kernel() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let (port, mut context) = open(&ports, "p0,queue-size=64");
    let plain = NetHeader::default();
    // Chunks for an MTU of 1500 hold no such frame.
    accept(context.sinks.get_mut(&0).unwrap().as_mut(), &[(plain, frame(4000, 1)), (plain, frame(60, 2))]);
    let counts = port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.drops), (1, vec![(DropReason::NoBufferLargeEnough, 1)]));
    // No program reads the received frames.
    let socket = packet_socket(&kernel, "e0");
    for number in 0..100 {
        assert_eq!(send(&socket, &frame(60, number), SendFlags::empty()), Ok(60));
    }
    let dropped = || port.describe().contains("frames dropped by the kernel");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !dropped() {
        assert!(Instant::now() < deadline, "{}", port.describe());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The queue goes on afterwards.
    let source = context.sources.get_mut(&0).unwrap();
    let mut came = 0;
    while came < 50 {
        came += lend(source.as_mut()).len();
    }
    assert_eq!(send(&socket, &frame(77, 7), SendFlags::empty()), Ok(77));
    while !lend(source.as_mut()).contains(&frame(77, 7)) {}
}

#[test]
fn an_interface_that_is_down_keeps_nobody_awake() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let (_port, mut context) = open(&ports, "p0");
    ports.sh("ip link set p0 down");
    let plain = NetHeader::default();
    accept(context.sinks.get_mut(&0).unwrap().as_mut(), &[(plain, frame(60, 1))]);
    let source = context.sources.get_mut(&0).unwrap();
    while !source.rx_burst(64).unwrap().is_empty() {
        source.release();
    }
    assert!(!source.needs_release() && !source.sleep());
    assert!(!readable(source.wake_fd().unwrap(), Instant::now() + Duration::from_millis(50)));
}
