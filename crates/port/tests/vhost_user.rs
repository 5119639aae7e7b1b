//! The `vhost-user:` port against this project's own front-end session and driver halves.
mod common;

use std::os::unix::fs::FileExt;

use common::guest::{DATA, DATA_BYTES, Guest, Host, RINGS, RINGS_BYTES, feature_sets, is_readable, region};
use common::{SOON, frame};
use memory::DirtyLog;
use port::vhost_user::{Role, VhostUser, VhostUserOptions};
use port::{DropReason, Port, Side};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::codec::backend_request::BackendRequest;
use vhost_user::codec::frontend_request::{FrontendRequest as Request, MacAddress};
use vhost_user::codec::payload::{ConfigAccess, Inflight, LogArea, SingleRegion, VringAddress, VringFd};
use vhost_user::session::frontend::{Answer, ChannelRequest};
use vhost_user::socket::{Connection, Listener};
use virtio::{Feature, Features};
use virtqueue::{Buffer, Direction, Piece};

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

#[test]
fn a_changed_head_is_delivered_and_the_senders_memory_stays_as_it_is() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let mut alice = Guest::running(&mut left, plain());
    let mut bob = Guest::running(&mut right, plain());
    bob.post(0, 1, 2048);
    let mut sent = frame(1, 200);
    alice.send(1, &sent);
    let source = left.board.sources.get_mut(&0).unwrap();
    assert_eq!(source.lend(32).unwrap().len(), 1);
    let lending = source.lending_mut().unwrap();
    lending.head_mut(0)[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    right.board.sinks.get_mut(&0).unwrap().accept(lending, &[0]).unwrap();
    source.release();
    let used = alice.used(1);
    let at = Guest::buffer_at(1, used[0].cookie);
    assert_eq!(alice.read(at, 12 + sent.len())[12..], sent);
    sent[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!(bob.received(0)[0].1, sent);
}

#[test]
fn frames_are_spread_over_merged_buffers_and_no_buffer_is_lost() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in feature_sets() {
        if !features.has(Feature::NET_MRG_RXBUF) {
            continue;
        }
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        let mut posted = 0;
        for round in 0..30u32 {
            let fresh = 60 - posted;
            bob.post(0, fresh, 100);
            let lengths = [60, 88, 89, 1000, 14, 1500];
            let sent: Vec<_> = lengths.iter().map(|len| frame(round, *len)).collect();
            sent.iter().for_each(|frame| alice.send(1, frame));
            assert_eq!(forward_all(&mut left, &mut right), sent.len());
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
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

#[test]
fn a_receiver_without_room_costs_counted_drops_and_no_buffer() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in feature_sets() {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        let count = |host: &Host, reason| host.drops(0, Side::ToGuest, reason);
        let before =
            (count(&right, DropReason::ReceiverFull), count(&right, DropReason::NoBufferLargeEnough));
        // Two buffers of 100: the long frame does not fit, those around it do.
        bob.post(0, 2, 100);
        let short = [frame(1, 60), frame(2, 80)];
        for frame in [&short[0], &frame(3, 600), &short[1], &frame(4, 60), &frame(5, 60)] {
            alice.send(1, frame);
        }
        assert_eq!(forward_all(&mut left, &mut right), 5);
        let received: Vec<_> = bob.received(0).into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(received, short, "{features}");
        let after = (count(&right, DropReason::ReceiverFull), count(&right, DropReason::NoBufferLargeEnough));
        let too_large = u64::from(!bob.mergeable());
        assert_eq!((after.0 - before.0, after.1 - before.1), (3 - too_large, too_large), "{features}");
        assert_eq!(alice.used(1).len(), 5);
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

#[test]
fn room_is_told_and_nothing_is_used_up_by_asking() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in feature_sets() {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        let room = |right: &mut Host| right.board.sinks.get_mut(&0).unwrap().room();
        assert_eq!(room(&mut right), 0);
        bob.post(0, 3, 1600);
        assert_eq!((room(&mut right), room(&mut right)), (3, 3), "{features}");
        bob.post(0, 16, 200);
        let merged = if bob.mergeable() { 5 } else { 19 };
        assert_eq!(room(&mut right), merged, "{features}");
        (0..4).for_each(|number| alice.send(1, &frame(number, 100)));
        assert_eq!(left.forward(0, &mut right, 0), 4);
        assert_eq!(bob.received(0).len(), 4);
        bob.enable(&mut right, 0, false);
        assert_eq!(room(&mut right), usize::MAX);
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

/// A frame that asks for segments of one byte: a full receiver costs one look, not hundreds.
#[test]
fn a_frame_of_very_many_segments_is_dropped_at_once() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let sender = [Feature::NET_CSUM, Feature::NET_HOST_TSO4].into_iter().fold(plain(), Features::with);
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
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::ReceiverFull), 1000 - 5);
    assert_eq!(left.drops(0, Side::FromGuest, DropReason::MalformedHeader), 0);
}

/// vhost-user text, "Ring states": a started ring that is disabled is processed without side effects.
#[test]
fn a_disabled_ring_consumes_and_passes_nothing_on() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let mut alice = Guest::running(&mut left, plain());
    let mut bob = Guest::running(&mut right, plain());
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
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in feature_sets() {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        bob.post(0, 40, 300);
        let mut received = Vec::new();
        for round in 0..40u32 {
            // More frames than were taken when the ring stops: the rest must come after it.
            for i in 0..3 {
                alice.send(1, &frame(3 * round + i, 60));
            }
            left.forward(0, &mut right, 0);
            alice.send(1, &frame(1000 + round, 60));
            for (guest, host, index) in [(&mut alice, &mut left, 1), (&mut bob, &mut right, 0)] {
                let base = guest.stop_ring(host, index);
                let gone =
                    if index == 1 { host.board.sources.is_empty() } else { host.board.sinks.is_empty() };
                assert!(gone, "the ring still runs");
                guest.announce_ring(host, index, base.to_wire());
                guest.kick_off(host, index);
            }
            forward_all(&mut left, &mut right);
            alice.used(1);
            let got: Vec<_> = bob.received(0).into_iter().map(|(_, frame)| frame).collect();
            bob.post(0, got.len(), 300);
            received.extend(got);
        }
        let sent = (0..40u32).flat_map(|round| [3 * round, 3 * round + 1, 3 * round + 2, 1000 + round]);
        let sent: Vec<_> = sent.map(|number| frame(number, 60)).collect();
        assert!(received == sent, "{features}: {} of {} frames in order", received.len(), sent.len());
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

#[test]
fn memory_comes_and_goes_under_running_rings() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in [plain(), plain().with(Feature::RING_PACKED)] {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        bob.post(0, 30, 1600);
        let pass = |alice: &mut Guest, bob: &mut Guest, left: &mut Host, right: &mut Host, number| {
            alice.send(1, &frame(number, 900));
            assert_eq!(left.forward(0, right, 0), 1);
            assert_eq!(bob.received(0)[0].1, frame(number, 900));
            assert_eq!(alice.used(1).len(), 1);
        };
        pass(&mut alice, &mut bob, &mut left, &mut right, 1);

        // Frames are lent while the memory is replaced: they are given back first.
        alice.send(1, &frame(2, 900));
        assert_eq!(left.board.sources.get_mut(&0).unwrap().lend(32).unwrap().len(), 1);
        alice.share_memory(&mut left);
        assert_eq!(alice.used(1).len(), 1);
        pass(&mut alice, &mut bob, &mut left, &mut right, 3);

        let more = region(DATA + DATA_BYTES, 0x10_0000);
        let file = memory::sealed_memfd(c"more", more.size_bytes).unwrap();
        let added = bob.add_region(&mut right, more, &file);
        assert!(matches!(added, Some(Answer::Done { .. })), "{added:?}");
        pass(&mut alice, &mut bob, &mut left, &mut right, 4);
        // A buffer in the memory that is new.
        let cookie = bob.queues[&0].next;
        bob.used(0);
        let unused = bob.queues[&0].driver.size().get() - bob.queues[&0].driver.free_descriptors();
        for number in 0..u32::from(unused) {
            alice.send(1, &frame(number, 60));
            left.forward(0, &mut right, 0);
            alice.used(1);
        }
        bob.used(0);
        let new = Buffer { address: more.guest_address, len: 1600, cookie };
        bob.add(0, &[new], Direction::FromDevice);
        alice.send(1, &frame(9, 900));
        assert_eq!(left.forward(0, &mut right, 0), 1);
        assert_eq!((alice.used(1).len(), bob.used(0)[0].written), (1, 912));
        let mut bytes = vec![0; 900];
        file.read_exact_at(&mut bytes, 12).unwrap();
        assert_eq!(bytes, frame(9, 900));
        bob.post(0, 10, 1600);
        let gone = bob.try_ask(&mut right, Request::RemMemReg(SingleRegion(more)), vec![]);
        assert!(matches!(gone, Some(Answer::Done { .. })), "{gone:?}");
        // The rings' own region cannot go while they run; they run on.
        let rings = region(RINGS, RINGS_BYTES);
        let refused = bob.try_ask(&mut right, Request::RemMemReg(SingleRegion(rings)), vec![]);
        assert!(matches!(refused, Some(Answer::Refused { .. })), "{refused:?}");
        pass(&mut alice, &mut bob, &mut left, &mut right, 5);
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

#[test]
fn a_sleeping_source_is_woken_by_a_kick_and_by_nothing_else() {
    for features in feature_sets() {
        let mut host = Host::new(|_| {});
        let mut guest = Guest::running(&mut host, features);
        // While the port polls, no kick is asked for.
        assert!(!host.board.sources.get_mut(&0).unwrap().sleep());
        host.board.sources.get_mut(&0).unwrap().wake();
        guest.send(1, &frame(1, 60));
        let source = host.board.sources.get_mut(&0).unwrap();
        assert!(!is_readable(source.wake_fd().unwrap()), "{features}: kicked though it polls");
        assert!(source.sleep(), "{features}: something is there already");
        source.wake();
        assert_eq!(source.lend(32).unwrap().len(), 1);
        source.release();
        assert!(!source.sleep());
        assert!(!is_readable(source.wake_fd().unwrap()));
        guest.send(1, &frame(2, 60));
        let source = host.board.sources.get_mut(&0).unwrap();
        assert!(is_readable(source.wake_fd().unwrap()), "{features}: the sleeper was not kicked");
        source.wake();
        assert!(!is_readable(source.wake_fd().unwrap()), "{features}: the kick is still there");
        assert_eq!(source.lend(32).unwrap().len(), 1);
        source.release();
        assert_eq!(guest.used(1).len(), 2);
    }
}

#[test]
fn a_driver_that_polls_is_not_called() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let mut alice = Guest::running(&mut left, plain());
    let mut bob = Guest::running(&mut right, plain());
    bob.post(0, 10, 1600);
    for queue in alice.queues.values_mut().chain(bob.queues.values_mut()) {
        queue.driver.disable_calls();
    }
    alice.send(1, &frame(1, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert!(!is_readable(&alice.queues[&1].call) && !is_readable(&bob.queues[&0].call));
    assert_eq!(bob.received(0).len(), 1);
    assert!(!bob.queues.get_mut(&0).unwrap().driver.enable_calls());
    alice.send(1, &frame(2, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert!(is_readable(&bob.queues[&0].call));
    let counts = right.port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.bytes, counts.notifications), (2, 120, 1));
    // Another eventfd, or none any more.
    let call = common::guest::event_fd();
    let fd = VringFd { index: 0, has_fd: true };
    bob.ask(&mut right, Request::SetVringCall(fd), vec![call.try_clone().unwrap()]);
    alice.send(1, &frame(3, 60));
    forward_all(&mut left, &mut right);
    assert!(is_readable(&call));
    bob.ask(&mut right, Request::SetVringCall(VringFd { has_fd: false, ..fd }), vec![]);
    alice.send(1, &frame(4, 60));
    forward_all(&mut left, &mut right);
    assert_eq!(right.port.counters(0, Side::ToGuest).unwrap().counts().notifications, 2);
}

#[test]
fn several_pairs_run_each_on_its_own() {
    let (mut left, mut right) =
        (Host::new(|options| options.queue_pairs = 2), Host::new(|options| options.queue_pairs = 2));
    let wanted = plain().with(Feature::NET_MQ).with(Feature::RING_PACKED);
    let mut alice = Guest::connect(&mut left, wanted);
    let mut bob = Guest::connect(&mut right, wanted);
    assert!(alice.features.has(Feature::NET_MQ));
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

#[test]
fn legacy_drivers_have_a_header_of_ten_bytes() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let mut alice = Guest::running(&mut left, Features::NONE);
    let mut bob = Guest::running(&mut right, Features::NONE);
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
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|options| options.mtu = Some(1000)));
    let mut alice = Guest::running(&mut left, plain());
    let mut bob = Guest::running(&mut right, plain());
    bob.post(0, 10, 2000);
    let pass = |left: &mut Host, right: &mut Host, alice: &mut Guest, bob: &mut Guest, len| {
        alice.send(1, &frame(1, len));
        forward_all(left, right);
        bob.received(0).len()
    };
    // 1000 bytes, 14 of header, 4 of VLAN tag.
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1018), 1);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1019), 0);
    assert_eq!(right.drops(0, Side::ToGuest, DropReason::TooLong), 1);
    bob.ask(&mut right, Request::NetSetMtu(1400), vec![]);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1418), 1);
    assert_eq!(pass(&mut left, &mut right, &mut alice, &mut bob, 1419), 0);
    assert!(right.port.describe().contains("MTU 1400"), "{}", right.port.describe());
    // A buffer that was taken for a frame that stays out is there for the next.
    assert_eq!(bob.used(0), []);
    for len in [100, 1500, 200] {
        alice.send(1, &frame(1, len));
    }
    assert_eq!(left.forward(0, &mut right, 0), 3);
    let lengths: Vec<_> = bob.received(0).iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!(lengths, [100, 200]);
}

#[test]
fn the_rest_of_the_protocol_is_served() {
    let mac = "52:54:00:aa:bb:cc".parse().unwrap();
    let mut host = Host::new(|options| (options.mac, options.mtu) = (Some(mac), Some(2000)));
    let mut guest = Guest::running(&mut host, plain().with(Feature::NET_MTU).with(Feature::NET_MAC));
    let config = ConfigAccess { offset: 0, migration: false, bytes: vec![0; 12] };
    let read = guest.ask(&mut host, Request::GetConfig(config.clone()), vec![]);
    let Some(Answer::Config(Some(bytes))) = read else { panic!("{read:?}") };
    // Address, link up, one pair, MTU.
    assert_eq!(bytes, [0x52, 0x54, 0, 0xaa, 0xbb, 0xcc, 1, 0, 1, 0, 0xd0, 0x07]);
    let written = guest.try_ask(&mut host, Request::SetConfig(config), vec![]);
    assert!(matches!(written, Some(Answer::Refused { .. })), "{written:?}");

    guest.ask(&mut host, Request::SetStatus(15), vec![]);
    let status = guest.ask(&mut host, Request::GetStatus, vec![]);
    assert!(matches!(status, Some(Answer::Number { value: 15, .. })), "{status:?}");
    guest.ask(&mut host, Request::SendRarp(MacAddress([2, 0, 0, 0, 0, 9])), vec![]);
    assert_eq!(host.board.announced, [virtio::net::MacAddress([2, 0, 0, 0, 0, 9])]);

    // A change of the configuration is told over the back-end's socket.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    guest.ask(&mut host, Request::SetBackendReqFd, vec![theirs.into()]);
    guest.ask(&mut host, Request::NetSetMtu(1500), vec![]);
    let mut channel = Connection::from(ours);
    let told = guest.session.receive_on_channel(channel.receive(Some(common::deadline())).unwrap()).unwrap();
    let ChannelRequest::Request { request: BackendRequest::ConfigChange, acknowledge: Some(yes), .. } = told
    else {
        panic!("{told:?}")
    };
    channel.try_send(yes.into_message(true)).unwrap();
    host.turn();
    drop(channel);
    host.until("channel gone", |host| host.board.watched() == 1);

    guest.ask(&mut host, Request::ResetDevice, vec![]);
    assert!(host.board.sources.is_empty() && host.board.sinks.is_empty());
    let status = guest.ask(&mut host, Request::GetStatus, vec![]);
    assert!(matches!(status, Some(Answer::Number { value: 0, .. })), "{status:?}");
    // And up again.
    let features = guest.features;
    guest.set_features(&mut host, features);
    guest.start_ring(&mut host, 1);
    assert_eq!(host.board.sources.len(), 1);
}

#[test]
fn what_is_switched_off_is_not_offered() {
    let offered = |change: fn(&mut VhostUserOptions)| {
        let mut host = Host::new(change);
        let mut guest = Guest::connect(&mut host, Features::from_bits(u64::MAX));
        let Some(Answer::Features(features)) = guest.ask(&mut host, Request::GetFeatures, vec![]) else {
            panic!()
        };
        (Features::from_bits(features.bits()), guest.session.agreed().protocol)
    };
    let (all, protocol) = offered(|_| {});
    for (change, gone) in [
        ((|o| o.packed = false) as fn(&mut VhostUserOptions), Feature::RING_PACKED),
        (|o| o.in_order = false, Feature::IN_ORDER),
        (|o| o.mergeable = false, Feature::NET_MRG_RXBUF),
        (|o| o.event_idx = false, Feature::RING_EVENT_IDX),
        (|o| o.indirect = false, Feature::RING_INDIRECT_DESC),
    ] {
        assert!(all.has(gone));
        assert_eq!(offered(change).0, all.without(gone));
    }
    let (none, _) = offered(|o| o.offloads = false);
    assert!((all - none).iter().all(|feature| feature.name().is_some_and(|name| name.starts_with("NET_"))));
    assert_eq!((all - none).iter().count(), 14);
    assert!(!protocol.contains(ProtocolFeatures::CONFIG) && all.has(Feature::NET_MTU));
    let (with_mac, protocol) = offered(|o| o.mac = Some("52:54:00:00:00:01".parse().unwrap()));
    assert!(protocol.contains(ProtocolFeatures::CONFIG) && with_mac.has(Feature::NET_MAC));
    assert!(!with_mac.has(Feature::NET_MTU), "an MTU that nobody knows");
}

/// Frames are spread over the sinks there are: those of a disabled pair must not be among them.
#[test]
fn sinks_of_disabled_pairs_are_put_aside() {
    let mut host = Host::new(|options| options.queue_pairs = 3);
    let mut guest = Guest::connect(&mut host, plain().with(Feature::NET_MQ));
    guest.share_memory(&mut host);
    let plugged = |host: &Host| host.board.sinks.keys().copied().collect::<Vec<_>>();
    for index in 0..6 {
        guest.prepare_ring(&mut host, index);
        guest.kick_off(&mut host, index);
    }
    assert_eq!(plugged(&host), [0, 1, 2], "all disabled: they count what they drop");
    guest.enable(&mut host, 2, true);
    assert_eq!(plugged(&host), [1]);
    guest.enable(&mut host, 0, true);
    assert_eq!(plugged(&host), [0, 1]);
    // Put aside or not, a ring stops, starts and changes like any other.
    guest.share_memory(&mut host);
    guest.stop_ring(&mut host, 4);
    guest.start_ring(&mut host, 4);
    assert_eq!(plugged(&host), [0, 1, 2]);
    guest.stop_ring(&mut host, 0);
    guest.enable(&mut host, 2, false);
    assert_eq!(plugged(&host), [2]);
    guest.enable(&mut host, 4, false);
    assert_eq!(plugged(&host), [1, 2]);
    assert_eq!(host.board.sources.len(), 3);
}

/// Sends a command over the control queue, waits for its answer and gives it.
fn command(guest: &mut Guest, host: &mut Host, index: u8, bytes: &[u8]) -> u8 {
    let at = DATA + DATA_BYTES / 2;
    guest.write(at, bytes);
    guest.write(at + 0x20_0000 - 1, &[0xff]);
    let piece = |address, len| Piece { address, len };
    // As Linux does it: class and command, data, answer.
    let data = [piece(at, 2), piece(at + 2, bytes.len() as u32 - 2)];
    guest.add_chain(index, &data, &[piece(at + 0x20_0000 - 1, 1)]);
    let mut used = Vec::new();
    host.until("an answer", |_| {
        used.extend(guest.used(index));
        !used.is_empty()
    });
    assert_eq!(used[0].written, 1);
    guest.read(at + 0x20_0000 - 1, 1)[0]
}

#[test]
fn commands_on_the_control_queue_are_obeyed() {
    let mac = virtio::net::MacAddress([0x52, 0x54, 0, 0, 0, 1]);
    for layout in [plain(), plain().with(Feature::RING_PACKED)] {
        let mut left = Host::new(|_| {});
        let mut host = Host::new(|options| (options.queue_pairs, options.mac) = (2, Some(mac)));
        let wanted = [
            Feature::NET_MQ,
            Feature::NET_CTRL_VQ,
            Feature::NET_CTRL_RX,
            Feature::NET_CTRL_MAC_ADDR,
            Feature::NET_CTRL_GUEST_OFFLOADS,
            Feature::NET_GUEST_CSUM,
            Feature::RING_EVENT_IDX,
        ];
        let mut alice = Guest::running(&mut left, plain().with(Feature::NET_CSUM));
        let mut guest = Guest::connect(&mut host, wanted.into_iter().fold(layout, Features::with));
        guest.share_memory(&mut host);
        (0..4).for_each(|index| guest.start_ring(&mut host, index));
        assert_eq!(host.board.sinks.len(), 2);
        guest.start_ring(&mut host, 4);
        assert_eq!(host.board.sinks.len(), 1, "one pair until the driver asks for more");

        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 2, 0]), 0);
        assert_eq!(host.board.sinks.len(), 2);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 3, 0]), 1);
        assert!(host.board.said.last().unwrap().contains("3 queue pairs"), "{:?}", host.board.said);
        assert_eq!(command(&mut guest, &mut host, 4, &[77, 0, 3, 0]), 1);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 1, 0]), 0);
        assert_eq!(host.board.sinks.len(), 1);

        guest.post(0, 20, 1600);
        let mut pass = |guest: &mut Guest, host: &mut Host, header: &[u8; 12], frame: &[u8]| {
            alice.send_with(1, header, frame);
            assert_eq!(left.forward(0, host, 0), 1);
            alice.used(1);
            guest.received(0)
        };
        let (own, mut other) = (frame(1, 64), frame(2, 64));
        other[5] = 9;
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 1, "promiscuous at first");
        assert_eq!(command(&mut guest, &mut host, 4, &[0, 0, 0]), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 0);
        assert_eq!(host.drops(0, Side::ToGuest, DropReason::Filtered), 1);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 1);
        assert_eq!(command(&mut guest, &mut host, 4, &[1, 1, 0x52, 0x54, 0, 0, 0, 9]), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &other).len(), 1);
        // A ring that starts later has the same filter.
        let base = guest.stop_ring(&mut host, 0);
        guest.announce_ring(&mut host, 0, base.to_wire());
        guest.kick_off(&mut host, 0);
        assert_eq!(pass(&mut guest, &mut host, &[0; 12], &own).len(), 0);

        let partial = [1, 0, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0];
        assert_eq!(pass(&mut guest, &mut host, &partial, &other)[0].0[0], 1, "the guest sums by itself");
        assert_eq!(command(&mut guest, &mut host, 4, &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 0);
        assert_eq!(pass(&mut guest, &mut host, &partial, &other)[0].0[0] & 1, 0);

        // Status 0 is a reset: everything as at first.
        guest.ask(&mut host, Request::SetStatus(0), vec![]);
        assert_eq!(pass(&mut guest, &mut host, &partial, &own)[0].0[0], 1);
        // Memory is exchanged, and commands still come through.
        guest.share_memory(&mut host);
        assert_eq!(command(&mut guest, &mut host, 4, &[4, 0, 2, 0]), 0);
        guest.stop_ring(&mut host, 4);
        assert_eq!(host.board.watched(), 1);
    }
}

/// vhost-user text, "Migration": what the device writes is marked, buffers and rings.
#[test]
fn written_pages_are_logged() {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in [plain(), plain().with(Feature::RING_PACKED)] {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        bob.post(0, 4, 4096);
        let log_bytes = (DATA + DATA_BYTES) / 4096 / 8;
        let file = memory::sealed_memfd(c"log", log_bytes).unwrap();
        let log = DirtyLog::map(&file, 0, log_bytes).unwrap();
        let area = LogArea { size_bytes: log_bytes, offset: 0 };
        bob.ask(&mut right, Request::SetLogBase(area), vec![file.try_clone().unwrap().into()]);
        alice.send(1, &frame(1, 60));
        assert_eq!(forward_all(&mut left, &mut right), 1);
        assert_eq!(log.take(), [], "logged before LOG_ALL");

        let features = bob.features;
        bob.set_features(&mut right, features.with(Feature::VHOST_LOG_ALL));
        let (ring, _, used) = common::guest::ring_at(0);
        let written_ring = if features.has(Feature::RING_PACKED) { ring } else { used };
        let address = VringAddress { log_used: true, log: written_ring, ..Guest::addresses(0) };
        bob.ask(&mut right, Request::SetVringAddr(address), vec![]);
        alice.send(1, &frame(2, 60));
        assert_eq!(forward_all(&mut left, &mut right), 1);
        assert_eq!(log.take(), [written_ring / 4096, Guest::buffer_at(0, 1) / 4096]);

        bob.set_features(&mut right, features);
        alice.send(1, &frame(3, 60));
        assert_eq!(forward_all(&mut left, &mut right), 1);
        assert_eq!(log.take(), []);
        assert_eq!(bob.received(0).len(), 3);
        drop((alice, bob));
        left.until("gone", |host| host.board.sources.is_empty());
        right.until("gone", |host| host.board.sinks.is_empty());
    }
}

/// vhost-user text, "Inflight I/O tracking": what a back-end had taken when it died, the next one takes
/// again.
#[test]
fn frames_in_flight_survive_the_back_end() {
    for features in [plain(), plain().with(Feature::RING_PACKED)] {
        let mut host = Host::new(|_| {});
        let mut guest = Guest::connect(&mut host, features);
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: guest.size };
        let given = guest.ask(&mut host, Request::GetInflightFd(asked), vec![]);
        let Some(Answer::Inflight(area, file)) = given else { panic!("{given:?}") };
        guest.ask(&mut host, Request::SetInflightFd(area), vec![file.try_clone().unwrap()]);
        guest.share_memory(&mut host);
        guest.start_ring(&mut host, 1);
        for number in 0..5 {
            guest.send(1, &frame(number, 60));
        }
        let source = host.board.sources.get_mut(&0).unwrap();
        assert_eq!(source.lend(2).unwrap().len(), 2);
        source.release();
        assert_eq!(source.lend(2).unwrap().len(), 2);
        // The back-end dies; its successor gets rings, memory and the buffer.
        host.board.sources.clear();
        drop(host);
        let mut host = Host::new(|_| {});
        let mut heir = Guest::connect_bare(&host.path);
        (heir.space, heir.regions) = (guest.space, guest.regions);
        heir.negotiate(&mut host, features);
        heir.queues = guest.queues;
        heir.ask(&mut host, Request::SetInflightFd(area), vec![file]);
        heir.share_memory(&mut host);
        // What the front-end knows best: the used index, or the start, which the buffer corrects.
        let base = if features.has(Feature::RING_PACKED) { 0x8002_8002 } else { 2 };
        heir.announce_ring(&mut host, 1, base);
        heir.kick_off(&mut host, 1);
        heir.enable(&mut host, 1, true);
        let source = host.board.sources.get_mut(&0).unwrap();
        let mut heads = Vec::new();
        loop {
            let lending = source.lend(32).unwrap();
            heads.extend(lending.frames().map(|frame| frame.head().to_vec()));
            if !source.lent() {
                break;
            }
            source.release();
        }
        assert_eq!(heads, (2..5).map(|number| frame(number, 60)).collect::<Vec<_>>(), "{features}");
        assert_eq!(heir.used(1).len(), 5);
    }
}

#[test]
fn one_front_end_after_the_other() {
    let mut host = Host::new(|_| {});
    assert!(host.port.describe().contains("waits for a front-end to connect"));
    let first = Guest::running(&mut host, plain());
    // The second waits in the queue until the first has gone.
    let mut second = Guest::connect_bare(&host.path);
    host.turn();
    assert_eq!(host.board.sources.len(), 1);
    drop(first);
    host.until("first gone", |host| host.board.sources.is_empty());
    second.negotiate(&mut host, plain());
    second.share_memory(&mut host);
    second.start_ring(&mut host, 1);
    assert_eq!(host.board.sources.len(), 1);
    let said: Vec<_> = host.board.said.iter().filter(|line| line.contains("disconnected")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    host.port.end(&mut host.board);
    assert!(host.board.sources.is_empty() && host.board.watched() == 0 && !host.path.exists());
}

#[test]
fn a_client_connects_when_somebody_listens_and_again_after_that() {
    let mut host = Host::new(|options| options.role = Role::Client);
    assert!(host.port.describe().contains("waits for a front-end to listen"));
    host.board.turn(&mut host.port, SOON);
    host.board.turn(&mut host.port, SOON);
    assert_eq!(host.board.said.len(), 1, "said once why: {:?}", host.board.said);
    for _ in 0..2 {
        let listener = Listener::bind(&host.path).unwrap();
        let mut connection = None;
        host.until("connected", |_| {
            connection = listener.try_accept().unwrap();
            connection.is_some()
        });
        let mut guest = Guest::over(connection.unwrap());
        guest.negotiate(&mut host, plain());
        guest.share_memory(&mut host);
        guest.start_ring(&mut host, 0);
        assert_eq!(host.board.sinks.len(), 1);
        drop((guest, listener));
        host.until("gone", |host| host.board.sinks.is_empty());
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_a_remedy() {
    let error = |change: fn(&mut VhostUserOptions)| {
        let mut options = VhostUserOptions::new("/nowhere/port.sock");
        change(&mut options);
        VhostUser::new(options).err().unwrap().to_string()
    };
    assert!(error(|o| o.queue_pairs = 0).contains("1 to 127"));
    assert!(error(|o| o.queue_pairs = 128).contains("1 to 127"));
    assert!(error(|o| o.mtu = Some(67)).contains("68 to 65535"));
    let mut port = VhostUser::new(VhostUserOptions::new("/nowhere/port.sock")).unwrap();
    let error = port.start(&mut port::testing::TestBoard::new()).unwrap_err().to_string();
    assert!(error.contains("/nowhere") && error.contains("give a path"), "{error}");
}
