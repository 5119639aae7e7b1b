//! No bytes of a frame make the tables panic, with and without the cache, and what comes out has the length that is said.
#[path = "../../flow/tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another test uses the rest")]
#[path = "openvswitch/flows.rs"]
mod flows;
#[path = "openvswitch/frames.rs"]
mod frames;
#[path = "openvswitch/labelled.rs"]
mod labelled;
mod ports;

use common::Random;
use flow::{Field, Flow, Key};
use flow_tables::{Cache, Change, HeaderWindow, Limits, Outcome, Tables};
use frames::below;
use ports::Ports;

/// A frame with wrong bytes, cut at any place.
fn broken(random: &mut Random) -> Vec<u8> {
    let mut frame = if below(random, 3) == 0 { labelled::frame(random) } else { frames::frame(random) };
    for _ in 0..below(random, 4) {
        let at = below(random, frame.len().min(90));
        frame[at] = random.next() as u8;
    }
    if below(random, 2) == 0 {
        frame.truncate(below(random, frame.len() + 1));
    }
    frame
}

#[test]
fn no_frame_panics_and_lengths_are_true() {
    let mut random = Random(71);
    let (mut outcome, mut cache) = (Outcome::default(), Cache::new(64, &Key::ZERO));
    let mut delivered = 0;
    for _ in 0..100 {
        let mut tables = Tables::new(of_tags(&mut random), 7, Limits::default());
        flows::groups().into_iter().for_each(|group| tables.set_group(group).unwrap());
        for text in flows::flows(&mut random).into_iter().chain(labelled::flows(&mut random)) {
            tables.change(Change::Add(Flow::parse(&text).unwrap()), 0).unwrap();
        }
        for _ in 0..300 {
            let frame = broken(&mut random);
            // The window may end before the frame does.
            let window = &frame[..below(&mut random, frame.len() + 1).max(frame.len().min(64))];
            let mut metadata = Key::ZERO;
            metadata.set(Field::InPortOxm, 1 + u128::from(random.next() % 4));
            if below(&mut random, 2) == 0 {
                tables.execute(window, frame.len(), &metadata, &mut Ports, &mut outcome);
            } else {
                let mut start = HeaderWindow::new(window, frame.len(), tables.max_tags());
                start.leave(
                    Some(below(&mut random, frame.len() + 9)),
                    Some(1 + below(&mut random, 70)).filter(|bytes| bytes % 2 == 0),
                );
                cache.execute(&tables, &mut start, &mut Ports, &mut outcome);
            }
            let behind = frame.len() - window.len().min(flow::WINDOW_BYTES);
            for delivery in &outcome.deliveries {
                let header = outcome.header(&delivery.header);
                assert_eq!(header.len() + behind, delivery.header.frame_bytes);
                delivered += 1;
            }
        }
    }
    assert!(delivered > 10_000, "{delivered}");
}

fn of_tags(random: &mut Random) -> u8 {
    1 + below(random, 2) as u8
}
