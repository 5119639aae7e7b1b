//! Kicks and calls: a side that sleeps gets them, a side that polls does not.
use frame::Side;
use port::Port;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::VringFd;

use crate::common::guest::{Guest, Host, feature_sets, is_readable};
use crate::common::{self, frame};
use crate::{forward_all, plain, two_guests};

#[test]
fn a_sleeping_source_is_woken_by_a_kick_and_by_nothing_else() {
    for features in feature_sets() {
        let mut host = Host::new(|_| {});
        let mut guest = Guest::running(&mut host, features);
        // While the port polls, no kick is asked for.
        assert!(!host.context.sources.get_mut(&0).unwrap().sleep());
        host.context.sources.get_mut(&0).unwrap().wake();
        guest.send(1, &frame(1, 60));
        let source = host.context.sources.get_mut(&0).unwrap();
        assert!(!is_readable(source.wake_fd().unwrap()), "{features}: kicked though it polls");
        assert!(source.sleep(), "{features}: something is there already");
        source.wake();
        assert_eq!(source.rx_burst(32).unwrap().len(), 1);
        source.release();
        assert!(!source.sleep());
        assert!(!is_readable(source.wake_fd().unwrap()));
        guest.send(1, &frame(2, 60));
        let source = host.context.sources.get_mut(&0).unwrap();
        assert!(is_readable(source.wake_fd().unwrap()), "{features}: the sleeper was not kicked");
        source.wake();
        assert!(!is_readable(source.wake_fd().unwrap()), "{features}: the kick is still there");
        assert_eq!(source.rx_burst(32).unwrap().len(), 1);
        source.release();
        assert_eq!(guest.used(1).len(), 2);
        assert_eq!(host.port.counters(0, Side::FromGuest).unwrap().counts().kicks, 1, "{features}");
    }
}

#[test]
fn a_driver_that_polls_is_not_called() {
    let (mut left, mut right, mut alice, mut bob) = two_guests(plain());
    bob.post(0, 10, 1600);
    for queue in alice.queues.values_mut().chain(bob.queues.values_mut()) {
        queue.driver.disable_calls();
    }
    alice.send(1, &frame(1, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert!(!is_readable(&alice.queues[&1].call) && !is_readable(&bob.queues[&0].call));
    assert_eq!(bob.received(0).len(), 1);
    assert!(!bob.queues.get_mut(&0).unwrap().driver.enable_calls());
    alice.send(1, &frame(2, 60));
    assert_eq!(forward_all(&mut left, &mut right), 1);
    assert!(is_readable(&bob.queues[&0].call));
    let counts = right.port.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.bytes), (2, 120));
    assert_eq!((counts.notifications, counts.suppressed, counts.kicks), (1, 1, 0));
    // Another eventfd, or none any more.
    let call = common::guest::event_fd();
    let fd = VringFd { index: 0, has_fd: true };
    bob.ask(&mut right, Request::SetVringCall(fd), vec![call.try_clone().unwrap()]);
    alice.send(1, &frame(3, 60));
    forward_all(&mut left, &mut right);
    assert!(is_readable(&call));
    bob.ask(&mut right, Request::SetVringCall(VringFd { has_fd: false, ..fd }), vec![]);
    alice.send(1, &frame(4, 60));
    forward_all(&mut left, &mut right);
    assert_eq!(right.port.counters(0, Side::ToGuest).unwrap().counts().notifications, 2);
}

/// QEMU starts a ring with an eventfd that no thread reads, and passes the guest's eventfd afterwards.
#[test]
fn what_was_notified_by_another_eventfd_is_notified_again() {
    for features in feature_sets() {
        let (mut left, mut right, mut alice, mut bob) = two_guests(features);
        bob.post(0, 10, 1600);
        assert!(!bob.queues.get_mut(&0).unwrap().driver.enable_calls());
        alice.send(1, &frame(1, 60));
        assert_eq!(forward_all(&mut left, &mut right), 1);
        // The driver has not seen it, so with an event index it would hear of no later one.
        let call = common::guest::event_fd();
        let fd = VringFd { index: 0, has_fd: true };
        bob.ask(&mut right, Request::SetVringCall(fd), vec![call.try_clone().unwrap()]);
        assert!(is_readable(&call), "{features}");
    }
}

/// A ring that is not served yet leaves its frames where they are; its worker must not wake for their kick for ever.
#[test]
fn a_kick_before_the_ring_is_enabled_wakes_once() {
    for features in feature_sets() {
        let mut host = Host::new(|_| {});
        let mut guest = Guest::connect(&mut host, features);
        guest.share_memory(&mut host);
        guest.prepare_ring(&mut host, 1);
        guest.kick_off(&mut host, 1);
        guest.send(1, &frame(1, 60));
        rustix::io::write(&guest.queues[&1].kick, &1u64.to_ne_bytes()).unwrap();
        let source = host.context.sources.get_mut(&0).unwrap();
        assert!(!source.sleep(), "{features}");
        assert!(is_readable(source.wake_fd().unwrap()), "{features}");
        source.wake();
        assert!(source.rx_burst(32).unwrap().is_empty(), "{features}");
        assert!(!source.sleep());
        assert!(!is_readable(source.wake_fd().unwrap()), "{features}: it never sleeps");
        source.wake();
        guest.enable(&mut host, 1, true);
        assert_eq!(host.context.sources.get_mut(&0).unwrap().rx_burst(32).unwrap().len(), 1);
    }
}
