//! Descriptors whose `close` waits: no other thread waits with it.
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::VringFd;

use super::scene::Scene;
use crate::switch_process::guest::{Guest, TRANSMIT, plain};
use crate::switch_process::{listens, wait_for};

/// A connection of which closing one end waits until the other has read everything, and it does not.
pub struct Lingering {
    end: Option<OwnedFd>,
    _other: TcpStream,
}

impl Lingering {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut end = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        end.set_nonblocking(true).unwrap();
        let full = loop {
            if let Err(error) = end.write(&[0; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        // A non-blocking socket does not linger.
        end.set_nonblocking(false).unwrap();
        set_socket_linger(&end, Some(Duration::from_secs(3600))).unwrap();
        Lingering { end: Some(end.into()), _other: other }
    }

    /// The only descriptor of it: the thread that closes it waits.
    pub fn take(&mut self) -> OwnedFd {
        self.end.take().unwrap()
    }
}

fn requests() -> [Request; 5] {
    let ring = VringFd { index: TRANSMIT, has_fd: true };
    [
        Request::SetVringCall(ring),
        Request::SetVringKick(ring),
        Request::SetVringErr(ring),
        Request::SetLogFd,
        Request::SetBackendReqFd,
    ]
}

/// The words by which the switch reports such a descriptor.
const TOLD: &str = "may take long to close (socket:[";

#[test]
fn sockets_that_linger() {
    for request in requests() {
        let mut lingering = Lingering::new();
        let mut scene = Scene::new();
        println!("{}", request.rule().name);
        scene.attacked(plain(), Some(TOLD), |scene, mut guest| {
            guest.share_memory();
            guest.start_ring(TRANSMIT);
            scene.switch.paused(|| guest.send_raw(request, vec![lingering.take()]));
            serves_a_neighbour(scene);
            guest.wait_until_closed();
            scene.bystanders.assert_undisturbed("a socket that lingers");
        });
        scene.end();
    }
}

/// The switch has received them, and the rest of their message never comes.
#[test]
fn a_socket_that_lingers_with_half_a_message() {
    let mut lingering = Lingering::new();
    let mut scene = Scene::new();
    scene.attacked(plain(), None, |scene, guest| {
        let half = &Request::SetLogFd.to_message(vec![]).to_bytes()[..5];
        scene.switch.paused(|| send_beside(&guest, half, lingering.take()));
        drop(guest);
        serves_a_neighbour(scene);
    });
    scene.end();
}

/// The switch closes the connection before it has received them.
#[test]
fn a_socket_that_lingers_in_a_message_that_is_never_read() {
    let mut lingering = Lingering::new();
    let mut scene = Scene::new();
    scene.attacked(plain(), None, |scene, guest| {
        scene.switch.paused(|| {
            // A header of no version ends the connection; what comes behind it is not read.
            rustix::net::send(&guest.connection, &[0xff; 12], SendFlags::empty()).unwrap();
            send_beside(&guest, &[0], lingering.take());
        });
        serves_a_neighbour(scene);
    });
    scene.end();
}

/// The control thread is there for others. No signal requests this: a signal would end the wait for the socket.
fn serves_a_neighbour(scene: &mut Scene) {
    scene.friend.hang_up();
    scene.friend = Guest::running(&scene.path_of("friend"), plain());
}

/// To be called while the switch stands still: its reference is then the last one, and not this test's.
fn send_beside(guest: &Guest, bytes: &[u8], fd: OwnedFd) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&guest.connection, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// A port whose front-ends do it again and again is ended, and nothing else is.
#[test]
fn a_port_with_too_many_of_them_is_ended() {
    let mut scene = Scene::new();
    let mut lingering = Vec::new();
    let ended = |scene: &Scene| {
        scene.switch.logged().iter().any(|line| line.starts_with("victim: ") && line.contains("do not close"))
    };
    wait_for("the port's end", || {
        if !ended(&scene) && listens(&scene.path()) {
            let mut one = Lingering::new();
            let (end, path) = (one.take(), scene.path());
            // No file is sent while the switch stands still: a signal ends the wait of those that the switch has. So
            // the last reference may be this thread's, which waits then.
            std::thread::spawn(move || {
                Guest::try_connect_bare(&path).map(|mut guest| guest.send_raw(Request::SetLogFd, vec![end]))
            });
            lingering.push(one);
            std::thread::sleep(Duration::from_millis(100));
        }
        ended(&scene).then_some(())
    });
    println!("the port was ended after {} sockets that linger", lingering.len());
    assert!(lingering.len() > 4, "{}", lingering.len());
    scene.bystanders.assert_undisturbed("sockets that linger, one after the other");
    scene.bystanders.all_is_well();
    let took = scene.switch.terminate();
    println!("SIGTERM beside sockets that linger: the switch ended after {took:?}");
}
