//! Drivers that put wrong chains, headers and indices into their rings, or leave them as they are.
use virtio::{Features, NetFeatures};
use virtqueue::Piece;

use super::scene::{Scene, attacked_through};
use crate::switch_process::guest::{DATA, Guest, HEADER, RECEIVE, TRANSMIT, frame, layouts, plain, ring_at};
use crate::switch_process::{description, passed, wait_for};

fn piece(address: u64, len: u32) -> Piece {
    Piece { address, len }
}

/// CVE-2022-2132: chains too short for the header, and headers split over many descriptors.
#[test]
fn chains_too_short_and_too_finely_split() {
    attacked_through(&[TRANSMIT], None, |scene, mut guest, round| {
        let at = DATA + 0x20_0000;
        guest.write(at, &[0; 2048]);
        for len in [1, 10, 11, 12, 13, 25] {
            guest.add(TRANSMIT, at, len);
        }
        guest.add_chain(TRANSMIT, &[piece(at, 0), piece(at, 0)], &[]);
        guest.add_chain(TRANSMIT, &[], &[piece(at, 2048)]);
        assert_eq!(guest.wait_for_used(TRANSMIT, 8).len(), 8);
        scene.wait_for_drops("too short", 8 * round);

        let sent = frame(77, 300);
        guest.write(at + HEADER as u64, &sent);
        let split = HEADER as u64 + 20;
        let mut pieces: Vec<_> = (0..split).map(|i| piece(at + i, 1)).collect();
        pieces.insert(5, piece(at + 5, 0));
        pieces.push(piece(at + split, sent.len() as u32 - 20));
        scene.friend.post(1);
        guest.add_chain(TRANSMIT, &pieces, &[]);
        assert_eq!(scene.friend.receive(), sent);
    });
}

/// CVE-2024-11614: a checksum outside the frame, and other headers that contradict theirs.
#[test]
fn net_headers_that_contradict_the_frame() {
    let mut scene = Scene::new();
    scene.attacked(plain().union(NetFeatures::CSUM), None, |scene, mut guest| {
        guest.share_memory();
        guest.start_ring(TRANSMIT);
        let headers: [[u8; HEADER]; 5] = [
            [1, 0, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0],
            [1, 1, 0, 0, 0, 0, 14, 0, 16, 0, 0, 0],
            [0, 1, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
            [1, 9, 0, 0, 0, 5, 14, 0, 16, 0, 0, 0],
        ];
        for header in &headers {
            guest.send_with(header, &frame(1, 64));
        }
        guest.wait_for_used(TRANSMIT, 5);
        scene.wait_for_drops("malformed net header", 5);
        assert_eq!(passed(&scene.switch.snapshot(), "victim", true), 0);
    });
    scene.end();
}

/// A buffer id beyond the queue (packed), an available index that runs ahead (split), both directions.
#[test]
fn malformed_rings() {
    let mut scene = Scene::new();
    for (features, index) in layouts().into_iter().flat_map(|features| [(features, 0), (features, 1)]) {
        let packed = features.contains(Features::RING_PACKED);
        let said =
            if index == RECEIVE { "queue to the guest, pair 0" } else { "queue from the guest, pair 0" };
        scene.attacked(features, Some(said), |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(index);
            let (descriptors, driver, _) = ring_at(index);
            if packed {
                // Available (A set, U clear).
                let flags = if index == RECEIVE { 0x82u16 } else { 0x80 };
                let mut descriptor = [0; 16];
                descriptor[..8].copy_from_slice(&DATA.to_le_bytes());
                descriptor[8..12].copy_from_slice(&100u32.to_le_bytes());
                descriptor[12..14].copy_from_slice(&0x7fffu16.to_le_bytes());
                descriptor[14..].copy_from_slice(&flags.to_le_bytes());
                guest.write(descriptors, &descriptor);
            } else {
                guest.write(driver + 2, &1000u16.to_le_bytes());
            }
            match index {
                RECEIVE => scene.friend.send(&frame(1, 60)),
                _ => guest.kick_anyway(index),
            }
            wait_for("the ring's end", || {
                let described = description(&scene.switch.snapshot(), "victim");
                described.contains("1 malformed and stopped").then_some(())
            });
            if index == RECEIVE {
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
        });
    }
    scene.end();
}

/// Frames are under way both ways when the connection ends.
#[test]
fn a_peer_that_vanishes_in_the_middle_of_a_burst() {
    let mut scene = Scene::new();
    for features in layouts() {
        for round in 0..20 {
            let mut guest = Guest::running(&scene.path(), features);
            guest.post(32);
            for number in 0..32 {
                guest.send(&frame(number, 900));
                if number % 4 == 0 {
                    scene.friend.send(&frame(number, 900));
                }
                if number == round {
                    // What was sent may or may not be delivered; the connection's end does not wait for it.
                    break;
                }
            }
            let sent = round / 4 + 1;
            drop(guest);
            scene.friend.wait_for_used(TRANSMIT, sent as usize);
        }
        scene.attacked(features, None, |_, guest| drop(guest));
    }
    scene.end();
}

/// A receiver that posts no buffers loses its own frames and delays no other port.
#[test]
fn a_receiver_that_never_posts_buffers() {
    attacked_through(&[RECEIVE], None, |scene, _, round| {
        for number in 0..500 {
            scene.friend.send(&frame(number, 900));
            scene.friend.wait_for_used(TRANSMIT, 1);
        }
        scene.wait_for_drops("receiver full", 500 * round);
        scene.bystanders.go_on();
    });
}
