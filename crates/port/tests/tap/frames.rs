//! Single frames, both ways, and what the kernel refuses.
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, socket};
use port::in_memory::testing::Injector;
use port::in_memory::{QueueOptions, queue};
use port::spec::Spec;
use port::tap::{Tap, TapOptions};
use port::{Port, Side, Sink, Source};
use virtio::net::NetHeader;

use crate::board::Board;
use crate::namespace::Namespace;

const LIMIT: Duration = Duration::from_secs(30);
/// IEEE 802 local experimental: the kernel itself sends nothing of the kind.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

pub fn tap(text: &str) -> Tap {
    Tap::new(TapOptions::try_from(format!("tap:{text}").parse::<Spec>().unwrap()).unwrap())
}

/// Opens it in the namespace.
pub fn open(namespace: &Namespace, text: &str) -> (Tap, Board) {
    let mut tap = tap(text);
    namespace.run(move || {
        let board = Board::start(&mut tap).unwrap_or_else(|error| panic!("{error}"));
        (tap, board)
    })
}

fn frame(bytes: usize, number: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0x02];
    frame.extend(ETHERTYPE);
    frame.extend((14..bytes).map(|i| (i as u8).wrapping_mul(7).wrapping_add(number)));
    frame
}

/// A socket for all frames of an interface, as they are on the wire.
fn packet_socket(namespace: &Namespace, interface: &str) -> OwnedFd {
    let interface = interface.to_owned();
    namespace.run(move || {
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
                .unwrap();
        let address = getifaddrs().unwrap().find_map(|found| {
            let link = *found.address?.as_link_addr()?;
            (found.interface_name == interface).then_some(link)
        });
        bind(socket.as_raw_fd(), &address.expect("the interface has a link address")).unwrap();
        socket
    })
}

fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::try_from(left).unwrap()).unwrap() > 0
}

/// The next frame of our type.
fn receive(socket: &OwnedFd) -> Vec<u8> {
    let deadline = Instant::now() + LIMIT;
    let mut bytes = vec![0; 70_000];
    loop {
        assert!(readable(socket.as_fd(), deadline), "no frame came");
        let len = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty()).unwrap();
        if bytes[12..14] == ETHERTYPE {
            return bytes[..len].to_vec();
        }
    }
}

/// Frames with headers, as a sink is handed them.
fn accept(sink: &mut dyn Sink, frames: &[(NetHeader, Vec<u8>)]) {
    let (injecting, mut source) = queue(QueueOptions::default()).unwrap();
    let mut injector = Injector::from(injecting);
    assert!(frames.iter().all(|(header, frame)| injector.inject(*header, frame)));
    let lending = source.lend(frames.len()).unwrap();
    let all: Vec<u16> = (0..lending.len() as u16).collect();
    assert_eq!(all.len(), frames.len());
    sink.accept(lending, &all).unwrap();
    source.release();
}

fn bytes(frame: port::Frame<'_>) -> Vec<u8> {
    let mut bytes = frame.head().to_vec();
    let (pieces, before) = frame.pieces();
    let mut rest = vec![0; frame.len_bytes() - bytes.len()];
    memory::read_between(pieces.iter().copied(), before + bytes.len(), &mut rest);
    bytes.extend(rest);
    bytes
}

/// The next frames of our type that a source lends, at least one.
fn lend(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(!source.sleep());
        assert!(readable(source.wake_fd().unwrap(), deadline), "no frame came");
        source.wake();
        let ours = |frame: &Vec<u8>| frame[12..14] == ETHERTYPE;
        let frames: Vec<_> = source.lend(64).unwrap().frames().map(bytes).filter(ours).collect();
        source.release();
        if !frames.is_empty() {
            return frames;
        }
    }
}

#[test]
fn frames_reach_the_kernel_and_come_from_it() {
    let namespace = Namespace::new();
    let (tap, mut board) = open(&namespace, "t0,mtu=9000,up=on");
    let socket = packet_socket(&namespace, "t0");
    let sink = board.sinks.get_mut(&0).unwrap();
    let sizes = [14, 60, 63, 64, 65, 1514, 9014];
    let plain = NetHeader::default();
    let sent: Vec<_> = (0..).zip(sizes).map(|(i, size)| (plain, frame(size, i))).collect();
    accept(sink.as_mut(), &sent);
    for (_, frame) in &sent {
        assert_eq!(receive(&socket), *frame);
    }
    let counts = tap.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.bytes), (7, sizes.iter().sum::<usize>() as u64));
    assert_eq!(counts.drops, []);

    let source = board.sources.get_mut(&0).unwrap();
    for (_, frame) in &sent {
        assert_eq!(send(socket.as_raw_fd(), frame, MsgFlags::empty()), Ok(frame.len()));
    }
    let mut came = Vec::new();
    while came.len() < sent.len() {
        came.extend(lend(source.as_mut()));
    }
    assert_eq!(came, sent.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
    assert!(!source.lent());
}
