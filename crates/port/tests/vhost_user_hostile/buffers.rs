//! Buffers and headers: too short, too finely split, contradictory.
use super::*;
use virtio::NetFeatures;

/// CVE-2022-2132: chains too short for the header, and headers split over many descriptors.
#[test]
fn chains_too_short_and_too_finely_split() {
    attacked_through(&[1], |host, mut guest, others| {
        let at = Guest::buffer_at(1, 0);
        guest.write(at, &[0; 2048]);
        for len in [1, 10, 11, 12, 13, 25] {
            let cookie = guest.queues[&1].next;
            guest.add(1, &[Buffer { address: at, len, cookie }], Direction::ToDevice);
        }
        let piece = |address, len| Piece { address, len };
        guest.add_chain(1, &[piece(at, 0), piece(at, 0)], &[]);
        guest.add_chain(1, &[], &[piece(at, 2048)]);
        assert_eq!(host.forward(0, &mut others.right, 0), 0);
        assert_eq!(host.drops(0, Side::FromGuest, DropReason::TooShort), 8);
        let used = guest.used(1);
        assert!(used.len() == 8 && used.iter().all(|used| used.written == 0), "{used:?}");

        // Header and start of the frame byte by byte, empty descriptors among them, and a writable end.
        let sent = frame(77, 300);
        guest.write(at + HEADER as u64, &sent);
        let split = HEADER as u64 + 20;
        let mut pieces: Vec<_> = (0..split).map(|i| piece(at + i, 1)).collect();
        pieces.insert(5, piece(at + 5, 0));
        pieces.push(piece(at + split, sent.len() as u32 - 20));
        guest.add_chain(1, &pieces, &[piece(at + 0x800, 64)]);
        others.bob.post(0, 1, 1600);
        assert_eq!(host.forward(0, &mut others.right, 0), 1);
        assert_eq!(others.bob.received(0)[0].1, sent);
        assert_eq!(guest.used(1)[0].written, 0);
    });
}

/// CVE-2022-2132 on the receiving side: receive buffers that no frame can use, or only in pieces.
#[test]
fn receive_buffers_too_short_too_finely_split_and_readable() {
    let _alone = alone();
    for features in layouts() {
        for mergeable in [false, true] {
            let features = if mergeable { features.union(NetFeatures::MRG_RXBUF) } else { features };
            attacked(features, |host, mut guest, others| {
                guest.share_memory(host);
                guest.start_ring(host, 0);
                let at = Guest::buffer_at(0, 0);
                let piece = |address, len| Piece { address, len };
                guest.add_chain(0, &[], &[piece(at, 11)]);
                guest.add_chain(0, &[piece(at, 4)], &[piece(at, 1600)]);
                guest.add_chain(0, &[piece(at, 1600)], &[]);
                guest.add_chain(0, &[], &[piece(at, 0)]);
                let fine: Vec<_> = (0..40).map(|i| piece(at + i, 1)).chain([piece(at + 40, 500)]).collect();
                guest.add_chain(0, &[], &fine);
                let sent = frame(5, 500);
                others.alice.send(1, &sent);
                assert_eq!(others.left.forward(0, host, 0), 1);
                let used = guest.used(0);
                assert_eq!(used.iter().map(|used| used.written).collect::<Vec<_>>(), [0, 0, 0, 0, 512]);
                assert_eq!(guest.read(at + HEADER as u64, 500), sent);
                if mergeable {
                    // A frame cannot go on behind a buffer that it cannot use.
                    for len in [100, 5, 300, 300] {
                        guest.add_chain(0, &[], &[piece(at, len)]);
                    }
                    others.alice.send(1, &sent);
                    assert_eq!(others.left.forward(0, host, 0), 1);
                    let written: Vec<_> = guest.used(0).iter().map(|used| used.written).collect();
                    assert_eq!(written, [0, 0, 300, 212]);
                }
                others.alice.used(1);
            });
        }
    }
}

/// Unusable buffers come back as fast as they are given back: one burst deals with so many and no more.
#[test]
fn a_flood_of_unusable_receive_buffers_ends() {
    let _alone = alone();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            guest.size = 1024;
            guest.share_memory(host);
            guest.start_ring(host, 0);
            for _ in 0..1024 {
                let cookie = guest.queues[&0].next;
                guest.add(0, &[Buffer { address: DATA, len: 1, cookie }], Direction::FromDevice);
            }
            others.alice.send(1, &frame(1, 60));
            assert_eq!(others.left.forward(0, host, 0), 1);
            assert_eq!(host.drops(0, Side::ToGuest, DropReason::NoBufferLargeEnough), 1);
            let used = guest.used(0).len();
            assert!((512..1024).contains(&used), "{used}");
            others.alice.used(1);
        });
    }
}

/// CVE-2024-11614: a checksum outside the frame; and other headers that contradict theirs.
#[test]
fn net_headers_that_contradict_the_frame() {
    let _alone = alone();
    attacked(plain().union(NetFeatures::CSUM), |host, mut guest, others| {
        guest.share_memory(host);
        guest.start_ring(host, 1);
        let headers: [[u8; HEADER]; 5] = [
            [1, 0, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
            [1, 1, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0],
            [0, 1, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
            [1, 9, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
        ];
        for header in &headers {
            guest.send_with(1, header, &frame(1, 64));
        }
        assert_eq!(host.forward(0, &mut others.right, 0), 0);
        assert_eq!(host.drops(0, Side::FromGuest, DropReason::MalformedHeader), 5);
        assert_eq!(guest.used(1).len(), 5);
    });
}

/// CVE-2018-1059: what is contiguous for the guest need not be for the host.
#[test]
fn buffers_across_two_files() {
    attacked_through(&[0, 1], |host, mut guest, others| {
        let border = DATA + DATA_BYTES / 2;
        let sent = frame(3, 1000);
        // The border within header, head and rest, on the sending and on the receiving side.
        for before in [1, 5, 11, 12, 13, 40, 75, 76, 77, 500] {
            let at = border - before;
            guest.write(at, &[0; HEADER]);
            guest.write(at + HEADER as u64, &sent);
            let cookie = guest.queues[&1].next;
            guest.add(1, &[Buffer { address: at, len: 1012, cookie }], Direction::ToDevice);
            others.bob.post(0, 1, 1600);
            assert_eq!(host.forward(0, &mut others.right, 0), 1);
            assert_eq!(others.bob.received(0)[0].1, sent, "{before}");
            guest.used(1);

            guest.write(at, &[0xee; 1100]);
            let cookie = guest.queues[&0].next;
            guest.add(0, &[Buffer { address: at, len: 1100, cookie }], Direction::FromDevice);
            others.alice.send(1, &sent);
            assert_eq!(others.left.forward(0, host, 0), 1);
            assert_eq!(guest.used(0)[0].written, 1012);
            assert_eq!(guest.read(at + HEADER as u64, 1000), sent, "{before}");
            assert_eq!(guest.read(at + 1012, 4), [0xee; 4]);
            others.alice.used(1);
        }
        // Past the end of all memory: the ring is malformed, and it alone.
        let cookie = guest.queues[&1].next;
        let at = DATA + DATA_BYTES - 100;
        guest.add(1, &[Buffer { address: at, len: 101, cookie }], Direction::ToDevice);
        host.forward(0, &mut others.right, 0);
        assert!(host.context.sources.is_empty() && host.context.sinks.len() == 1);
        assert!(host.context.logged.last().unwrap().contains("outside the shared memory"));
    });
}

/// A peer that goes while its frames are lent: they are delivered from memory that stays until then.
#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_burst() {
    attacked_through(&[0, 1], |host, mut guest, others| {
        for number in 0..4 {
            guest.send(1, &frame(number, 900));
        }
        guest.post(0, 4, 1600);
        let source = host.context.sources.get_mut(&0).unwrap();
        let batch = source.rx_burst(32).unwrap();
        assert_eq!(batch.len(), 4);
        drop(guest);
        others.bob.post(0, 4, 1600);
        let sink = others.right.context.sinks.get_mut(&0).unwrap();
        sink.accept(batch, &[0, 1, 2, 3]).unwrap();
        assert_eq!(others.bob.received(0).len(), 4);
        // Frames to the guest that has gone are still written to its memory. No process reads that memory.
        others.alice.send(1, &frame(9, 60));
        assert_eq!(others.left.forward(0, host, 0), 1);
        others.alice.used(1);
    });
}
