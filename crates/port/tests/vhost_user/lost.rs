//! Queues that never come back from a worker.
use port::{Port, QueueError, Side};

use crate::common::frame;
use crate::common::guest::{Guest, Host, feature_sets};
use crate::{forward_all, plain};

/// Where the queue stands is lost with it, so the front-end has to begin anew; the other queues come back.
#[test]
fn a_front_end_whose_queue_is_lost_is_disconnected_and_may_come_back() {
    for features in feature_sets() {
        for side in [Side::FromGuest, Side::ToGuest] {
            let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
            let mut bob = Guest::running(&mut right, plain());
            let mut alice = Guest::running(&mut left, features);
            // As it is with a thread that was given up.
            let lost = (
                (side == Side::FromGuest).then(|| left.context.sources.remove(&0)),
                (side == Side::ToGuest).then(|| left.context.sinks.remove(&0)),
            );
            left.port.stopped(0, side, QueueError::Lost("as told".to_owned()), &mut left.context);
            assert!(left.context.sources.is_empty() && left.context.sinks.is_empty());
            assert!(alice.is_closed(&mut left));
            let logged = left.context.logged.last().unwrap();
            assert!(logged.contains("lost: as told; disconnected"), "{logged}");

            let mut alice = Guest::running(&mut left, features);
            bob.post(0, 8, 1600);
            alice.send(1, &frame(1, 60));
            assert_eq!(forward_all(&mut left, &mut right), 1);
            assert_eq!(bob.received(0)[0].1, frame(1, 60));
            drop(lost);
        }
    }
}
