//! Frames from one guest to another: all that fit arrive as they were sent, the others are counted.
use frame::{CutShort, DropReason, Side};
use port::Port;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use virtio::{Features, NetFeatures};
use virtqueue::{Buffer, Direction};

use crate::common::frame;
use crate::common::guest::{Guest, Host, feature_sets, is_readable};
use crate::{forward_all, in_each, plain, two_guests};

#[test]
fn frames_go_through_whatever_was_agreed_on() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for sender in feature_sets() {
        // The receiver differs in every feature from the sender.
        let receiver = Features::from_bits_retain(feature_sets()[31].bits() & !sender.bits()) | plain();
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
            left.until("gone", |host| host.context.sources.is_empty());
            right.until("gone", |host| host.context.sinks.is_empty());
        }
    }
    let counts = left.port.counters(0, Side::FromGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.dropped()), (32 * 2 * 320, 0));
}

#[test]
fn a_changed_head_is_delivered_and_the_senders_memory_stays_as_it_is() {
    let (mut left, mut right, mut alice, mut bob) = two_guests(plain());
    bob.post(0, 1, 2048);
    let mut sent = frame(1, 200);
    alice.send(1, &sent);
    let source = left.context.sources.get_mut(&0).unwrap();
    assert_eq!(source.rx_burst(32).unwrap().len(), 1);
    let batch = source.batch_mut().unwrap();
    batch.snapshot_mut(0)[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    right.context.sinks.get_mut(&0).unwrap().accept(batch, &[0]).unwrap();
    source.release();
    let used = alice.used(1);
    let at = Guest::buffer_at(1, used[0].cookie);
    assert_eq!(alice.read(at, 12 + sent.len())[12..], sent);
    sent[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!(bob.received(0)[0].1, sent);
}

#[test]
fn frames_are_spread_over_merged_buffers_and_no_buffer_is_lost() {
    in_each(
        feature_sets().into_iter().filter(|features| features.contains(NetFeatures::MRG_RXBUF)),
        |features, alice, bob, left, right| {
            let mut posted = 0;
            for round in 0..30u32 {
                let fresh = 60 - posted;
                bob.post(0, fresh, 100);
                let lengths = [60, 88, 89, 1000, 14, 1500];
                let sent: Vec<_> = lengths.iter().map(|len| frame(round, *len)).collect();
                sent.iter().for_each(|frame| alice.send(1, frame));
                assert_eq!(forward_all(left, right), sent.len());
                let used = bob.used(0);
                // 72, 100, 101, 1012, 26 and 1512 bytes in buffers of 100.
                assert_eq!(used.len(), 1 + 1 + 2 + 11 + 1 + 16, "{features}");
                posted = 60 - used.len();
                let received = bob.put_together(0, used);
                assert_eq!(received.iter().map(|(_, frame)| frame.clone()).collect::<Vec<_>>(), sent);
                let buffers = |(header, _): &(Vec<u8>, Vec<u8>)| u16::from_le_bytes([header[10], header[11]]);
                assert_eq!(received.iter().map(buffers).collect::<Vec<_>>(), [1, 1, 2, 11, 1, 16]);
                alice.used(1);
            }
        },
    );
}

#[test]
fn a_receiver_without_room_costs_counted_drops_and_no_buffer() {
    in_each(feature_sets(), |features, alice, bob, left, right| {
        let count = |host: &Host, reason| host.drops(0, Side::ToGuest, reason);
        let before = (count(right, DropReason::ReceiverFull), count(right, DropReason::NoBufferLargeEnough));
        // Two buffers of 100: the long frame does not fit, those around it do.
        bob.post(0, 2, 100);
        let short = [frame(1, 60), frame(2, 80)];
        for frame in [&short[0], &frame(3, 600), &short[1], &frame(4, 60), &frame(5, 60)] {
            alice.send(1, frame);
        }
        assert_eq!(forward_all(left, right), 5);
        let received: Vec<_> = bob.received(0).into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(received, short, "{features}");
        let after = (count(right, DropReason::ReceiverFull), count(right, DropReason::NoBufferLargeEnough));
        let too_large = u64::from(!bob.mergeable());
        assert_eq!((after.0 - before.0, after.1 - before.1), (3 - too_large, too_large), "{features}");
        assert_eq!(alice.used(1).len(), 5);
    });
}

#[test]
fn room_is_told_and_nothing_is_used_up_by_asking() {
    in_each(feature_sets(), |features, alice, bob, left, right| {
        let room = |right: &mut Host| right.context.sinks.get_mut(&0).unwrap().room();
        assert_eq!(room(right), 0);
        bob.post(0, 3, 1600);
        assert_eq!((room(right), room(right)), (3, 3), "{features}");
        bob.post(0, 16, 200);
        let merged = if bob.mergeable() { 5 } else { 19 };
        assert_eq!(room(right), merged, "{features}");
        (0..4).for_each(|number| alice.send(1, &frame(number, 100)));
        assert_eq!(left.forward(0, right, 0), 4);
        assert_eq!(bob.received(0).len(), 4);
        bob.enable(right, 0, false);
        assert_eq!(room(right), usize::MAX);
    });
}

/// A frame that asks for segments of one byte: a full receiver costs one look, not hundreds.
#[test]
fn a_frame_of_very_many_segments_is_dropped_at_once() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let sender = [NetFeatures::CSUM, NetFeatures::HOST_TSO4].into_iter().fold(plain(), Features::union);
    let mut alice = Guest::running(&mut left, sender);
    let mut bob = Guest::running(&mut right, plain());
    bob.post(0, 5, 1600);
    let mut tcp = frame(1, 14);
    (tcp[12], tcp[13]) = (0x08, 0x00);
    tcp.extend([0x45, 0, 0x40, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    tcp.extend([0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    tcp.resize(54 + 1000, 7);
    let tcp_bytes = (tcp.len() - 14) as u16;
    tcp[16..18].copy_from_slice(&tcp_bytes.to_be_bytes());
    let header = [1, 1, 54, 0, 1, 0, 34, 0, 16, 0, 0, 0];
    alice.send_with(1, &header, &tcp);
    assert_eq!(left.forward(0, &mut right, 0), 1);
    assert_eq!(bob.received(0).len(), 5);
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::CutShort), 1000 - 5);
    let counts = right.port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!(counts.cut_short, Some(CutShort { buffers: 5, pieces: 1000 }));
    // Without any buffer it is a receiver like others that are full.
    alice.send_with(1, &header, &tcp);
    assert_eq!(left.forward(0, &mut right, 0), 1);
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::ReceiverFull), 1000);
    assert_eq!(left.drops(0, Side::FromGuest, DropReason::MalformedHeader), 0);
}

#[test]
fn legacy_drivers_have_a_header_of_ten_bytes() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let mut alice = Guest::running(&mut left, Features::empty());
    let mut bob = Guest::running(&mut right, Features::empty());
    bob.post(0, 1, 1600);
    let sent = frame(7, 100);
    let at = Guest::buffer_at(1, 0);
    alice.write(at, &[0; 10]);
    alice.write(at + 10, &sent);
    alice.add(1, &[Buffer { address: at, len: 110, cookie: 0 }], Direction::ToDevice);
    assert_eq!(forward_all(&mut left, &mut right), 1);
    let used = bob.used(0);
    assert_eq!(used[0].written, 110);
    assert_eq!(bob.read(Guest::buffer_at(0, used[0].cookie), 110)[10..], sent);
}

#[test]
fn frames_beyond_the_mtu_stay_out() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|options| options.net.mtu = Some(1400)));
    let mut alice = Guest::running(&mut left, plain());
    let mut bob = Guest::running(&mut right, plain());
    bob.post(0, 10, 2000);
    let pass = |left: &mut Host, right: &mut Host, alice: &mut Guest, bob: &mut Guest, len| {
        alice.send(1, &frame(1, len));
        forward_all(left, right);
        bob.received(0).len()
    };
    // 1400 bytes, 14 of header, 4 of VLAN tag.
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1418), 1);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1419), 0);
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::TooLong), 1);
    bob.ask(&mut right, Request::NetSetMtu(1000), vec![]);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1018), 1);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1019), 0);
    assert!(right.port.describe().contains("MTU 1000"), "{}", right.port.describe());
    // A buffer that was taken for a frame that stays out is there for the next.
    assert_eq!(bob.used(0), []);
    for len in [100, 1500, 200] {
        alice.send(1, &frame(1, len));
    }
    assert_eq!(left.forward(0, &mut right, 0), 3);
    let lengths: Vec<_> = bob.received(0).iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!(lengths, [100, 200]);
}
