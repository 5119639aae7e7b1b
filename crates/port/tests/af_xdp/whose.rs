//! What is taken of an interface is given back, and clear words where it cannot be taken.
use std::time::Duration;

use frame::Side;
use port::Port;
use rustix::net::{SendFlags, send};
use virtio::net::NetHeader;

use crate::exchange::{accept, frame, lend, packet_socket, receive};
use crate::namespace::Namespace;
use crate::veth::{join, open, try_open};

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn an_interface_is_given_back_as_it_was_and_can_be_taken_again_at_once() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let before = ports.sh("ip -details link show p0");
    for _ in 0..5 {
        let (mut port, mut context) = open(&ports, "p0");
        let taken = ports.sh("ip -details link show p0");
        assert!(taken.contains("xdp") && taken.contains("promiscuity 1"), "{taken}");
        port.end(&mut context);
        assert!(context.sources.is_empty() && context.sinks.is_empty() && context.watched() == 0);
        assert_eq!(ports.sh("ip -details link show p0"), before);
        assert!(port.describe().contains("not open"));
    }
}

#[test]
fn what_cannot_be_taken_says_why_and_what_to_do() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let other = Namespace::new();
    join(&ports, "p1", &other, 1);
    let _taken = open(&ports, "p1");
    for (text, said) in [
        ("none", "ip link"),
        ("p0,start-queue=3", "ethtool -l p0"),
        ("p0,xdp-mode=native-with-zerocopy", "best-effort"),
        ("p1", "another program has this queue"),
    ] {
        let Err(error) = try_open(&ports, text) else { panic!("af-xdp:{text} was opened") };
        assert!(error.to_string().contains(said), "af-xdp:{text}: {error}");
    }
    // Nothing is left of what failed.
    let link = ports.sh("ip -details link show p0");
    assert!(!link.contains("xdp") && link.contains("promiscuity 0"), "{link}");
}

#[test]
fn queues_that_are_not_taken_are_named() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 2);
    ports.sh("ip link set p0 mtu 9000");
    let (_port, context) = open(&ports, "p0,xdp-mode=generic");
    let [warning] = &context.logged[..] else { panic!("{:?}", context.logged) };
    assert!(warning.contains("queue-pairs=2") && warning.contains("mtu 3818"), "{warning}");
}

#[test]
fn an_interface_that_is_made_again_is_used_again() {
    let (ports, kernel) = (Namespace::new(), Namespace::new());
    join(&ports, "p0", &kernel, 1);
    let (mut port, mut context) = open(&ports, "p0");
    ports.sh("ip link delete p0");
    (port, context) = ports.run(move || {
        while !port.describe().contains("removed") {
            assert!(context.turn(&mut port, LIMIT));
        }
        (port, context)
    });
    assert!(context.sources.is_empty() && context.sinks.is_empty());
    join(&ports, "p0", &kernel, 1);
    (port, context) = ports.run(move || {
        while port.describe().contains("removed") {
            assert!(context.turn(&mut port, LIMIT));
        }
        (port, context)
    });
    assert_eq!(context.logged.len(), 2, "{:?}", context.logged);
    let socket = packet_socket(&kernel, "e0");
    accept(context.sinks.get_mut(&0).unwrap().as_mut(), &[(NetHeader::default(), frame(60, 1))]);
    assert_eq!(receive(&socket), frame(60, 1));
    assert_eq!(send(&socket, &frame(70, 2), SendFlags::empty()), Ok(70));
    assert_eq!(lend(context.sources.get_mut(&0).unwrap().as_mut()), [frame(70, 2)]);
    assert_eq!(port.counters(0, Side::FromGuest).unwrap().counts().dropped(), 0);
}
