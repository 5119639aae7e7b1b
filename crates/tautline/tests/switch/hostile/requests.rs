//! Requests that are allowed, far too many of them.
use std::time::{Duration, Instant};

use vhost_user::codec::frontend_request::{FrontendRequest as Request, MacAddress};

use super::scene::Scene;
use crate::switch_process::drops;
use crate::switch_process::guest::plain;

/// Each request causes a broadcast. The friend posts no buffers, so what reaches it is counted there as dropped.
#[test]
fn announcements_without_end() {
    let mut scene = Scene::new();
    let flooded = |scene: &Scene| drops(&scene.switch.snapshot(), "friend", "receiver full");
    let (before, start) = (flooded(&scene), Instant::now());
    let mut asked = 0;
    scene.attacked(plain(), None, |_, mut guest| {
        while start.elapsed() < Duration::from_millis(500) {
            for _ in 0..100 {
                asked += 1;
                guest.ask(Request::SendRarp(MacAddress([2, 0, 0, 0, 0, 0x99])), vec![]);
            }
        }
    });
    let (passed, windows) = (flooded(&scene) - before, start.elapsed().as_secs() + 2);
    assert!(scene.switch.logged().iter().any(|line| line.contains("too many of them (SEND_RARP)")));
    println!("{passed} of {asked} announcements were passed on");
    assert!(asked > 200 && passed >= 32 && passed <= 32 * windows, "{passed} of {asked}");
    scene.end();
}
