//! Policing of `ovs-vsctl`, checked by frames.
use super::Scene;
use super::vlans::{Stations, frame};
use crate::switch_process::drops;
use crate::switch_process::guest::TRANSMIT;

const FRAME_BYTES: usize = 1500;

/// So low a rate that what it lets pass while a test runs is a few frames.
const RATE: &str = "ingress_policing_rate=8";

#[test]
fn the_burst_of_a_row_passes_and_little_more() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b"]);
    let mut frame = frame(0, &[]);
    frame.resize(FRAME_BYTES, 0);
    let policed = || drops(&scene.switch.snapshot(), "a", "policed") as usize;
    // Two of the largest frames, where no burst is asked for.
    for (burst_kbit, least, most) in [(2000, 166, 176), (0, 80, 97), (4000, 333, 343)] {
        scene.vsctl(&format!("set Interface a {RATE} ingress_policing_burst={burst_kbit}"));
        let (before, sent) = (policed(), 400);
        for _ in 0..sent {
            stations.0[0].send(&frame);
            stations.0[0].wait_for_used(TRANSMIT, 1);
        }
        let passed = sent - (policed() - before);
        assert!((least..most).contains(&passed), "{burst_kbit} kbit: {passed} of {sent} passed");
    }
    scene.vsctl("set Interface a ingress_policing_burst=5000000");
    assert!(scene.columns("a", "error").contains("up to 4gbit"));
    scene.switch.end();
}
