//! Eventfds that are shared with a peer: each holder can set the flags and the counter at any time.
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use port::vhost_user::{VhostUser, VhostUserOptions};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, inotify};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use traffic::rig::TestRig;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::VringFd;
use virtio::NetFeatures;
use virtqueue::Piece;

use super::middle::Middle;
use super::scene::Scene;
use crate::switch_process::bystanders::Bystanders;
use crate::switch_process::guest::{DATA, Guest, RECEIVE, TRANSMIT, frame, layouts, plain};
use crate::switch_process::{Sockets, SwitchProcess, connect, description, passed, wait_for};

/// The ring behind those of the first pair (VIRTIO 1.3 §5.1.2).
const CONTROL: u8 = 2;

/// The next plain write to it waits for a reader, and there is none.
fn fill(fd: impl AsFd) {
    let flags = fcntl_getfl(&fd).unwrap();
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
    let _ = rustix::io::read(&fd, &mut [0; 8]);
    rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    fcntl_setfl(&fd, flags - OFlags::NONBLOCK).unwrap();
}

/// Whether the eventfd was notified since it was filled: that saturates its counter (eventfd(2): POLLERR).
fn is_saturated(fd: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    polled[0].revents().contains(PollFlags::ERR)
}

/// A worker's calls, of both queues and layouts.
#[test]
fn calls_that_would_wait() {
    let mut scene = Scene::new();
    for features in layouts() {
        scene.attacked(features, None, |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(RECEIVE);
            guest.start_ring(TRANSMIT);
            guest.post(64);
            for (number, index) in (0..).zip([TRANSMIT, RECEIVE, TRANSMIT, RECEIVE]) {
                fill(guest.call_of(index));
                if index == TRANSMIT {
                    guest.send(&frame(number, 300));
                } else {
                    scene.friend.send(&frame(number, 300));
                    scene.friend.wait_for_used(TRANSMIT, 1);
                }
                guest.wait_for_used(index, 1);
                wait_for("a call", || is_saturated(guest.call_of(index)).then_some(()));
                scene.bystanders.assert_undisturbed("a call that would wait");
            }
        });
    }
    scene.end();
}

/// The control queue's call is the control thread's. It still hears SIGTERM.
#[test]
fn a_call_of_the_control_queue_that_would_wait() {
    let mut scene = Scene::new();
    let features = plain().union(NetFeatures::CTRL_VQ);
    let command = |guest: &mut Guest| {
        guest.share_memory();
        guest.start_ring(CONTROL);
        fill(guest.call_of(CONTROL));
        // A command of one byte is none: it is refused, and its end is called.
        guest.add_chain(CONTROL, &[Piece { address: DATA, len: 1 }], &[Piece { address: DATA + 64, len: 1 }]);
        guest.kick_anyway(CONTROL);
        guest.wait_for_used(CONTROL, 1);
        wait_for("a call", || is_saturated(guest.call_of(CONTROL)).then_some(()));
    };
    scene.attacked(features, Some("control command refused"), |scene, mut guest| {
        command(&mut guest);
        scene.bystanders.assert_undisturbed("a call of the control queue that would wait");
        scene.switch.snapshot();
    });
    // Again, and the switch is told to end in the middle of it.
    let mut guest = Guest::connect(&scene.path(), features);
    command(&mut guest);
    scene.bystanders.all_is_well();
    let took = scene.switch.terminate();
    println!("SIGTERM beside a call that would wait: the switch ended after {took:?}");
    assert!(took < Duration::from_secs(4), "SIGTERM was heard after {took:?}");
}

/// A back-end is no better than a front-end: it fills the kicks of the switch's own driver.
#[test]
fn kicks_that_would_wait() {
    let sockets = Sockets::new();
    let middle = Middle::new(sockets.path("driver"), sockets.path("device"));
    let mut rig = TestRig::new();
    let device = VhostUser::new(VhostUserOptions::new(sockets.path("device"))).unwrap();
    rig.attach("device", Box::new(device)).unwrap();
    let ports = ["friend", "a", "b"].map(|name| sockets.port(name, "vhost-user", "")).concat();
    let driver = sockets.port("driver", "virtio-user", "").to_vec();
    let wires = [connect("driver", "friend"), connect("a", "b")].concat();
    let mut switch = SwitchProcess::start(&[ports, driver, wires].concat());
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let mut friend = Guest::running(&sockets.path("friend"), plain());
    wait_for("the driver's queues", || {
        rig.attend(Duration::ZERO).unwrap();
        description(&switch.snapshot(), "driver").contains("connected, 1").then_some(())
    });
    let kick: OwnedFd = middle.kick_of(TRANSMIT);
    for number in 0..4 {
        // The device asks for a kick, and then takes what came.
        let source = rig.end(0).sources().next().unwrap();
        assert!(!source.sleep());
        fill(&kick);
        friend.send(&frame(number, 300));
        friend.wait_for_used(TRANSMIT, 1);
        wait_for("a kick", || is_saturated(&kick).then_some(()));
        bystanders.assert_undisturbed("a kick that would wait");
        wait_for("the frame", || (source.rx_burst(64).unwrap().len() == 1).then_some(()));
        source.release();
    }
    assert_eq!(passed(&switch.snapshot(), "driver", false), 4);
    bystanders.all_is_well();
    let took = switch.terminate();
    println!("SIGTERM beside a kick that would wait: the switch ended after {took:?}");
    assert!(took < Duration::from_secs(4), "SIGTERM was heard after {took:?}");
}

/// Anonymous inodes of other kinds: a write to those is no notification, or waits.
#[test]
fn anonymous_inodes_that_are_no_eventfds() {
    use std::os::fd::AsRawFd;
    let others = || -> Vec<OwnedFd> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap();
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        vec![epoll, timer, watch]
    };
    let mut scene = Scene::new();
    for fd in others() {
        let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        println!("{}", name.display());
        scene.attacked(
            plain(),
            Some("told no: SET_VRING_CALL: call: the descriptor is no eventfd"),
            |_, mut guest| {
                guest.share_memory();
                guest.start_ring(TRANSMIT);
                let call = Request::SetVringCall(VringFd { index: TRANSMIT, has_fd: true });
                guest.must_be_refused(call, vec![fd]);
            },
        );
    }
    scene.attacked(plain(), None, |_, mut guest| {
        guest.share_memory();
        guest.start_ring(TRANSMIT);
        let call = Request::SetVringCall(VringFd { index: TRANSMIT, has_fd: true });
        guest.ask(call, vec![eventfd(0, EventfdFlags::empty()).unwrap()]);
    });
    scene.end();
}
