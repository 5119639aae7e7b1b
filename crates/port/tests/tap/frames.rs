//! Single frames, both ways, and what the kernel refuses.
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{DropReason, FrameBatch, QueueError, Side};
use port::spec::Spec;
use port::tap::{Tap, TapOptions};
use port::testing::TestContext;
use port::{Port, PortError};
use rustix::net::{SendFlags, send};
use virtio::net::{HeaderLayout, NetHeader, SegmentKind};

use crate::exchange::{LIMIT, accept, bytes, frame, lend, packet_socket, readable, receive};
use crate::namespace::Namespace;
use crate::packet_socket;

pub fn tap(text: &str) -> Tap {
    Tap::new(TapOptions::try_from(format!("tap:{text}").parse::<Spec>().unwrap()).unwrap())
}

pub fn start(port: &mut impl Port) -> Result<TestContext, PortError> {
    let mut context = TestContext::new();
    port.start(&mut context)?;
    Ok(context)
}

/// Opens it in the namespace.
pub fn open(namespace: &Namespace, text: &str) -> (Tap, TestContext) {
    let mut tap = tap(text);
    namespace.run(move || {
        let context = start(&mut tap).unwrap_or_else(|error| panic!("{error}"));
        (tap, context)
    })
}

#[test]
fn frames_reach_the_kernel_and_come_from_it() {
    let namespace = Namespace::new();
    let (tap, mut context) = open(&namespace, "t0,mtu=9000,up=on");
    let socket = packet_socket(&namespace, "t0");
    let sink = context.sinks.get_mut(&0).unwrap();
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

    let source = context.sources.get_mut(&0).unwrap();
    for (_, frame) in &sent {
        assert_eq!(send(&socket, frame, SendFlags::empty()), Ok(frame.len()));
    }
    let mut came = Vec::new();
    while came.len() < sent.len() {
        came.extend(lend(source.as_mut()));
    }
    assert_eq!(came, sent.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>());
    assert!(!source.needs_release());
}

#[test]
fn what_the_kernel_refuses_is_counted_and_the_queue_goes_on() {
    let namespace = Namespace::new();
    let (tap, mut context) = open(&namespace, "t0,up=on");
    let socket = packet_socket(&namespace, "t0");
    let sink = context.sinks.get_mut(&0).unwrap();
    let plain = NetHeader::default();
    // A TCP header at byte 50 of 60: fits our check of the checksum field, not the kernel's of the header.
    let impossible = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_TCPV4,
        gso_size: 1,
        csum_start: 50,
        csum_offset: 2,
        ..plain
    };
    accept(sink.as_mut(), &[(plain, frame(60, 1)), (impossible, frame(60, 2)), (plain, frame(60, 3))]);
    assert_eq!(receive(&socket), frame(60, 1));
    assert_eq!(receive(&socket), frame(60, 3));

    namespace.sh("ip link set t0 down");
    accept(sink.as_mut(), &[(plain, frame(60, 4))]);
    namespace.sh("ip link set t0 up");
    let socket = packet_socket(&namespace, "t0");
    accept(sink.as_mut(), &[(plain, frame(60, 5))]);
    assert_eq!(receive(&socket), frame(60, 5));

    let counts = tap.counters(0, Side::ToGuest).unwrap().counts();
    assert_eq!((counts.frames, counts.drops), (3, vec![(DropReason::System, 2)]));
}

#[test]
fn an_interface_that_is_down_keeps_nobody_awake() {
    let namespace = Namespace::new();
    let (_tap, mut context) = open(&namespace, "t0");
    let source = context.sources.get_mut(&0).unwrap();
    assert!(source.rx_burst(8).unwrap().is_empty() && !source.needs_release());
    assert!(!source.sleep());
    assert!(!readable(source.wake_fd().unwrap(), Instant::now() + Duration::from_millis(50)));
}

#[test]
fn an_interface_removed_under_us_stops_the_source_and_costs_the_sink_its_frames() {
    let namespace = Namespace::new();
    let (mut tap, mut context) = open(&namespace, "t0,up=on,queue-pairs=2");
    namespace.sh("ip link delete t0");
    for pair in 0..2 {
        let source = context.sources.get_mut(&pair).unwrap();
        assert!(readable(source.wake_fd().unwrap(), Instant::now() + LIMIT), "a sleeper hears of it");
        let error = source.rx_burst(8).unwrap_err();
        assert!(matches!(error, QueueError::System { .. }), "{error}");
        assert!(!source.needs_release());
        let sink = context.sinks.get_mut(&pair).unwrap();
        accept(sink.as_mut(), &[(NetHeader::default(), frame(60, 1))]);
        assert_eq!(sink.counters().drops(DropReason::System), 1);
        context.sources.remove(&pair);
        tap.stopped(pair, Side::FromGuest, error, &mut context);
    }
    assert_eq!(context.logged.len(), 1, "said once: {:?}", context.logged);
    assert!(context.logged[0].contains("t0"), "{}", context.logged[0]);
    assert!(tap.describe().contains("removed"), "{}", tap.describe());
    tap.end(&mut context);
    assert!(context.sinks.is_empty());
    // And once more from the start.
    namespace.run(move || tap.start(&mut TestContext::new()).unwrap());
}

#[test]
fn an_interface_that_is_made_again_is_used_again() {
    let namespace = Namespace::new();
    namespace.sh("ip tuntap add t0 mode tap multi_queue");
    let (mut tap, mut context) = open(&namespace, "t0,queue-pairs=2,up=on");
    namespace.sh("ip link delete t0");
    let error = context.sources.get_mut(&1).unwrap().rx_burst(8).unwrap_err();
    context.sources.remove(&1);
    tap.stopped(1, Side::FromGuest, error, &mut context);
    // The interface does not exist yet: at least one check finds nothing.
    let (mut tap, mut context) = namespace.run(move || {
        assert!(context.turn(&mut tap, LIMIT));
        (tap, context)
    });
    assert!(tap.describe().contains("removed"));
    namespace.sh("ip tuntap add t0 mode tap multi_queue");
    let (tap, mut context) = namespace.run(move || {
        assert!(context.turn(&mut tap, LIMIT));
        (tap, context)
    });
    assert!(tap.describe().contains("2 queue pairs"), "{:?}", context.logged);
    assert_eq!(context.logged.len(), 2, "{:?}", context.logged);
    assert!(!context.turn(&mut { tap }, Duration::ZERO), "it is looked for no more");
    let socket = packet_socket(&namespace, "t0");
    accept(context.sinks.get_mut(&1).unwrap().as_mut(), &[(NetHeader::default(), frame(60, 1))]);
    assert_eq!(receive(&socket), frame(60, 1));
}

#[test]
fn frames_in_many_pieces_arrive_whole() {
    let namespace = Namespace::new();
    let (_tap, mut context) = open(&namespace, "t0,up=on");
    let socket = packet_socket(&namespace, "t0");
    let memory = Pieces::new();
    for piece_bytes in [1, 7, 23, 24, 64, 1000] {
        let frame = frame(1514, piece_bytes as u8);
        let batch = memory.batch(NetHeader::default(), &frame, piece_bytes);
        let sink = context.sinks.get_mut(&0).unwrap();
        sink.accept(&batch, &[0]).unwrap();
        assert_eq!(receive(&socket), frame, "in pieces of {piece_bytes}");
        assert_eq!(sink.counters().counts().drops, []);
    }
}

#[test]
fn what_is_written_after_the_look_does_not_arrive() {
    let namespace = Namespace::new();
    let (_tap, mut context) = open(&namespace, "t0,up=on");
    let socket = packet_socket(&namespace, "t0");
    let memory = Pieces::new();
    let batch = memory.batch(NetHeader::default(), &frame(100, 1), 1000);
    memory.overwrite(&[0xee; 12 + 64]);
    context.sinks.get_mut(&0).unwrap().accept(&batch, &[0]).unwrap();
    assert_eq!(receive(&socket), frame(100, 1));
}

/// Memory of a sender that puts frames in pieces at any places.
struct Pieces {
    space: Arc<memory::AddressSpace>,
}

impl Pieces {
    const BYTES: u64 = 1 << 20;

    fn new() -> Self {
        let file = memory::sealed_memfd(c"pieces", Self::BYTES).unwrap();
        let region = memory::Region::map(&file, memory::RegionRange::at(0, Self::BYTES)).unwrap();
        Pieces { space: Arc::new(memory::AddressSpace::from_regions([region]).unwrap()) }
    }

    fn overwrite(&self, bytes: &[u8]) {
        memory::SharedSlice::of_mapping(self.space.regions()[0].mapping()).write(bytes);
    }

    /// The frame behind its header, a gap after each piece but the last.
    fn batch(&self, header: NetHeader, frame: &[u8], piece_bytes: usize) -> FrameBatch {
        let all = [&header.to_bytes(), frame].concat();
        let mut batch = FrameBatch::of_memory(1);
        let mut translator = memory::Translator::new(Arc::clone(&self.space));
        let mut at = 0;
        for piece in all.chunks(piece_bytes) {
            let whole = memory::SharedSlice::of_mapping(self.space.regions()[0].mapping());
            whole.slice(at, piece.len()).write(piece);
            let arena = batch.arena_mut().unwrap();
            translator.builder(arena).push(at as u64, piece.len() as u32, memory::Access::Read).unwrap();
            at += if all.len() > piece_bytes { piece.len() + 3 } else { 0 };
        }
        batch.push(0, HeaderLayout::Full).unwrap();
        batch
    }
}

#[test]
fn a_vlan_tag_comes_along() {
    let namespace = Namespace::new();
    let (_tap, mut context) = open(&namespace, "t0,up=on");
    let socket = packet_socket(&namespace, "t0");
    let mut tagged = frame(100, 1);
    // The kernel takes the tag out of the frame on its way, and puts it back for us.
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x05]);
    assert_eq!(send(&socket, &tagged, SendFlags::empty()), Ok(tagged.len()));
    let source = context.sources.get_mut(&0).unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(readable(source.wake_fd().unwrap(), deadline), "no frame came");
        let came: Vec<_> = source.rx_burst(64).unwrap().frames().map(bytes).collect();
        source.release();
        if came.contains(&tagged) {
            return;
        }
    }
}

/// Whether this kernel leaves UDP to be cut: since Linux 6.2.
fn knows_uso() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 2)
}

#[test]
fn datagrams_come_and_go_uncut_where_the_kernel_knows_how() {
    // To a kernel that takes them uncut, and to one for which they are cut here.
    for (options, frames) in [("", if knows_uso() { 1 } else { 6 }), (",offloads=off", 6)] {
        let given = datagrams_go_through(options);
        assert!(given == frames, "{given} frames with '{options}'");
    }
}

/// Sends six datagrams as one; how many frames the receiving kernel was given.
fn datagrams_go_through(options: &str) -> u64 {
    let (left, right) = (Namespace::new(), Namespace::new());
    let (tap, mut from) = open(&left, "t0,mac=02:00:00:00:00:01,address=10.0.0.1/24");
    let (_other, mut to) = open(&right, &format!("t0,mac=02:00:00:00:00:02,address=10.0.0.2/24{options}"));
    left.sh("ip neighbour add 10.0.0.2 lladdr 02:00:00:00:00:02 dev t0");
    let receiver = right.run(|| UdpSocket::bind("10.0.0.2:7000").unwrap());
    receiver.set_read_timeout(Some(LIMIT)).unwrap();
    let payload: Vec<u8> = (0..5500u32).map(|i| (i % 251) as u8).collect();
    let message = payload.clone();
    left.run(move || {
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        packet_socket::cut_datagrams(&socket, 1000);
        assert_eq!(socket.send_to(&message, "10.0.0.2:7000").unwrap(), message.len());
    });
    let (source, sink) = (from.sources.get_mut(&0).unwrap(), to.sinks.get_mut(&0).unwrap());
    let (deadline, mut seen, mut uncut) = (Instant::now() + LIMIT, 0, 0);
    // In one frame or in six; what else the kernel says (neighbours, multicast groups) stays here.
    while seen < payload.len() {
        assert!(readable(source.wake_fd().unwrap(), deadline), "no frame came");
        let batch = source.rx_burst(64).unwrap();
        let mut udp = Vec::new();
        for (index, frame) in (0..).zip(batch.frames()) {
            if frame.snapshot()[12..14] == [8, 0] && frame.snapshot()[23] == 17 {
                udp.push(index);
                seen += frame.len_bytes() - 42;
                let cut = frame.offload().segmentation;
                uncut += u32::from(cut.is_some_and(|cut| cut.kind == SegmentKind::UdpSegments));
            }
        }
        sink.accept(batch, &udp).unwrap();
        source.release();
    }
    assert_eq!(uncut, u32::from(knows_uso()), "{}", tap.describe());
    assert_eq!(tap.describe().contains("USO"), knows_uso());
    for expected in payload.chunks(1000) {
        let mut datagram = [0; 2000];
        let bytes = receiver.recv(&mut datagram).expect("a datagram");
        assert_eq!(datagram[..bytes], *expected);
    }
    assert_eq!(sink.counters().counts().drops, []);
    sink.counters().counts().frames
}
