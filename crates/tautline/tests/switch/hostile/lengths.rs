//! Frames that are longer than any packet.
use frame::LARGEST_FRAME_BYTES;
use virtio::Features;
use virtqueue::Piece;

use super::scene::{Scene, attacked_through};
use super::tables::Tables;
use crate::switch_process::guest::{DATA, HEADER, RECEIVE, TRANSMIT, frame, layouts};

/// An innocent guest posts a large buffer and gets what an Ethernet can carry, not what another guest makes up.
#[test]
fn no_frame_is_longer_than_the_longest_packet_with_its_tags() {
    attacked_through(&[TRANSMIT], None, |scene, mut guest, round| {
        let sent = frame(9, LARGEST_FRAME_BYTES);
        guest.write(DATA, &[0; HEADER]);
        guest.write(DATA + HEADER as u64, &sent);
        let room = DATA + 0x20_0000;
        scene.friend.add(RECEIVE, room, 0x10_0000);
        let whole = (HEADER + LARGEST_FRAME_BYTES) as u32;
        for len in [whole + 1, 512 << 10, 2 << 20] {
            guest.add(TRANSMIT, DATA, len);
        }
        // 64 KiB each, so that no piece is too long.
        let pieces = [Piece { address: DATA, len: 0x1_0000 }; 33];
        guest.add_chain(TRANSMIT, &pieces, &[]);
        guest.wait_for_used(TRANSMIT, 4);
        scene.wait_for_drops("too long", 4 * round);
        guest.add(TRANSMIT, DATA, whole);
        let used = scene.friend.wait_for_used(RECEIVE, 1);
        assert_eq!((used.len(), used[0].written), (1, whole));
        assert_eq!(scene.friend.read(room + HEADER as u64, LARGEST_FRAME_BYTES), sent);
        guest.wait_for_used(TRANSMIT, 1);
    });
}

/// Two guests work together: one sends frames of 2 GiB, in tables whose entries are all the same 2 MiB, and the other
/// has room for them.
#[test]
fn frames_of_gigabytes_between_accomplices() {
    for features in layouts() {
        let features = features.union(Features::RING_INDIRECT_DESC);
        let mut scene = Scene::with_friend(features);
        let buffers = [(DATA, 2 << 20); 1023];
        let at = DATA + 0x30_0000;
        let mut room = Tables::new(&scene.friend, RECEIVE, at, &buffers);
        room.offer(&scene.friend);
        scene.attacked(features, None, |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            guest.write(DATA, &[0; HEADER]);
            guest.write(DATA + HEADER as u64, &frame(1, 60));
            let mut frames = Tables::new(&guest, TRANSMIT, at, &buffers);
            frames.laps(&guest, 4, || ());
            scene.bystanders.assert_undisturbed("frames of gigabytes");
            scene.wait_for_drops("too long", 4 * u64::from(guest.size));
            restart(scene, features);
        });
        scene.end();
    }
}

/// The friend's receiveq goes on with ordinary buffers.
fn restart(scene: &mut Scene, features: Features) {
    assert_eq!(
        scene.friend.features.contains(Features::RING_PACKED),
        features.contains(Features::RING_PACKED)
    );
    scene.friend.stop_ring(RECEIVE);
    scene.friend.forget_ring(RECEIVE);
    scene.friend.start_ring(RECEIVE);
}
