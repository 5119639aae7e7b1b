//! TSO and USO: each piece is the frame that `etherparse` builds for its part of the payload.
use super::*;

#[derive(Clone, Debug)]
struct Tcp {
    sequence: u32,
    flags: [bool; 8],
    urgent: u16,
    option_words: usize,
}

fn tcp() -> impl Strategy<Value = Tcp> {
    let sequence = prop_oneof![any::<u32>(), u32::MAX - 3000..=u32::MAX];
    (sequence, any::<[bool; 8]>(), 0_u16..4000, 0_usize..=10)
        .prop_map(|(sequence, flags, urgent, option_words)| Tcp { sequence, flags, urgent, option_words })
}

impl Tcp {
    /// The header of the piece that begins `before` bytes into the payload.
    fn header(&self, before: usize, first: bool, last: bool) -> TcpHeader {
        let [fin, psh, cwr, ece, urg, ns, syn, rst] = self.flags;
        let mut header = TcpHeader::new(5000, 80, self.sequence.wrapping_add(before as u32), 512);
        (header.ack, header.acknowledgment_number, header.ece, header.ns) = (true, 77, ece, ns);
        (header.fin, header.psh, header.cwr) = (fin && last, psh && last, cwr && first);
        (header.syn, header.rst, header.urg, header.urgent_pointer) = (syn, rst, urg, self.urgent);
        header.set_options_raw(&vec![1; self.option_words * 4]).unwrap();
        header
    }
}

/// The frame as its sender leaves it: the checksum of the pseudo header only.
fn partial(mut frame: Vec<u8>, below: &Below, kind: SegmentKind) -> Vec<u8> {
    let field = below.transport() + usize::from(kind.checksum_offset());
    frame[field..field + 2].copy_from_slice(&[0xde, 0xad]);
    frame
}

proptest! {
    #[test]
    fn tcp_segments_are_the_frames_a_stack_would_send(
        below in below(),
        tcp in tcp(),
        payload in prop::collection::vec(any::<u8>(), 0..6000),
        segment_bytes in 100_u16..3000,
        first in 0_usize..300,
    ) {
        let kind = if below.v6 { SegmentKind::TcpV6 } else { SegmentKind::TcpV4 };
        let frame = partial(below.tcp(&tcp.header(0, true, true), &payload), &below, kind);
        let pieces = cut(&frame, first, &below.offload(kind, segment_bytes)).unwrap();
        let parts: Vec<&[u8]> =
            if payload.is_empty() { vec![&[]] } else { payload.chunks(segment_bytes.into()).collect() };
        prop_assert_eq!(pieces.len(), parts.len());
        for (i, (piece, part)) in pieces.iter().zip(&parts).enumerate() {
            let before = i * usize::from(segment_bytes);
            let header = tcp.header(before, i == 0, i + 1 == parts.len());
            let id = below.identification.wrapping_add(i as u16);
            let expected = Below { identification: id, ..below.clone() }.tcp(&header, part);
            prop_assert_eq!(piece, &expected, "piece {}", i);
        }
    }

    #[test]
    fn udp_segments_are_the_frames_a_stack_would_send(
        below in below(),
        payload in prop::collection::vec(any::<u8>(), 0..6000),
        segment_bytes in 100_u16..3000,
        first in 0_usize..300,
    ) {
        let kind = SegmentKind::UdpSegments;
        let frame = partial(below.udp(&payload), &below, kind);
        let pieces = cut(&frame, first, &below.offload(kind, segment_bytes)).unwrap();
        let parts: Vec<&[u8]> =
            if payload.is_empty() { vec![&[]] } else { payload.chunks(segment_bytes.into()).collect() };
        prop_assert_eq!(pieces.len(), parts.len());
        for (i, (piece, part)) in pieces.iter().zip(parts).enumerate() {
            let id = below.identification.wrapping_add(i as u16);
            let expected = Below { identification: id, ..below.clone() }.udp(part);
            prop_assert_eq!(piece, &expected, "piece {}", i);
        }
    }

    #[test]
    fn a_partial_checksum_can_be_left_to_the_receiver(
        below in below(),
        tcp in tcp(),
        payload in prop::collection::vec(any::<u8>(), 1..3000),
    ) {
        let kind = if below.v6 { SegmentKind::TcpV6 } else { SegmentKind::TcpV4 };
        let offload = below.offload(kind, 700);
        let frame = partial(below.tcp(&tcp.header(0, true, true), &payload), &below, kind);
        let plan = Plan::new(&frame, frame.len() as u32, &offload, 0).unwrap();
        let finished = cut(&frame, 300, &offload).unwrap();
        let mut headers = Headers::new();
        for (index, finished) in finished.iter().enumerate() {
            let piece = plan.write(index as u32, &mut headers).unwrap();
            let left = headers.leave_partial().unwrap();
            prop_assert_eq!(left.checksum, offload.checksum);
            prop_assert_eq!(left.segmentation, None);
            let payload = &frame[piece.payload.start as usize..piece.payload.end as usize];
            let mut bytes = [headers.bytes(), payload].concat();
            let len = bytes.len() as u32;
            let finish = crate::net::FinishChecksum::new(left.checksum.unwrap(), &bytes, len).unwrap();
            finish.finish(&mut bytes, 0);
            prop_assert_eq!(&bytes, finished);
        }
    }
}

/// The checksum covers the last address of a source route, not the next hop's (RFC 8200 §8.1).
#[test]
fn a_route_still_to_be_travelled_is_summed_with_its_last_address() {
    for (kind, at) in [(0_u8, 24), (2, 8), (4, 8)] {
        let units = if kind == 0 { 5 } else { 3 };
        let below = Below { identification: 0, dont_fragment: false, routing: Some(units), ..plain(true) };
        let right = below.udp(&[1, 2, 3, 4, 5]);
        let mut frame = right.clone();
        // The real destination moves into the route, a router takes its place.
        frame[54 + 2..54 + 4].copy_from_slice(&[kind, 1]);
        frame[54 + at..54 + at + 16].copy_from_slice(&DESTINATION_V6);
        frame[14 + 24..14 + 40].fill(0xbb);
        let pieces = cut(&frame, 64, &below.offload(SegmentKind::UdpSegments, 100)).unwrap();
        let transport = below.transport();
        assert_eq!(pieces[0][transport..], right[transport..], "type {kind}");
    }
}

/// Of a route that nothing is known of, or without room for an address, the sender's own sum is taken.
#[test]
fn a_route_that_does_not_show_its_last_address_is_summed_as_the_sender_did() {
    for (kind, units) in [(3_u8, 3), (253, 3), (0, 1), (2, 1), (4, 1)] {
        let below = Below { routing: Some(units), ..plain(true) };
        let (payload, transport) = ([7; 250], below.transport());
        let mut frame = below.udp(&payload);
        frame[54 + 2..54 + 4].copy_from_slice(&[kind, 1]);
        let covered = (frame.len() - transport) as u32;
        let sum = checksum::pseudo_v6(&SOURCE_V6, &DESTINATION_V6, 17, covered);
        frame[transport + 6..transport + 8].copy_from_slice(&sum.to_be_bytes());
        // Elsewhere on its way it is for a router.
        frame[14 + 24..14 + 40].fill(0xbb);
        let mut offload = below.offload(SegmentKind::UdpSegments, 100);
        let pieces = cut(&frame, 64, &offload).unwrap();
        assert_eq!(pieces.len(), 3);
        for (piece, part) in pieces.iter().zip(payload.chunks(100)) {
            assert_eq!(piece[transport..], below.udp(part)[transport..], "type {kind}");
        }
        offload.checksum = None;
        assert_eq!(cut(&frame, 64, &offload).unwrap_err(), SegmentError::Routing(kind));
    }
}
