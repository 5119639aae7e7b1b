//! Memory that the front-end shares: the guest's, exchanged under running rings, the log of what is written
//! there, and the buffer of what is in flight.
use std::os::fd::AsFd;

use std::os::unix::fs::FileExt;

use memory::DirtyLog;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{Inflight, LogArea, SingleRegion, VringAddress};
use vhost_user::session::frontend::Answer;
use virtio::Features;
use virtqueue::{Buffer, Direction};

use crate::common::guest::{DATA, DATA_BYTES, Guest, Host, RINGS, RINGS_BYTES, region, ring_addresses};
use crate::common::{self, frame};
use crate::{forward_all, in_each, plain};

#[test]
fn memory_comes_and_goes_under_running_rings() {
    in_each([plain(), plain().union(Features::RING_PACKED)], |_, alice, bob, left, right| {
        bob.post(0, 30, 1600);
        let pass = |alice: &mut Guest, bob: &mut Guest, left: &mut Host, right: &mut Host, number| {
            alice.send(1, &frame(number, 900));
            assert_eq!(left.forward(0, right, 0), 1);
            assert_eq!(bob.received(0)[0].1, frame(number, 900));
            assert_eq!(alice.used(1).len(), 1);
        };
        pass(alice, bob, left, right, 1);

        // Frames are lent while the memory is replaced: they are given back first.
        alice.send(1, &frame(2, 900));
        assert_eq!(left.context.sources.get_mut(&0).unwrap().rx_burst(32).unwrap().len(), 1);
        alice.share_memory(left);
        assert_eq!(alice.used(1).len(), 1);
        pass(alice, bob, left, right, 3);

        let more = region(DATA + DATA_BYTES, 0x10_0000);
        let file = memory::sealed_memfd(c"more", more.size_bytes).unwrap();
        let added = bob.add_region(right, more, &file);
        assert!(matches!(added, Some(Answer::Done { .. })), "{added:?}");
        pass(alice, bob, left, right, 4);
        // A buffer in the memory that is new.
        let cookie = bob.queues[&0].next;
        bob.used(0);
        let unused = bob.queues[&0].driver.size().get() - bob.queues[&0].driver.free_descriptors();
        for number in 0..u32::from(unused) {
            alice.send(1, &frame(number, 60));
            left.forward(0, right, 0);
            alice.used(1);
        }
        bob.used(0);
        let new = Buffer { address: more.guest_address, len: 1600, cookie };
        bob.add(0, &[new], Direction::FromDevice);
        alice.send(1, &frame(9, 900));
        assert_eq!(left.forward(0, right, 0), 1);
        assert_eq!((alice.used(1).len(), bob.used(0)[0].written), (1, 912));
        let mut bytes = vec![0; 900];
        file.read_exact_at(&mut bytes, 12).unwrap();
        assert_eq!(bytes, frame(9, 900));
        bob.post(0, 10, 1600);
        let gone = bob.try_ask(right, Request::RemMemReg(SingleRegion(more)), vec![]);
        assert!(matches!(gone, Some(Answer::Done { .. })), "{gone:?}");
        // The rings' own region cannot go while they run; they run on.
        let rings = region(RINGS, RINGS_BYTES);
        let refused = bob.try_ask(right, Request::RemMemReg(SingleRegion(rings)), vec![]);
        assert!(matches!(refused, Some(Answer::Refused { .. })), "{refused:?}");
        pass(alice, bob, left, right, 5);
    });
}

/// vhost-user text, "Migration": what the device writes is marked, buffers and rings.
#[test]
fn written_pages_are_logged() {
    in_each([plain(), plain().union(Features::RING_PACKED)], |_, alice, bob, left, right| {
        bob.post(0, 4, 4096);
        let log_bytes = (DATA + DATA_BYTES) / 4096 / 8;
        let file = memory::sealed_memfd(c"log", log_bytes).unwrap();
        let log = DirtyLog::map(&file, 0, log_bytes).unwrap();
        let area = LogArea { size_bytes: log_bytes, offset: 0 };
        bob.ask(right, Request::SetLogBase(area), vec![file.try_clone().unwrap().into()]);
        alice.send(1, &frame(1, 60));
        assert_eq!(forward_all(left, right), 1);
        assert!(log.take().is_empty(), "logged before LOG_ALL");

        let features = bob.features;
        bob.set_features(right, features.union(Features::VHOST_LOG_ALL));
        let (ring, _, used) = common::guest::ring_at(0);
        let written_ring = if features.contains(Features::RING_PACKED) { ring } else { used };
        let address = VringAddress { log_used: true, log: written_ring, ..ring_addresses(0) };
        bob.ask(right, Request::SetVringAddr(address), vec![]);
        alice.send(1, &frame(2, 60));
        assert_eq!(forward_all(left, right), 1);
        assert_eq!(log.take(), [written_ring / 4096, Guest::buffer_at(0, 1) / 4096]);
        // QEMU names the device area, also where that is not what the device writes most (packed rings).
        let address = VringAddress { log: used, ..address };
        bob.ask(right, Request::SetVringAddr(address), vec![]);
        alice.send(1, &frame(3, 60));
        assert_eq!(forward_all(left, right), 1);
        assert_eq!(log.take(), [written_ring / 4096, Guest::buffer_at(0, 2) / 4096]);

        bob.set_features(right, features);
        alice.send(1, &frame(4, 60));
        assert_eq!(forward_all(left, right), 1);
        assert!(log.take().is_empty());
        // The next migration has a log of its own; the one before may be too short for the memory by then.
        bob.set_features(right, features.union(Features::VHOST_LOG_ALL));
        alice.send(1, &frame(5, 60));
        bob.post(0, 1, 4096);
        assert_eq!(forward_all(left, right), 1);
        assert!(log.take().is_empty());
        assert_eq!(bob.received(0).len(), 5);
    });
}

/// vhost-user text, "Inflight I/O tracking": what a back-end had taken when it died, the next one takes
/// again.
#[test]
fn frames_in_flight_survive_the_back_end() {
    for features in [plain(), plain().union(Features::RING_PACKED)] {
        let mut host = Host::new(|_| {});
        let mut guest = Guest::connect(&mut host, features);
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: guest.size };
        let given = guest.ask(&mut host, Request::GetInflightFd(asked), vec![]);
        let Some(Answer::Inflight(area, file)) = given else { panic!("{given:?}") };
        guest.ask(&mut host, Request::SetInflightFd(area), vec![file.as_fd().try_clone_to_owned().unwrap()]);
        guest.share_memory(&mut host);
        guest.start_ring(&mut host, 1);
        for number in 0..5 {
            guest.send(1, &frame(number, 60));
        }
        let source = host.context.sources.get_mut(&0).unwrap();
        assert_eq!(source.rx_burst(2).unwrap().len(), 2);
        source.release();
        assert_eq!(source.rx_burst(2).unwrap().len(), 2);
        // The back-end dies; its successor gets rings, memory and the buffer.
        host.context.sources.clear();
        drop(host);
        let mut host = Host::new(|_| {});
        let mut heir = Guest::connect_bare(&host.path);
        heir.memory = guest.0.memory;
        heir.agree(&mut host, features);
        heir.queues = guest.0.queues;
        heir.ask(&mut host, Request::SetInflightFd(area), vec![file.as_fd().try_clone_to_owned().unwrap()]);
        heir.share_memory(&mut host);
        // What the front-end knows best: the used index, or the start, which the buffer corrects.
        let base = if features.contains(Features::RING_PACKED) { 0x8002_8002 } else { 2 };
        heir.announce_ring(&mut host, 1, base);
        heir.kick_off(&mut host, 1);
        heir.enable(&mut host, 1, true);
        let source = host.context.sources.get_mut(&0).unwrap();
        let mut heads = Vec::new();
        loop {
            let batch = source.rx_burst(32).unwrap();
            heads.extend(batch.frames().map(|frame| frame.snapshot().to_vec()));
            if !source.needs_release() {
                break;
            }
            source.release();
        }
        assert_eq!(heads, (2..5).map(|number| frame(number, 60)).collect::<Vec<_>>(), "{features}");
        assert_eq!(heir.used(1).len(), 5);
    }
}
