//! Ports that may send so much and no more.
use std::time::{Duration, Instant};

use frame::{DropReason, LARGEST_FRAME_BYTES};
use switch::{Options, Policing, PortOptions};
use virtio::net::NetHeader;

use crate::bench::*;

const PER_SECOND: u64 = 2000;
const FRAME_BYTES: u64 = 100;

/// One port sends as much as it can, another one a little, both for a third.
fn police(policing: Policing, burst: u64, wired: bool) {
    let (mut switch, hands) = with_ports(&[1; 4], Options::default(), |port| PortOptions {
        policing: if port == 0 { policing } else { Policing::default() },
        ..PortOptions::default()
    });
    if wired {
        switch.add_wire("a", "c").unwrap();
        switch.add_wire("b", "d").unwrap();
    }
    let bench = Bench::run(switch);
    let mut hands: Vec<_> = hands.into_iter().flatten().collect();
    for (at, n) in [(2, 3), (3, 4)] {
        send(&mut hands[at].0, &frame(BROADCAST, station(n), 0));
    }
    settled(&bench, 2);
    let (mut sent, mut of_bystander, mut arrived) = (0, 0, [0; 2]);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        sent += u64::from(hands[0].0.inject(NetHeader::default(), &frame(station(3), station(1), sent)));
        if sent % 50 == 0 {
            let frame = frame(station(4), station(2), of_bystander);
            of_bystander += u64::from(hands[1].0.inject(NetHeader::default(), &frame));
        }
        for ((_, collector), arrived) in hands[2..].iter_mut().zip(&mut arrived) {
            *arrived += std::iter::from_fn(|| collector.take()).count() as u64;
        }
    }
    settled(&bench, sent + of_bystander + 2);
    arrived[0] += std::iter::from_fn(|| hands[2].1.take()).count() as u64;
    let (took, snapshot) = (begin.elapsed(), bench.stop());
    let policed = drops(&snapshot, 0, true, DropReason::Policed);
    let passed = sent - policed;
    println!("{policing:?}, wired {wired}: {sent} sent, {passed} passed, {policed} policed in {took:?}");
    let most = (PER_SECOND as f64 * took.as_secs_f64()) as u64 + burst;
    assert!(policed > 0 && (burst..=most).contains(&passed), "{most} at most: {snapshot}");
    // What is counted as dropped has not arrived; both receivers have made themselves known to each other before.
    assert!((1..=passed + 1).contains(&arrived[0]), "{arrived:?} arrived, {passed} passed: {snapshot}");
    assert!(of_bystander > 0 && drops(&snapshot, 1, true, DropReason::Policed) == 0, "{snapshot}");
}

#[test]
fn a_port_sends_no_more_packets_than_it_may() {
    for wired in [false, true] {
        let policing = Policing { packets_per_second: Some(PER_SECOND), ..Policing::default() };
        police(policing, 100, wired);
    }
}

#[test]
fn a_port_sends_no_more_bytes_than_it_may() {
    for wired in [false, true] {
        let bits = 8 * FRAME_BYTES * PER_SECOND;
        let policing = Policing { bits_per_second: Some(bits), ..Policing::default() };
        // The largest frame has to pass, with as much again.
        police(policing, 2 * LARGEST_FRAME_BYTES as u64 / FRAME_BYTES, wired);
    }
}

/// The stricter one holds, and what it refuses costs nothing of the other.
#[test]
fn both_limits_hold_together() {
    let policing = Policing {
        packets_per_second: Some(PER_SECOND),
        bits_per_second: Some(1000 * 8 * FRAME_BYTES * PER_SECOND),
        ..Policing::default()
    };
    police(policing, 100, false);
}
