//! Single frames between a port and the kernel behind its interface.
#![allow(dead_code, reason = "each test file uses its part")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use frame::{Sink, Source};
use port::in_memory::testing::Injector;
use port::in_memory::{QueueOptions, queue};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, recv};
use virtio::net::NetHeader;

use crate::namespace::Namespace;
use crate::packet_socket;

pub const LIMIT: Duration = Duration::from_secs(30);
/// IEEE 802 local experimental: the kernel itself sends nothing of the kind.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

pub fn frame(bytes: usize, number: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0x02];
    frame.extend(ETHERTYPE);
    frame.extend((14..bytes).map(|i| (i as u8).wrapping_mul(7).wrapping_add(number)));
    frame
}

/// A socket for all frames of an interface, as they are on the wire.
pub fn packet_socket(namespace: &Namespace, interface: &str) -> OwnedFd {
    let interface = interface.to_owned();
    namespace.run(move || packet_socket::packet_socket(&interface))
}

pub fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&left.try_into().unwrap())).unwrap() > 0
}

/// The next frame of our type.
pub fn receive(socket: &OwnedFd) -> Vec<u8> {
    let deadline = Instant::now() + LIMIT;
    let mut bytes = vec![0; 70_000];
    loop {
        assert!(readable(socket.as_fd(), deadline), "no frame came");
        let (len, _) = recv(socket, &mut bytes, RecvFlags::empty()).unwrap();
        if bytes[12..14] == ETHERTYPE {
            return bytes[..len].to_vec();
        }
    }
}

/// Frames with headers, as a sink is handed them.
pub fn accept(sink: &mut dyn Sink, frames: &[(NetHeader, Vec<u8>)]) {
    let (injecting, mut source) = queue(QueueOptions::default()).unwrap();
    let mut injector = Injector::from(injecting);
    assert!(frames.iter().all(|(header, frame)| injector.inject(*header, frame)));
    let batch = source.rx_burst(frames.len()).unwrap();
    let all: Vec<u16> = (0..batch.len() as u16).collect();
    assert_eq!(all.len(), frames.len());
    sink.accept(batch, &all).unwrap();
    source.release();
}

pub fn bytes(frame: frame::Frame<'_>) -> Vec<u8> {
    let mut bytes = frame.snapshot().to_vec();
    let (pieces, before) = frame.slices();
    let mut rest = vec![0; frame.len_bytes() - bytes.len()];
    memory::SgList::new(pieces).skip(before + bytes.len()).read(&mut rest);
    bytes.extend(rest);
    bytes
}

/// The next frames of our type that a source lends, at least one.
pub fn lend(source: &mut dyn Source) -> Vec<Vec<u8>> {
    lend_if(source, |frame| frame[12..14] == ETHERTYPE)
}

/// The next frames of this kind that a source lends, at least one.
pub fn lend_if(source: &mut dyn Source, ours: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if !source.sleep() {
            assert!(readable(source.wake_fd().unwrap(), deadline), "no frame came");
        }
        source.wake();
        let frames = source.rx_burst(64).unwrap().frames().map(bytes);
        let frames: Vec<_> = frames.filter(|frame| ours(frame)).collect();
        source.release();
        if !frames.is_empty() {
            return frames;
        }
    }
}
