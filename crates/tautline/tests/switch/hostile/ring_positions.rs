//! Where a ring stands once it is found malformed, and in-flight buffers over and over.
use std::os::fd::AsFd;

use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::Inflight;
use vhost_user::session::frontend::Answer;
use vhost_user::vring::{PackedPosition, VringBase};
use virtio::Features;

use super::scene::Scene;
use crate::switch_process::guest::{DATA, DATA_BYTES, RECEIVE, TRANSMIT, frame, layouts, plain};
use crate::switch_process::{description, wait_for};

/// GET_VRING_BASE says how far the ring was served and not where it began, though the queue is gone by then.
#[test]
fn a_malformed_ring_says_where_it_stands() {
    let mut scene = Scene::new();
    for (features, index) in layouts().into_iter().flat_map(|features| [(features, 0), (features, 1)]) {
        scene.attacked(features, Some("outside the shared memory"), |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(index);
            // More than a lap.
            let served = 70u16;
            for number in 0..u32::from(served) {
                if index == RECEIVE {
                    guest.post(1);
                    scene.friend.send(&frame(number, 300));
                    scene.friend.wait_for_used(TRANSMIT, 1);
                } else {
                    guest.send(&frame(number, 300));
                }
                guest.wait_for_used(index, 1);
            }
            guest.add(index, DATA + DATA_BYTES - 100, 101);
            if index == RECEIVE {
                scene.friend.send(&frame(1, 300));
                scene.friend.wait_for_used(TRANSMIT, 1);
            }
            wait_for("the ring's end", || {
                description(&scene.switch.snapshot(), "victim").contains("1 malformed").then_some(())
            });
            let at = PackedPosition { slot: served - guest.size, wrap: false };
            let expected = match features.contains(Features::RING_PACKED) {
                true => VringBase::Packed { available: at, used: at },
                false => VringBase::Split { next_available: served },
            };
            assert_eq!(guest.stop_ring(index), expected);
        });
    }
    scene.end();
}

fn mappings(scene: &Scene) -> usize {
    std::fs::read_to_string(format!("/proc/{}/maps", scene.switch.id())).unwrap().lines().count()
}

/// CVE-2020-10726: GET_INFLIGHT_FD again and again, each with memory and a descriptor that stay; and
/// SET_INFLIGHT_FD, each with a mapping.
#[test]
fn in_flight_buffers_do_not_pile_up() {
    let mut scene = Scene::new();
    scene.attacked(plain(), None, |scene, mut guest| {
        guest.share_memory();
        let asked = Inflight { size_bytes: 0, offset: 0, queue_count: 2, queue_size: 256 };
        let mut exchange = |times: usize| {
            for _ in 0..times {
                let Some(Answer::Inflight(given, file)) = guest.ask(Request::GetInflightFd(asked), vec![])
                else {
                    panic!("no in-flight buffer")
                };
                guest.ask(Request::SetInflightFd(given), vec![file.as_fd().try_clone_to_owned().unwrap()]);
            }
        };
        exchange(2);
        let before = (scene.switch.open_fds(), mappings(scene));
        exchange(300);
        let after = (scene.switch.open_fds(), mappings(scene));
        println!("descriptors and mappings: {before:?}, 300 in-flight buffers later {after:?}");
        assert!(after.0 <= before.0 + 2 && after.1 <= before.1 + 4, "{before:?} became {after:?}");
    });
    scene.end();
}
