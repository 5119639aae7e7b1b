//! Queues that never come back from a worker.
use std::time::Instant;

use frame::{QueueError, Side};
use port::Port;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{VringFd, VringState};
use vhost_user::socket::SocketError;

use crate::common::guest::{Guest, Host, event_fd, feature_sets};
use crate::common::{deadline, frame};
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

/// The port requested the queue when its worker was abandoned, so no message reports the loss. An answer to
/// GET_VRING_BASE would have to be made up.
#[test]
fn a_queue_that_is_lost_while_it_is_asked_for_is_noticed() {
    for side in [Side::FromGuest, Side::ToGuest] {
        let index = u8::from(side == Side::FromGuest);
        let call = Request::SetVringCall(VringFd { index, has_fd: true });
        let base = Request::GetVringBase(VringState { index: index.into(), num: 0 });
        for (request, fds) in [(call, vec![event_fd()]), (base, vec![])] {
            let mut host = Host::new(|_| {});
            let mut alice = Guest::running(&mut host, plain());
            match side {
                Side::FromGuest => drop(host.context.sources.remove(&0)),
                Side::ToGuest => drop(host.context.sinks.remove(&0)),
            }
            let message = alice.session.request(request, fds).unwrap();
            alice.connection.try_send(message).unwrap();
            let until = deadline();
            let answer = loop {
                host.turn();
                if let Some(answer) = alice.connection.try_receive().transpose() {
                    break answer;
                }
                assert!(Instant::now() < until, "nothing came of it");
            };
            assert!(matches!(answer, Err(SocketError::Closed)), "{answer:?}");
            let logged = host.context.logged.last().unwrap();
            assert!(logged.contains("lost: its worker does not give it back"), "{logged}");
            assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
        }
    }
}

/// The position is not handed over either: the other process would continue at a wrong place.
#[test]
fn a_queue_that_is_lost_at_a_take_over_takes_its_connection_along() {
    for side in [Side::FromGuest, Side::ToGuest] {
        for is_resumed in [false, true] {
            let mut host = Host::new(|_| {});
            let mut alice = Guest::running(&mut host, plain());
            let lose = |host: &mut Host| match side {
                Side::FromGuest => drop(host.context.sources.remove(&0)),
                Side::ToGuest => drop(host.context.sinks.remove(&0)),
            };
            lose(&mut host);
            let state = host.port.hand_over(&mut host.context).unwrap().unwrap();
            assert_eq!(state.words["peer"], serde_json::Value::Null, "{}", state.words);
            let logged = host.context.logged.last().unwrap();
            assert!(logged.contains("lost: its worker does not give it back"), "{logged}");
            assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
            assert!(alice.is_closed(&mut host));
            if is_resumed {
                host.port.resume(&mut host.context);
                Guest::running(&mut host, plain());
            }
        }
    }
}
