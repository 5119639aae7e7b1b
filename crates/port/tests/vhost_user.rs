//! The `vhost-user:` port against this project's own front-end session and driver halves.
mod common;

use common::frame;
use common::guest::{Guest, Host, feature_sets, is_readable};
use port::{Port, Side};
use virtio::{Feature, Features};

fn plain() -> Features {
    Features::NONE.with(Feature::VERSION_1)
}

/// Moves everything that is there from the first to the second.
fn forward_all(from: &mut Host, to: &mut Host) -> usize {
    let mut moved = 0;
    loop {
        match from.forward(0, to, 0) {
            0 => return moved,
            count => moved += count,
        }
    }
}

#[test]
fn frames_go_through_whatever_was_agreed_on() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for sender in feature_sets() {
        // The receiver differs in every feature from the sender.
        let receiver = Features::from_bits(feature_sets()[31].bits() & !sender.bits()) | plain();
        for receiver in [sender, receiver] {
            let mut alice = Guest::running(&mut left, sender);
            let mut bob = Guest::running(&mut right, receiver);
            for round in 0..20u32 {
                bob.post(0, 16, 2048);
                let sent: Vec<_> = (0..16).map(|i| frame(round * 16 + i, 60 + 90 * i as usize)).collect();
                sent.iter().for_each(|frame| alice.send(1, frame));
                assert_eq!(forward_all(&mut left, &mut right), 16);
                let received = bob.received(0);
                assert_eq!(received.len(), 16, "{sender} to {receiver}");
                for ((header, got), frame) in received.iter().zip(&sent) {
                    assert_eq!(got, frame);
                    assert_eq!(header[..10], [0; 10]);
                }
                assert_eq!(alice.used(1).len(), 16);
            }
            assert!(is_readable(&bob.queues[&0].call), "{receiver}: nobody called");
            drop((alice, bob));
            left.until("gone", |host| host.board.sources.is_empty());
            right.until("gone", |host| host.board.sinks.is_empty());
        }
    }
    let counts = left.port.counters(0, Side::FromGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.dropped()), (32 * 2 * 320, 0));
}
