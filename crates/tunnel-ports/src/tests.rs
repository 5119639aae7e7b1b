//! Frames through tunnels to this host itself: each checksum on the way is right, and what comes out is what went in.
mod bfd;
mod fragments;

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;

use flow::{Field, Key, protocol};
use frame::{DropReason, FrameBatch, METADATA_WORDS, QueueCounters, Side, Sink, Source};
use port::in_memory::testing::Injector;
use port::in_memory::{InMemorySource, QueueOptions, queue};
use port::testing::TestContext;
use port::{Port, SharedFd};
use rustix::event::{EventfdFlags, eventfd};
use tunnels::{Kind, Message, OptionMap, PartialSum, Received, Route, Settings, Sum, pseudo_header};
use virtio::net::{Accepts, NetHeader};

use crate::fragments::Waiting;
use crate::heard::Heard;
use crate::queue::shared;
use crate::registry::{self, LinkState};
use crate::source::{FRONT_BYTES, TunnelSource};
use crate::terminator::Terminator;
use crate::tunnel::TunnelPort;
use crate::view::Link;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const KEY: u64 = 5;
const MTU: usize = 1500;
pub(crate) const TCP_AT: usize = 34;
pub(crate) const HEADERS: usize = 54;

/// An underlay without a TAP: the queue of frames of tunnels, and its end for frames from the network.
pub(crate) struct Underlay {
    pub addresses: [IpAddr; 2],
    pub from_tunnels: InMemorySource,
    waiting: Arc<Waiting>,
    terminator: Terminator,
}

impl Underlay {
    /// With the addresses 198.51.NETWORK.1 and fd00:NETWORK::1, which are neighbours of themselves.
    pub fn new(name: &str, network: u8) -> Self {
        let v6 = Ipv6Addr::new(0xfd00, network.into(), 0, 0, 0, 0, 0, 1);
        let addresses = [[198, 51, network, 1].into(), v6.into()];
        let (entrance, from_tunnels) = shared(QueueOptions::default()).unwrap();
        let routes = [24, 64].into_iter().zip(addresses).map(|(bits, own)| Route {
            network: own,
            bits,
            gateway: None,
            source: own,
            metric: 0,
            link: 0,
        });
        let waker = SharedFd::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let link = Link {
            name: name.to_owned(),
            mac: MAC,
            mtu: MTU,
            addresses: addresses.to_vec(),
            neighbours: Vec::new(),
            entrance,
            waker,
            heard: Arc::default(),
        };
        registry::set_link(LinkState { link, routes: routes.collect() });
        let heard = Heard::default();
        for address in addresses {
            assert!(registry::want(name, address));
            heard.add(Message { address, mac: MAC });
        }
        assert!(registry::learn(name, &heard) && !registry::learn(name, &heard));
        let kernel = queue(QueueOptions::default()).unwrap().0;
        let waiting = Arc::default();
        let terminator = Terminator::new(name, Box::new(kernel), &waiting).unwrap();
        Underlay { addresses, from_tunnels, waiting, terminator }
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.terminator.counters().drops(reason)
    }
}

/// TCP over IPv4 with this many bytes of payload and a right checksum.
pub(crate) fn tcp(payload_bytes: usize) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 3][..], &[2, 0, 0, 0, 0, 4], &[8, 0]].concat();
    let total = (HEADERS - 14 + payload_bytes) as u16;
    frame.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, protocol::TCP, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let mut sum = Sum::default();
    sum.add(&frame[14..]);
    frame[24..26].copy_from_slice(&(!sum.folded()).to_be_bytes());
    frame.extend([0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 5 << 4, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload_bytes).map(|at| (at * 7 + at / 251) as u8));
    let sum = !tcp_sum(&frame);
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The sum of the pseudo header and the segment.
fn tcp_sum(frame: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.add_sum(pseudo(frame.len() - TCP_AT));
    sum.add(&frame[TCP_AT..]);
    sum.folded()
}

fn pseudo(bytes: usize) -> u16 {
    pseudo_header([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP, bytes as u32)
}

/// The header and the bytes of a frame whose checksum is partial, and which is to be cut into segments.
pub(crate) fn partial(payload_bytes: usize, segment_bytes: Option<u16>) -> (NetHeader, Vec<u8>) {
    let mut frame = tcp(payload_bytes);
    let pseudo = pseudo(frame.len() - TCP_AT);
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: segment_bytes.map_or(NetHeader::GSO_NONE, |_| NetHeader::GSO_TCPV4),
        hdr_len: HEADERS as u16,
        gso_size: segment_bytes.unwrap_or(0),
        csum_start: TCP_AT as u16,
        csum_offset: 16,
        ..NetHeader::default()
    };
    (header, frame)
}

/// All frames as a receiver gets them that accepts no offloads.
pub(crate) fn completed(batch: &FrameBatch) -> Vec<Vec<u8>> {
    let options = QueueOptions { accepts: Accepts::NOTHING, ..QueueOptions::default() };
    let (mut into, mut from) = queue(options).unwrap();
    into.accept(batch, &(0..batch.len() as u16).collect::<Vec<_>>()).unwrap();
    let frames = from.rx_burst(64).unwrap();
    let bytes = frames.frames().map(|frame| {
        let mut bytes = vec![0; frame.len_bytes()];
        frame.read(0, &mut bytes);
        bytes
    });
    let all = bytes.collect();
    from.release();
    all
}

pub(crate) fn start(settings: Settings) -> (TunnelPort, TestContext) {
    let (mut port, mut context) = (TunnelPort::new(settings, String::new()), TestContext::new());
    port.start(&mut context).unwrap();
    (port, context)
}

/// Sends a frame to a tunnel.
pub(crate) fn send(context: &mut TestContext, header: NetHeader, frame: &[u8]) {
    let (into, mut from) = queue(QueueOptions::default()).unwrap();
    assert!(Injector::from(into).inject(header, frame));
    context.sinks.get_mut(&0).unwrap().accept(from.rx_burst(1).unwrap(), &[0]).unwrap();
    from.release();
}

/// Checks the outer headers of a complete frame.
fn check_outer(frame: &[u8], kind: Kind, has_sum: bool) {
    let received = Received::read(frame, frame.len(), |_| true, |_| Some(kind)).unwrap().unwrap();
    assert_eq!((received.kind, received.key, received.end), (kind, Some(KEY), frame.len()));
    assert_eq!(received.checksum.is_some(), has_sum);
    if let Some(PartialSum { start, .. }) = received.checksum {
        let mut sum = Sum::default();
        sum.add_sum(received.covered_before());
        sum.add(&frame[start.into()..]);
        assert_eq!(sum.folded(), 0xffff, "the checksum of {kind:?}");
    }
    assert_eq!(tcp_sum(&frame[received.inner_at..]), 0xffff, "the inner checksum");
}

#[test]
fn checksums_are_right_and_frames_come_out_as_they_went_in() {
    let mut underlay = Underlay::new("test0", 100);
    let sent =
        [(NetHeader::default(), tcp(301)), partial(302, None), partial(1, None), partial(5001, Some(1000))];
    for kind in Kind::ALL {
        for remote in underlay.addresses {
            for checksum in [false, true] {
                let settings = Settings { key: Some(KEY), checksum, ..Settings::new(kind, Some(remote)) };
                let (mut port, mut context) = start(settings);
                let has_sum = checksum || remote.is_ipv6() && kind != Kind::Gre;
                for (header, frame) in &sent {
                    send(&mut context, *header, frame);
                    let batch = underlay.from_tunnels.rx_burst(64).unwrap();
                    let frames = completed(batch);
                    assert_eq!(frames.len(), if header.gso_size > 0 { 6 } else { 1 });
                    frames.iter().for_each(|frame| check_outer(frame, kind, has_sum));
                    let all: Vec<u16> = (0..batch.len() as u16).collect();
                    underlay.terminator.accept(batch, &all).unwrap();
                    underlay.from_tunnels.release();
                    let source = context.sources.get_mut(&0).unwrap();
                    let batch = source.rx_burst(64).unwrap();
                    let mut fields = Key::ZERO;
                    fields.set_tunnel(batch.metadata(0).unwrap());
                    assert_eq!(fields.get(Field::TunnelId), KEY.into());
                    let out = completed(batch);
                    assert!(out.iter().all(|frame| tcp_sum(frame) == 0xffff));
                    let payload: Vec<u8> = out.iter().flat_map(|frame| &frame[HEADERS..]).copied().collect();
                    assert!(payload == frame[HEADERS..], "{kind:?} {remote} {header:?}");
                    if header.gso_size == 0 {
                        assert_eq!(out[0], tcp(payload.len()));
                    }
                    source.release();
                }
                port.end(&mut context);
            }
        }
    }
}

#[test]
fn each_drop_has_its_reason() {
    let mut underlay = Underlay::new("test1", 101);
    let own = underlay.addresses[0];
    let dropped = |to: IpAddr, frame: &[u8], reason| {
        let (mut port, mut context) = start(Settings::new(Kind::Geneve, Some(to)));
        send(&mut context, NetHeader::default(), frame);
        let drops = port.counters(0, Side::ToGuest).unwrap().drops(reason);
        port.end(&mut context);
        assert_eq!(drops, 1, "{reason}");
    };
    dropped([203, 0, 113, 1].into(), &tcp(10), DropReason::NoRoute);
    dropped([198, 51, 101, 9].into(), &tcp(10), DropReason::NoNeighbour);
    // IPv4, UDP and Geneve take 36 bytes.
    dropped(own, &tcp(MTU - 36 - HEADERS + 1), DropReason::PathTooNarrow);

    // A port of UDP that no other test uses: tunnels are known to the whole process.
    let settings =
        Settings { checksum: true, key: Some(KEY), port: 4790, ..Settings::new(Kind::Vxlan, Some(own)) };
    let (mut port, mut context) = start(settings);
    send(&mut context, NetHeader::default(), &tcp(MTU - 36 - HEADERS));
    let good = completed(underlay.from_tunnels.rx_burst(1).unwrap()).remove(0);
    underlay.from_tunnels.release();
    let mut take =
        |frame: &[u8]| underlay.terminator.accept(&FrameBatch::of_frame(frame).unwrap(), &[0]).unwrap();
    take(&good);
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] ^= byte;
        frame
    };
    take(&with(good.len() - 1, 1)); // the checksum
    take(&with(39, 1)); // the length of UDP
    // Another key, with a checksum that fits.
    let mut other = with(48, 1);
    other[40..42].fill(0);
    take(&other);
    assert_eq!(underlay.drops(DropReason::MalformedTunnel), 2);
    assert_eq!(underlay.drops(DropReason::NoTunnel), 1);
    assert_eq!(underlay.terminator.counters().frames(), 0);
    let source = context.sources.get_mut(&0).unwrap();
    assert_eq!(source.rx_burst(8).unwrap().len(), 1);
    source.release();
    // What is for no tunnel is the kernel's.
    port.end(&mut context);
    underlay.terminator.accept(&FrameBatch::of_frame(&good).unwrap(), &[0]).unwrap();
    assert_eq!(underlay.terminator.counters().frames(), 1);
}

/// What the peer sends in the outer headers and behind them does not reach the inner frame.
#[test]
fn a_peer_cannot_stretch_the_inner_frame_or_move_its_checksum() {
    let mut underlay = Underlay::new("test3", 103);
    let settings = Settings { key: Some(KEY), ..Settings::new(Kind::Gre, Some(underlay.addresses[0])) };
    let (mut port, mut context) = start(settings);
    let small = tcp(1);
    send(&mut context, NetHeader::default(), &small);
    let good = completed(underlay.from_tunnels.rx_burst(1).unwrap()).remove(0);
    underlay.from_tunnels.release();
    let inner_at = good.len() - small.len();
    let mut take = |header: NetHeader, frame: &[u8]| {
        let (into, mut from) = queue(QueueOptions::default()).unwrap();
        assert!(Injector::from(into).inject(header, frame));
        underlay.terminator.accept(from.rx_burst(1).unwrap(), &[0]).unwrap();
        from.release();
        let source = context.sources.get_mut(&0).unwrap();
        let frames = completed(source.rx_burst(8).unwrap());
        source.release();
        frames
    };
    // Bytes behind the outer packet are padding, also behind the bytes that are read first.
    for padding in [1, 8, 500] {
        assert_eq!(
            take(NetHeader::default(), &[&good[..], &vec![7; padding]].concat()),
            std::slice::from_ref(&small)
        );
    }
    // A checksum that begins in the inner Ethernet header.
    for start in 0..14 {
        let csum_start = (inner_at + start) as u16;
        let header = NetHeader { flags: NetHeader::F_NEEDS_CSUM, csum_start, ..NetHeader::default() };
        assert!(take(header, &good).is_empty());
    }
    // One that ends in padding.
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        csum_start: (good.len() - 1) as u16,
        ..NetHeader::default()
    };
    assert!(take(header, &[&good[..], &[0; 8]].concat()).is_empty());
    // The header of IPv4: a bit of the sender's address.
    let mut wrong = good.clone();
    wrong[29] ^= 1;
    assert!(take(NetHeader::default(), &wrong).is_empty());
    assert_eq!(underlay.drops(DropReason::OffloadImpossible), 15);
    assert_eq!(underlay.drops(DropReason::MalformedTunnel), 1);
    assert_eq!(underlay.terminator.counters().frames(), 0);
    port.end(&mut context);
}

/// A frame in a tunnel's queue whose checksum has no place behind the metadata is dropped and counted.
#[test]
fn a_source_drops_what_it_cannot_take_off() {
    let (into, from) = queue(QueueOptions::default()).unwrap();
    let counters = Arc::new(QueueCounters::default());
    let mut source = TunnelSource::new(from, Arc::clone(&counters));
    let mut into = Injector::from(into);
    let csum_start = (FRONT_BYTES + 2) as u16;
    let bad = NetHeader { flags: NetHeader::F_NEEDS_CSUM, csum_start, ..NetHeader::default() };
    for header in [NetHeader::default(), bad, NetHeader::default(), bad] {
        assert!(into.inject(header, &[5; FRONT_BYTES + 60]));
    }
    let batch = source.rx_burst(8).unwrap();
    assert!(batch.frames().all(|frame| frame.len_bytes() == 60));
    assert!((0..2).all(|index| batch.metadata(index) == Some(&[u64::from_ne_bytes([5; 8]); METADATA_WORDS])));
    assert_eq!((batch.len(), counters.drops(DropReason::OffloadImpossible)), (2, 2));
    source.release();
}

/// All segments of a long frame find room, and each of them says outside too that routers may mark congestion.
#[test]
fn a_long_frame_with_short_segments_is_sent_whole() {
    let mut underlay = Underlay::new("test4", 104);
    let settings =
        Settings { key: Some(KEY), tos: 0x48, ..Settings::new(Kind::Geneve, Some(underlay.addresses[0])) };
    let (mut port, mut context) = start(settings);
    let (header, mut frame) = partial(120 * 536, Some(536));
    frame[15] = 1; // ECT(1); the checksum of IP is made for each segment
    send(&mut context, header, &frame);
    let counters = port.counters(0, Side::ToGuest).unwrap();
    assert_eq!((counters.frames(), counters.drops(DropReason::ReceiverFull)), (120, 0));
    let first = completed(underlay.from_tunnels.rx_burst(1).unwrap()).remove(0);
    underlay.from_tunnels.release();
    let inner_at = first.len() - HEADERS - 536;
    assert_eq!((first[15], first[inner_at + 15]), (0x49, 1));
    port.end(&mut context);
}

/// A worker takes note of answers and changes nothing that workers share. What was heard last is learnt at once.
#[test]
fn answers_wait_for_the_control_side() {
    let mut underlay = Underlay::new("test5", 105);
    let IpAddr::V4(own) = underlay.addresses[0] else { unreachable!() };
    let answer = |last: u8| {
        let mut frame = tunnels::request([2, 0, 0, 0, 0, last], own.into(), own.into()).unwrap();
        frame[21] = 2;
        frame
    };
    let link = || Arc::clone(registry::current().link("test5").unwrap());
    for last in 0..100 {
        underlay.terminator.accept(&FrameBatch::of_frame(&answer(last)).unwrap(), &[0]).unwrap();
        assert_eq!(link().neighbour(own.into()), Some(MAC));
    }
    let mut wakes = [0; 8];
    rustix::io::read(link().waker.as_fd(), &mut wakes).unwrap();
    assert_eq!(u64::from_ne_bytes(wakes), 1);
    assert!(registry::learn("test5", &link().heard));
    assert_eq!(link().neighbour(own.into()), Some([2, 0, 0, 0, 0, 99]));
    assert_eq!(underlay.terminator.counters().frames(), 100, "the kernel gets them too");
}

/// The first frame through a new tunnel finds the address of the next hop.
#[test]
fn the_next_hop_of_a_new_tunnel_is_asked_for_at_once() {
    let _underlay = Underlay::new("test21", 121);
    let waker = registry::current().link("test21").unwrap().waker.clone();
    let woken = || rustix::io::read(waker.as_fd(), &mut [0; 8]).is_ok();
    assert!(!woken() && registry::due("test21").is_empty());
    let remote = [198, 51, 121, 9].into();
    let (mut port, mut context) = start(Settings::new(Kind::Geneve, Some(remote)));
    assert!(woken());
    assert_eq!(registry::due("test21"), [remote]);
    port.end(&mut context);
}

#[test]
fn flows_name_the_end_the_key_and_the_options() {
    let mut underlay = Underlay::new("test2", 102);
    let option = OptionMap { class: 0x102, kind: 0x80, bytes: 4, index: 0 };
    registry::set_options("flows", &[option]);
    let settings = Settings { key: None, ..Settings::new(Kind::Geneve, None) };
    let (mut port, mut context) = (TunnelPort::new(settings, "flows".to_owned()), TestContext::new());
    port.start(&mut context).unwrap();
    let mut send = |fields: &Key| {
        let mut batch = FrameBatch::of_frame(&tcp(10)).unwrap();
        batch.set_metadata(0, &fields.tunnel());
        context.sinks.get_mut(&0).unwrap().accept(&batch, &[0]).unwrap();
    };
    let mut fields = Key::ZERO;
    send(&fields);
    assert_eq!(port.counters(0, Side::ToGuest).unwrap().drops(DropReason::NoRoute), 1, "no end");
    for address in underlay.addresses {
        let IpAddr::V4(v4) = address else { continue };
        fields.set(Field::TunnelDst, u32::from(v4).into());
        fields.set(Field::TunnelId, 0x0001_0203);
        fields.set(Field::TunnelMetadata0, 0x8001_0002);
        send(&fields);
        let batch = underlay.from_tunnels.rx_burst(1).unwrap();
        let sent = completed(batch).remove(0);
        let received = Received::read(&sent, sent.len(), |_| true, |_| Some(Kind::Geneve)).unwrap().unwrap();
        assert_eq!((received.to, received.key, received.options.len()), (address, Some(0x0001_0203), 8));
        let read = received.fields(&[option]).unwrap();
        assert_eq!(read.get(Field::TunnelMetadata0), 0x8001_0002);
        // A critical option without a field: the frame is dropped.
        registry::set_options("flows", &[]);
        underlay.terminator.accept(&FrameBatch::of_frame(&sent).unwrap(), &[0]).unwrap();
        assert_eq!(underlay.drops(DropReason::MalformedTunnel), 1);
        underlay.from_tunnels.release();
    }
    port.end(&mut context);
}
