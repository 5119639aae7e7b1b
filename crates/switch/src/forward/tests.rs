//! Frames that a program edits, or of which it looks at more than the snapshots, to queues in memory.
use std::sync::Arc;

use pipeline::{Announced, Flooded, Now, Reach};
use port::in_memory::testing::Collector;
use port::in_memory::{QueueOptions, queue};
use virtio::net::MacAddress;

use super::*;
use crate::QueueId;
use crate::shared_queue::SharedQueue;
use crate::worker_counters::WorkerCounters;

const TAG: [u8; 4] = [0x81, 0, 0, 5];
const PUSH: HeadEdit<'static> = HeadEdit { at: 12, removed: 0, inserted: &TAG };

#[derive(Debug)]
struct Deciding(fn(&mut dyn Output));

impl Program for Deciding {
    fn run(&self, _batch: &FrameBatch, _now: Now<'_>, output: &mut dyn Output) -> Flooded {
        (self.0)(output);
        Flooded::default()
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Nowhere
    }

    fn announce(&self, _address: MacAddress) -> Announced {
        Announced::NotAllowed
    }
}

fn frame() -> Vec<u8> {
    (0..200).collect()
}

fn tagged() -> Vec<u8> {
    let mut frame = frame();
    frame.splice(12..12, TAG);
    frame
}

type Frames = Vec<Vec<u8>>;

/// The frames that each of two ports gets from a burst of one frame, and the number of dropped frames for each reason.
fn forwarded(program: fn(&mut dyn Output)) -> ([Frames; 2], Outcome, Vec<(DropReason, u64)>) {
    let mut tx_queues = TxQueues::new(2, 32, Arc::new(WorkerCounters::new())).unwrap();
    let mut collectors = [0, 1].map(|port| {
        let (sink, source) = queue(QueueOptions::default()).unwrap();
        let id = QueueId { port: PortId(port), pair: 0 };
        tx_queues.add([(id, SharedQueue::<dyn frame::Sink>::new(Box::new(sink)))].into_iter());
        Collector::from(source)
    });
    let counters = QueueCounters::default();
    let forwarder = Forwarder {
        key: &Key::random(),
        program: &Deciding(program),
        tx_queues: &mut tx_queues,
        counters: &counters,
    };
    let outcome = forwarder.forward(&FrameBatch::of_frame(&frame()).unwrap());
    let got = collectors
        .each_mut()
        .map(|collector| std::iter::from_fn(|| collector.take()).map(|(_, frame)| frame).collect::<Vec<_>>());
    (got, outcome, counters.counts().drops)
}

#[test]
fn each_port_gets_the_frame_with_the_head_that_is_for_it() {
    let (got, outcome, drops) = forwarded(|output| {
        assert!(output.send(PortId(0), 0..1));
        output.edit(0..1, &PUSH);
        assert!(output.send_edited(PortId(1)) && output.send_edited(PortId(0)));
    });
    assert_eq!(got, [vec![frame(), tagged()], vec![tagged()]]);
    assert_eq!((outcome.copies, drops), (3, vec![]));
}

/// More different heads for one frame than there are places for them.
#[test]
fn a_frame_may_have_any_number_of_heads() {
    let (got, outcome, drops) = forwarded(|output| {
        for first in 0..20 {
            output.edit(0..1, &HeadEdit { at: 0, removed: 1, inserted: &[first] });
            assert!(output.send_edited(PortId(0)));
        }
    });
    let firsts: Vec<u8> = got[0].iter().map(|frame| frame[0]).collect();
    assert_eq!(firsts, (0..20).collect::<Vec<_>>());
    assert_eq!((outcome.copies, drops), (20, vec![]));
}

#[test]
fn a_frame_whose_window_was_extended_is_delivered_whole() {
    let (got, outcome, drops) = forwarded(|output| {
        assert_eq!(output.window(0, 1000), frame());
        assert!(!output.send_all(PortId(0)), "its window is delivered, not what the sender has there now");
        assert!(output.send(PortId(0), 0..1));
        output.edit(0..1, &PUSH);
        assert!(output.send_edited(PortId(1)));
    });
    assert_eq!((got, outcome.copies, drops), ([vec![frame()], vec![tagged()]], 2, vec![]));
}

#[test]
fn what_cannot_be_edited_is_counted_and_goes_nowhere() {
    let (got, _, drops) = forwarded(|output| {
        output.edit(0..1, &HeadEdit { at: 64, removed: 1, inserted: &[] });
        assert!(output.send_edited(PortId(0)));
    });
    assert_eq!((got, drops), ([vec![], vec![]], vec![(DropReason::TooShort, 1)]));
}
