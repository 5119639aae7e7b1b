//! Rings in their states: disabled, stopped, started again, and several pairs of them.
use frame::{DropReason, Side};
use port::Port;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::session::frontend::Answer;
use virtio::{Features, NetFeatures};

use crate::common::frame;
use crate::common::guest::{Guest, Host, feature_sets};
use crate::{forward_all, in_each, plain, two_guests};

/// vhost-user text, "Ring states": a started ring that is disabled is processed without side effects.
#[test]
fn a_disabled_ring_consumes_and_passes_nothing_on() {
    let (mut left, mut right, mut alice, mut bob) = two_guests(plain());
    bob.post(0, 8, 1600);
    alice.enable(&mut left, 1, false);
    alice.send(1, &frame(1, 60));
    assert_eq!(forward_all(&mut left, &mut right), 0);
    assert_eq!(alice.used(1).len(), 1);
    assert_eq!(left.drops(0, Side::FromGuest, DropReason::Disabled), 1);

    alice.enable(&mut left, 1, true);
    bob.enable(&mut right, 0, false);
    alice.send(1, &frame(2, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::Disabled), 1);
    assert!(bob.used(0).is_empty());

    bob.enable(&mut right, 0, true);
    alice.send(1, &frame(3, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert_eq!(bob.received(0)[0].1, frame(3, 60));
    assert!(right.port.describe().contains("2 queues run"), "{}", right.port.describe());
}

#[test]
fn a_ring_goes_on_where_it_was_stopped() {
    in_each(feature_sets(), |features, alice, bob, left, right| {
        bob.post(0, 40, 300);
        let mut received = Vec::new();
        for round in 0..40u32 {
            // More frames than were taken when the ring stops: the rest must come after it.
            for i in 0..3 {
                alice.send(1, &frame(3 * round + i, 60));
            }
            left.forward(0, right, 0);
            alice.send(1, &frame(1000 + round, 60));
            for (guest, host, index) in [(&mut *alice, &mut *left, 1), (&mut *bob, &mut *right, 0)] {
                let base = guest.stop_ring(host, index);
                let gone =
                    if index == 1 { host.context.sources.is_empty() } else { host.context.sinks.is_empty() };
                assert!(gone, "the ring still runs");
                guest.announce_ring(host, index, base.to_wire());
                guest.kick_off(host, index);
            }
            forward_all(left, right);
            alice.used(1);
            let got: Vec<_> = bob.received(0).into_iter().map(|(_, frame)| frame).collect();
            bob.post(0, got.len(), 300);
            received.extend(got);
        }
        let sent = (0..40u32).flat_map(|round| [3 * round, 3 * round + 1, 3 * round + 2, 1000 + round]);
        let sent: Vec<_> = sent.map(|number| frame(number, 60)).collect();
        assert!(received == sent, "{features}: {} of {} frames in order", received.len(), sent.len());
    });
}

#[test]
fn several_pairs_run_each_on_its_own() {
    let (mut left, mut right) =
        (Host::new(|options| options.net.queue_pairs = 2), Host::new(|options| options.net.queue_pairs = 2));
    let wanted = plain().union(NetFeatures::MQ).union(Features::RING_PACKED);
    let mut alice = Guest::connect(&mut left, wanted);
    let mut bob = Guest::connect(&mut right, wanted);
    assert!(alice.features.contains(NetFeatures::MQ));
    let Some(Answer::Number { value: 2, .. }) = alice.ask(&mut left, Request::GetQueueNum, vec![]) else {
        panic!()
    };
    alice.share_memory(&mut left);
    bob.share_memory(&mut right);
    for index in 0..4 {
        alice.start_ring(&mut left, index);
        bob.start_ring(&mut right, index);
    }
    bob.post(0, 4, 1600);
    bob.post(2, 4, 1600);
    for pair in 0..2u8 {
        alice.send(2 * pair + 1, &frame(pair.into(), 60));
        assert_eq!(left.forward(pair.into(), &mut right, (1 - pair).into()), 1);
    }
    for pair in 0..2u8 {
        assert_eq!(bob.received(2 * pair)[0].1, frame(u32::from(1 - pair), 60));
    }
    assert!(left.port.describe().contains("packed") && left.port.describe().contains("4 queues run"));
}

/// Frames are spread over the sinks there are: those of a disabled pair must not be among them.
#[test]
fn sinks_of_disabled_pairs_are_put_aside() {
    let mut host = Host::new(|options| options.net.queue_pairs = 3);
    let mut guest = Guest::connect(&mut host, plain().union(NetFeatures::MQ));
    guest.share_memory(&mut host);
    let attached = |host: &Host| host.context.sinks.keys().copied().collect::<Vec<_>>();
    for index in 0..6 {
        guest.prepare_ring(&mut host, index);
        guest.kick_off(&mut host, index);
    }
    assert_eq!(attached(&host), [0, 1, 2], "all disabled: they count what they drop");
    guest.enable(&mut host, 2, true);
    assert_eq!(attached(&host), [1]);
    guest.enable(&mut host, 0, true);
    assert_eq!(attached(&host), [0, 1]);
    // Put aside or not, a ring stops, starts and changes like any other.
    guest.share_memory(&mut host);
    guest.stop_ring(&mut host, 4);
    guest.start_ring(&mut host, 4);
    assert_eq!(attached(&host), [0, 1, 2]);
    guest.stop_ring(&mut host, 0);
    guest.enable(&mut host, 2, false);
    assert_eq!(attached(&host), [2]);
    guest.enable(&mut host, 4, false);
    assert_eq!(attached(&host), [1, 2]);
    assert_eq!(host.context.sources.len(), 3);
}
