//! Frames that are segmented on their way into a tunnel.
use std::any::Any;

use port::Port;
use port::in_memory::testing::Injector;
use port::in_memory::{QueueOptions, queue};

use flow::protocol;
use frame::{OwnMemory, Source};
use tunnels::{Settings, pseudo_header};
use virtio::net::{HeaderLayout, NetHeader};

use super::*;
use crate::tests::{HEADERS, KEY, TCP_AT, Underlay, completed, partial, send, start, tcp};

fn settings(underlay: &Underlay) -> Settings {
    Settings { key: Some(KEY), ..Settings::new(Kind::Geneve, Some(underlay.addresses[0])) }
}

/// The only copy of a payload that is segmented is the one into the queue: until then, what the sender writes is what is sent.
#[test]
fn a_payload_that_is_segmented_is_copied_once() {
    const SEGMENT_BYTES: usize = 1300;
    const SEGMENTS: usize = 45;
    let underlay = Underlay::new("test11", 111);
    let (mut port, mut context) = start(settings(&underlay));
    let sink: Box<dyn Any> = context.sinks.remove(&0).unwrap();
    let mut encapsulator = sink.downcast::<Encapsulator>().unwrap();
    let (into, mut from) = queue(QueueOptions::default()).unwrap();
    let (header, frame) = partial(SEGMENTS * SEGMENT_BYTES, Some(SEGMENT_BYTES as u16));
    assert!(frame.len() > 58_000 && Injector::from(into).inject(header, &frame));
    let batch = from.rx_burst(1).unwrap();

    encapsulator.reader.refresh();
    let view = Arc::clone(&encapsulator.reader.view);
    let way = encapsulator.way(&view, &Key::ZERO).unwrap();
    encapsulator.push_segments(&Addressed { view: &view, way: &way, key: &Key::ZERO }, batch, 0);
    assert_eq!(encapsulator.pending.len(), SEGMENTS);
    let (pieces, skip) = batch.frame(0).slices();
    let [piece] = pieces else { panic!("the queue holds a frame in one piece") };
    piece.slice(skip + HEADERS, SEGMENTS * SEGMENT_BYTES).write(&[0xa5; SEGMENTS * SEGMENT_BYTES]);

    let sent = completed(encapsulator.edited.batch());
    let lengths: Vec<usize> = sent.iter().map(Vec::len).collect();
    assert_eq!(lengths, [36 + 14 + HEADERS + SEGMENT_BYTES; SEGMENTS]);
    let copied =
        |frame: &Vec<u8>| frame[frame.len() - SEGMENT_BYTES..].iter().filter(|byte| **byte != 0xa5).count();
    assert_eq!(sent.iter().map(copied).sum::<usize>(), 0, "bytes that were copied before the queue");
    port.end(&mut context);
}

/// A datagram that is sent in fragments has its checksum in the first one.
#[test]
fn a_datagram_in_fragments_keeps_its_checksum() {
    const PAYLOAD_BYTES: usize = 3001;
    let mut underlay = Underlay::new("test12", 112);
    let (mut port, mut context) = start(settings(&underlay));
    let mut frame = tcp(PAYLOAD_BYTES - 12);
    let datagram_bytes = (8 + PAYLOAD_BYTES) as u16;
    frame[23] = protocol::UDP;
    frame[38..40].copy_from_slice(&datagram_bytes.to_be_bytes());
    let pseudo =
        || pseudo_header([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::UDP, datagram_bytes.into());
    frame[40..42].copy_from_slice(&pseudo().to_be_bytes());
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_UDP,
        gso_size: 1000,
        csum_start: TCP_AT as u16,
        csum_offset: 6,
        ..NetHeader::default()
    };
    send(&mut context, header, &frame);
    let sent = completed(underlay.from_tunnels.rx_burst(64).unwrap());
    underlay.from_tunnels.release();
    let datagram: Vec<u8> = sent.iter().flat_map(|frame| &frame[36 + 14 + TCP_AT..]).copied().collect();
    assert_eq!((sent.len(), datagram.len()), (4, datagram_bytes.into()));
    assert_eq!(datagram[8..], frame[TCP_AT + 8..]);
    let mut sum = Sum::default();
    sum.add_sum(pseudo());
    sum.add(&datagram);
    assert_eq!(sum.folded(), 0xffff);
    port.end(&mut context);
}

/// Headers that do not fit the segmentation, and more segments than a frame may have.
#[test]
fn a_frame_that_cannot_be_segmented_is_dropped() {
    let mut underlay = Underlay::new("test13", 113);
    let (mut port, mut context) = start(settings(&underlay));
    let (header, frame) = partial(60_000, Some(40));
    send(&mut context, header, &frame);
    let (header, frame) = partial(3000, Some(1000));
    send(&mut context, NetHeader { gso_type: NetHeader::GSO_TCPV6, ..header }, &frame);
    let drops = port.counters(0, frame::Side::ToGuest).unwrap().drops(DropReason::OffloadImpossible);
    assert_eq!(drops, 2);
    assert!(underlay.from_tunnels.rx_burst(64).unwrap().is_empty());
    port.end(&mut context);
}

/// The work for one frame is limited: its pieces of memory times its segments.
#[test]
fn a_frame_in_many_pieces_has_few_segments() {
    const PAYLOAD_BYTES: usize = 60_000;
    const PIECE_BYTES: usize = 800;
    let mut underlay = Underlay::new("test19", 119);
    let (mut port, mut context) = start(settings(&underlay));
    for (segment_bytes, segments) in [(64, 0), (1300, 47)] {
        let (header, frame) = partial(PAYLOAD_BYTES, Some(segment_bytes));
        let bytes = [&header.to_bytes()[..], &frame].concat();
        let memory = OwnMemory::new(c"pieces", bytes.len() as u64).unwrap();
        memory.slice(0, bytes.len()).write(&bytes);
        let mut batch = FrameBatch::of_memory(1);
        for at in (0..bytes.len()).step_by(PIECE_BYTES) {
            let length = PIECE_BYTES.min(bytes.len() - at);
            memory.sg_builder().push(batch.arena_mut().unwrap(), at as u64, length as u32);
        }
        batch.push(0, HeaderLayout::Full).unwrap();
        context.sinks.get_mut(&0).unwrap().accept(&batch, &[0]).unwrap();
        let sent = completed(underlay.from_tunnels.rx_burst(64).unwrap());
        underlay.from_tunnels.release();
        assert_eq!(sent.len(), segments);
        let payload: Vec<u8> = sent.iter().flat_map(|frame| &frame[36 + 14 + HEADERS..]).copied().collect();
        assert!(payload.is_empty() || payload == frame[HEADERS..]);
    }
    assert_eq!(port.counters(0, frame::Side::ToGuest).unwrap().drops(DropReason::OffloadImpossible), 1);
    port.end(&mut context);
}
