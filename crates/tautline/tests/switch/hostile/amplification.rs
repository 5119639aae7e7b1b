//! Little work for an attacker, much for the switch: long chains, finely split buffers, frames to be cut finely.
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::SingleRegion;
use vhost_user::session::frontend::Answer;
use virtio::{Features, NetFeatures};

use super::memfd;
use super::scene::Scene;
use super::tables::Tables;
use crate::switch_process::guest::{
    DATA, DATA_BYTES, Guest, HEADER, RECEIVE, TRANSMIT, frame, layouts, region,
};
use crate::switch_process::{description, passed, wait_for};

/// Where tables lie, behind the buffers.
const TABLE: u64 = DATA + 0x30_0000;

fn with_tables() -> [Features; 2] {
    layouts().map(|features| features.union(Features::RING_INDIRECT_DESC))
}

fn resident_bytes(scene: &Scene) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", scene.switch.id())).unwrap();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    anonymous.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Each of 1023 descriptors reaches over hundreds of regions of one page: half a million pieces.
#[test]
fn buffers_that_lie_in_very_many_regions() {
    let mut scene = Scene::new();
    for features in with_tables() {
        let before = resident_bytes(&scene);
        scene.attacked(features, Some("too many memory regions"), |scene, mut guest| {
            guest.size = 256;
            guest.share_memory();
            let pages = many_regions(&mut guest);
            guest.start_ring(TRANSMIT);
            let buffers = [(DATA + 2 * DATA_BYTES, 4096 * pages); 1023];
            let mut frames = Tables::new(&guest, TRANSMIT, TABLE, &buffers);
            frames.offer(&guest);
            wait_for("the ring's end", || {
                let described = description(&scene.switch.snapshot(), "victim");
                (described.contains("1 malformed") || frames.is_used(&guest)).then_some(())
            });
        });
        let grown = resident_bytes(&scene).saturating_sub(before);
        println!("memory grew by {} KiB", grown / 1024);
        assert!(grown < 4 << 20, "{grown} bytes stay allocated");
    }
    scene.end();
}

/// As many regions as the switch takes, of a page each, one behind the other; returns how many.
pub fn many_regions(guest: &mut Guest) -> u32 {
    let slots = match guest.ask(Request::GetMaxMemSlots, vec![]) {
        Some(Answer::Number { value, .. }) => value,
        other => panic!("{other:?}"),
    };
    let pages = slots.saturating_sub(3).min(500);
    assert!(pages > 1, "{slots} slots");
    let page = memfd(4096);
    for i in 0..pages {
        let region = region(DATA + 2 * DATA_BYTES + 4096 * i, 4096);
        guest.ask(Request::AddMemReg(SingleRegion(region)), vec![page.try_clone().unwrap().into()]);
    }
    pages as u32
}

/// Thousands of frames of 64 KiB in pieces of 64 bytes. They are legal, so they are passed on, a few at a time.
#[test]
fn frames_of_64_kib_in_pieces_of_64_bytes() {
    let mut scene = Scene::new();
    for (round, features) in (1..).zip(with_tables()) {
        scene.attacked(features, None, |scene, mut guest| {
            guest.size = 256;
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            guest.write(DATA, &[0; HEADER]);
            guest.write(DATA + HEADER as u64, &frame(1, 65_000));
            let pieces: Vec<_> = (0..1023).map(|i| (DATA + 64 * i, 64)).collect();
            let mut frames = Tables::new(&guest, TRANSMIT, TABLE, &pieces);
            frames.laps(&guest, 8, || post_large(&mut scene.friend));
            // Those of the victim's next guests come in between.
            let count = passed(&scene.switch.snapshot(), "victim", true);
            assert!(count >= round * 8 * 256, "{count} passed");
            scene.friend.stop_ring(RECEIVE);
            scene.friend.forget_ring(RECEIVE);
            scene.friend.start_ring(RECEIVE);
        });
    }
    scene.end();
}

/// Keeps buffers for the longest frames posted.
pub fn post_large(guest: &mut Guest) {
    for _ in 0..guest.reclaimed(RECEIVE) {
        guest.add(RECEIVE, DATA, 80_000);
    }
}

/// Chains of 1023 descriptors of which one holds something: nothing is lent of the others, but all are looked at.
#[test]
fn descriptors_that_hold_nothing() {
    let mut scene = Scene::new();
    for features in with_tables() {
        scene.attacked(features, None, |_, mut guest| {
            guest.size = 256;
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            let mut pieces = [(DATA, 0); 1023];
            pieces[1022].1 = 200;
            let mut frames = Tables::new(&guest, TRANSMIT, TABLE, &pieces);
            frames.laps(&guest, 16, || ());
        });
    }
    scene.end();
}

/// The same on the receiving side, where a sender's frames look for a buffer that can be used, and nearly find one.
#[test]
fn receive_buffers_in_very_many_pieces() {
    for mergeable in [false, true] {
        let mut scene = Scene::new();
        for features in with_tables() {
            let features = if mergeable { features.union(NetFeatures::MRG_RXBUF) } else { features };
            for last in [11, 12, 13, 1600] {
                scene.attacked(features, None, |scene, mut guest| {
                    guest.size = 1024;
                    guest.share_memory();
                    guest.start_ring(RECEIVE);
                    let mut pieces = [(DATA, 0); 1023];
                    pieces[1022].1 = last;
                    let mut room = Tables::new(&guest, RECEIVE, TABLE, &pieces);
                    for number in 0..20 {
                        if number % 5 == 0 && (number == 0 || room.is_used(&guest)) {
                            room.offer(&guest);
                        }
                        for _ in 0..32 {
                            scene.friend.send(&frame(number, 1400));
                        }
                        scene.friend.wait_for_used(TRANSMIT, 32);
                    }
                });
            }
        }
        scene.end();
    }
}

/// A TCP segment of 64 KiB behind a net header that wants it cut.
fn to_be_cut(segment_bytes: u16) -> Vec<u8> {
    let mut header = vec![1, 1, 54, 0];
    header.extend_from_slice(&segment_bytes.to_le_bytes());
    header.extend_from_slice(&[34, 0, 16, 0, 0, 0]);
    let mut frame = frame(1, 65_000);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34].fill(0);
    (frame[14], frame[22], frame[23]) = (0x45, 64, 6);
    frame[16..18].copy_from_slice(&(65_000u16 - 14).to_be_bytes());
    frame[34..54].fill(0);
    (frame[46], frame[47]) = (5 << 4, 0x10);
    [header, frame].concat()
}

/// Frames to be cut into the most segments there may be, and into more than that; from one piece and from many, of which
/// each segment would have to be searched for its start.
#[test]
fn frames_to_be_cut_into_a_thousand_segments() {
    const WHOLE: usize = 1 << 20;
    let mut scene = Scene::new();
    for features in with_tables() {
        let features = features.union(NetFeatures::CSUM).union(NetFeatures::HOST_TSO4);
        for (segment_bytes, piece_bytes) in [(64, WHOLE), (1, WHOLE), (1460, WHOLE), (64, 64)] {
            scene.attacked(features, None, |scene, mut guest| {
                guest.size = 256;
                guest.share_memory();
                guest.start_ring(TRANSMIT);
                let whole = to_be_cut(segment_bytes);
                guest.write(DATA, &whole);
                let at = (0..whole.len()).step_by(piece_bytes);
                let pieces: Vec<_> =
                    at.map(|at| (DATA + at as u64, piece_bytes.min(whole.len() - at) as u32)).collect();
                let dropped = scene.drops("offload impossible");
                let refused = |scene: &Scene| {
                    crate::switch_process::drops(&scene.switch.snapshot(), "friend", "offload impossible")
                };
                let before = refused(scene);
                let mut frames = Tables::new(&guest, TRANSMIT, TABLE, &pieces);
                frames.laps(&guest, 4, || {
                    for _ in 0..scene.friend.reclaimed(RECEIVE) {
                        scene.friend.add(RECEIVE, DATA, 1600);
                    }
                });
                assert_eq!(scene.drops("offload impossible"), dropped);
                if segment_bytes == 1 || piece_bytes == 64 {
                    assert_eq!(refused(scene) - before, 4 * 256);
                } else {
                    assert_eq!(refused(scene), before);
                    assert!(passed(&scene.switch.snapshot(), "friend", false) > 64);
                }
                scene.friend.stop_ring(RECEIVE);
                scene.friend.forget_ring(RECEIVE);
                scene.friend.start_ring(RECEIVE);
            });
        }
    }
    scene.end();
}
