//! Tests with a device that reports wrong used buffers, and with frames that no device may write.
use super::*;

#[test]
fn a_number_of_buffers_that_no_frame_has_is_refused_and_the_buffers_come_back() {
    for features in every_feature() {
        let mut rig = Rig::new(features, true);
        for round in 0..40 {
            let lie = |number| [header(number), frame(0, 100)].concat();
            rig.fill(&[lie(0), lie(17), lie(u16::MAX), lie(1)]);
            assert_eq!(rig.received(32).len(), 1, "round {round}, {features:?}");
            // Three are announced, two come.
            rig.fill(&[lie(3), lie(1)]);
            assert!(rig.received(32).is_empty());
            assert!(!rig.receive.needs_release());
            assert_eq!(rig.receive_drops(DropReason::MalformedHeader), 4 * (round + 1));
        }
    }
}

#[test]
fn a_buffer_too_short_for_a_frame_is_refused() {
    for mergeable in [false, true] {
        let mut rig = Rig::new(RingFeatures::plain(RingLayout::Split), mergeable);
        for round in 1..=40 {
            let good = [header(1), frame(9, 14)].concat();
            rig.fill(&[vec![], vec![0; 5], header(1), [header(1), frame(0, 13)].concat(), good]);
            assert_eq!(rig.received(32), [frame(9, 14)]);
            assert_eq!(rig.receive_drops(DropReason::TooShort), 4 * round, "mergeable {mergeable}");
        }
    }
}

#[test]
fn a_checksum_outside_the_frame_is_refused() {
    let mut rig = Rig::new(RingFeatures::plain(RingLayout::Packed), true);
    let wrong = NetHeader { flags: 1, csum_start: 60, csum_offset: 40, num_buffers: 1, ..Default::default() };
    rig.fill(&[[wrong.to_bytes().to_vec(), frame(0, 60)].concat()]);
    assert!(rig.received(32).is_empty());
    assert_eq!(rig.receive_drops(DropReason::MalformedHeader), 1);
}

/// Flags, index, and one entry of a split used ring.
fn used_ring(id: u32, len: u32) -> Vec<u8> {
    [&[0, 0, 1, 0][..], &id.to_le_bytes(), &len.to_le_bytes()].concat()
}

#[test]
fn a_used_length_or_an_id_that_is_a_lie_stops_the_queue() {
    let plain = RingFeatures::plain(RingLayout::Split);
    for features in [plain, RingFeatures { in_order: true, ..plain }] {
        for (id, len) in [(0, BUFFER_BYTES + 1), (0, u32::MAX), (16, 12), (u32::MAX, 12)] {
            let mut rig = Rig::new(features, true);
            rig.scribble(RECEIVEQ, 0, &used_ring(id, len));
            for _ in 0..2 {
                assert!(
                    matches!(rig.receive.rx_burst(32), Err(QueueError::Ring(_))),
                    "{id} {len} {features:?}"
                );
            }
            // Nothing was sent, so nothing can be used.
            rig.scribble(TRANSMITQ, 0, &used_ring(id, len));
            let batch = batch_of(&[frame(0, 60)]);
            for round in 1..=2 {
                let error = rig.transmit.accept(&batch, &[0]).unwrap_err();
                assert!(matches!(error, QueueError::Ring(_)), "{error}");
                assert_eq!(rig.transmit.counters().drops(DropReason::MalformedRing), round);
            }
        }
    }
}

/// A device that says that a frame goes on for as many buffers as may be: the last one makes it too long.
#[test]
fn no_device_passes_a_frame_longer_than_there_are() {
    for features in every_feature() {
        let mut rig = Rig::of_size(64, features, true);
        let longest = frame(3, LARGEST_FRAME_BYTES);
        let too_long = frame(4, LARGEST_FRAME_BYTES + 1);
        rig.fill(&merged(&too_long));
        assert!(rig.received(8).is_empty(), "{features:?}");
        assert_eq!(rig.receive_drops(DropReason::TooLong), 1, "{features:?}");
        rig.fill(&merged(&longest));
        assert!(rig.received(8) == [longest], "{features:?}");
    }
}

/// Each frame has one buffer, and becomes some five hundred frames for a receiver that does not accept large segments.
#[test]
fn a_burst_of_frames_to_cut_into_very_many_ends_early() {
    for features in every_feature() {
        let mut rig = Rig::new(features, true);
        let to_cut = NetHeader {
            flags: NetHeader::F_NEEDS_CSUM,
            gso_type: NetHeader::GSO_TCPV4,
            gso_size: 2,
            csum_start: 34,
            csum_offset: 16,
            num_buffers: 1,
            ..NetHeader::default()
        };
        let buffers: Vec<Vec<u8>> =
            (0..SIZE as u8).map(|seed| [to_cut.to_bytes().to_vec(), frame(seed, 1070)].concat()).collect();
        rig.fill(&buffers);
        let mut bursts = Vec::new();
        let mut frames = Vec::new();
        while frames.len() < buffers.len() {
            let some = rig.received(64);
            bursts.push(some.len());
            frames.extend(some);
        }
        assert_eq!(bursts, [1; 16], "{features:?}");
        assert!(frames.iter().zip(&buffers).all(|(frame, buffer)| *frame == buffer[NetHeader::BYTES..]));
        assert!(rig.received(64).is_empty());
        // All buffers are there again.
        rig.fill(&buffers);
    }
}
