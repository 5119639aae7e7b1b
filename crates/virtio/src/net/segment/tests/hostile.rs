//! Frames that contradict themselves: an error or sound pieces, never a panic.
use super::*;

fn tcp_frame(v6: bool, payload_bytes: usize) -> (Vec<u8>, Below) {
    let below = plain(v6);
    let frame = below.tcp(&TcpHeader::new(1, 2, 3, 4), &vec![9; payload_bytes]);
    (frame, below)
}

/// What [`cut`] answers once a TCP frame over IPv4 was changed.
fn changed(at: usize, value: u8) -> SegmentError {
    let (mut frame, below) = tcp_frame(false, 1000);
    frame[at] = value;
    cut(&frame, 64, &below.offload(SegmentKind::TcpV4, 300)).unwrap_err()
}

#[test]
fn headers_that_contradict_the_frame_are_named() {
    let kind = SegmentKind::TcpV4;
    assert_eq!(changed(13, 6), SegmentError::EtherType { ether_type: 0x806, kind });
    assert_eq!(changed(14, 0x44), SegmentError::IpVersion(0x44));
    assert_eq!(changed(14, 0x65), SegmentError::IpVersion(0x65));
    assert_eq!(changed(17, 1), SegmentError::Length { header: "IPv4", said: 0x401, actual: 1040 });
    assert_eq!(changed(20, 0x20), SegmentError::Fragment);
    assert_eq!(changed(21, 1), SegmentError::Fragment);
    assert_eq!(changed(23, 17), SegmentError::Protocol { protocol: 17, kind });
    assert_eq!(changed(46, 0x40), SegmentError::DataOffset(4));

    let (frame, below) = tcp_frame(false, 1000);
    let (wrong, mut offset) = (below.offload(SegmentKind::TcpV6, 300), below.offload(kind, 300));
    let mut start = offset;
    start.checksum.as_mut().unwrap().start = 38;
    assert!(matches!(cut(&frame, 64, &start), Err(SegmentError::ChecksumElsewhere { start: 38, .. })));
    assert!(matches!(cut(&frame, 64, &wrong), Err(SegmentError::EtherType { .. })));
    offset.checksum.as_mut().unwrap().offset = 6;
    assert!(matches!(cut(&frame, 64, &offset), Err(SegmentError::ChecksumElsewhere { offset: 6, .. })));
    assert!(matches!(cut(&frame, 64, &Offload::NONE), Err(SegmentError::NothingToCut)));
}

#[test]
fn lengths_of_zero_are_left_for_us_to_fill_in() {
    for v6 in [false, true] {
        let below = plain(v6);
        let right = below.udp(&[3; 100]);
        let mut frame = right.clone();
        let length = if v6 { 18 } else { 16 };
        frame[length..length + 2].fill(0);
        frame[below.transport() + 4..][..2].fill(0);
        let pieces = cut(&frame, 64, &below.offload(SegmentKind::UdpSegments, 100)).unwrap();
        assert_eq!(pieces, [right]);
    }
}

#[test]
fn every_truncated_frame_is_an_error_that_says_so() {
    for v6 in [false, true] {
        let (frame, below) = tcp_frame(v6, 0);
        let kind = if v6 { SegmentKind::TcpV6 } else { SegmentKind::TcpV4 };
        for len in 0..frame.len() {
            let error = cut(&frame[..len], 300, &below.offload(kind, 300)).unwrap_err();
            assert!(
                matches!(error, SegmentError::Truncated { needed, available }
                if available == len && (len + 1..=frame.len()).contains(&needed)),
                "{len}: {error}"
            );
        }
    }
}

#[test]
fn work_and_lengths_are_bounded() {
    let (frame, below) = tcp_frame(false, 65_495);
    let offload = |segment_bytes| below.offload(SegmentKind::TcpV4, segment_bytes);
    assert_eq!(cut(&frame, 64, &offload(64)).unwrap().len(), 1024);
    assert_eq!(
        cut(&frame, 64, &offload(63)).unwrap_err(),
        SegmentError::TooManyPieces { segment_bytes: 63, pieces: 1040 }
    );
    let plan = |bytes| Plan::new(&frame[..64], bytes, &offload(1448), 0).map(|plan| plan.pieces());
    assert_eq!(plan(frame.len() as u32), Ok(46));
    assert_eq!(plan(frame.len() as u32 + 1), Err(SegmentError::TooLong(65_536)));
    assert_eq!(plan(u32::MAX), Err(SegmentError::TooLong(u32::MAX - 14)));

    // The longest IPv6 datagram has no room for a fragment header in one nearly as long.
    let below = plain(true);
    let frame = below.udp(&vec![9; 65_527]);
    let offload = |segment_bytes| below.offload(SegmentKind::UdpFragments, segment_bytes);
    assert_eq!(cut(&frame, 64, &offload(65_535)).unwrap().len(), 1);
    assert!(matches!(cut(&frame, 64, &offload(65_534)), Err(SegmentError::TooLong(_))));
    assert_eq!(cut(&frame, 64, &offload(65_527)).unwrap().len(), 2);

    // Tags without end.
    let tags = [0x81, 0].repeat(400);
    let error = cut(&tags, 64, &offload(100)).unwrap_err();
    assert!(matches!(error, SegmentError::HeadersTooLong(_)), "{error}");
}

#[test]
fn a_reserved_flag_is_part_of_the_header_checksum() {
    const RESERVED: u8 = 0x80;
    let (mut frame, below) = tcp_frame(false, 1000);
    let flags = below.network() + 6;
    frame[flags] |= RESERVED;
    for piece in cut(&frame, 64, &below.offload(SegmentKind::TcpV4, 300)).unwrap() {
        assert_eq!(piece[flags] & RESERVED, RESERVED);
        assert_eq!(checksum::sum(&piece[below.network()..below.transport()]), 0xffff);
    }
}

/// Whatever was accepted: the payload goes over whole and in order, and the IP headers are right.
fn assert_sound(frame: &[u8], pieces: &[Vec<u8>], plan: &Plan) {
    let mut at = plan.segment(0).unwrap().payload.start;
    assert!(!pieces.is_empty() && pieces.len() <= MAX_PIECES as usize);
    for (bytes, piece) in pieces.iter().zip(plan.iter()) {
        assert!(piece.header_bytes <= MAX_HEADER_BYTES);
        assert_eq!((piece.payload.start, piece.bytes() as usize), (at, bytes.len()));
        at = piece.payload.end;
        let parsed = etherparse::LaxSlicedPacket::from_ethernet(bytes).unwrap();
        match parsed.net.expect("only IP is cut") {
            etherparse::LaxNetSlice::Ipv4(ip) => {
                // Of the bytes as they are: a parsed header has forgotten the reserved flag.
                assert_eq!(checksum::sum(ip.header().slice()), 0xffff);
                let network = usize::from(ip.header().total_len());
                assert_eq!(bytes[bytes.len() - network] >> 4, 4);
            }
            etherparse::LaxNetSlice::Ipv6(ip) => {
                let network = 40 + usize::from(ip.header().payload_length());
                assert_eq!(bytes[bytes.len() - network] >> 4, 6);
            }
            etherparse::LaxNetSlice::Arp(_) => panic!("only IP is cut"),
        }
    }
    assert_eq!(at as usize, frame.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutilated_headers_give_an_error_or_sound_pieces(
        below in below(),
        udp: bool,
        payload_bytes in 0_usize..3000,
        changes in prop::collection::vec((0_usize..150, any::<u8>()), 0..4),
        cut_off in prop::option::weighted(0.2, 0_usize..200),
        kind in prop::sample::select(vec![
            SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::UdpFragments, SegmentKind::UdpSegments,
        ]),
        segment_bytes in prop_oneof![1_u16..=u16::MAX, 1_u16..200],
        (start, offset) in (prop::option::weighted(0.1, any::<u16>()), prop::option::weighted(0.1, any::<u16>())),
        with_checksum in prop::bool::weighted(0.8),
        first in 0_usize..300,
    ) {
        let payload = vec![0x5a; payload_bytes];
        let mut frame = match udp {
            true => below.udp(&payload),
            false => below.tcp(&TcpHeader::new(1, 2, 3, 4), &payload),
        };
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(cut_off.unwrap_or(frame.len()));
        let mut offload = below.offload(kind, segment_bytes);
        let checksum = offload.checksum.as_mut().unwrap();
        checksum.start = start.unwrap_or(checksum.start);
        checksum.offset = offset.unwrap_or(checksum.offset);
        offload.checksum = offload.checksum.filter(|_| with_checksum);
        if let Ok(pieces) = cut(&frame, first, &offload) {
            let plan = Plan::new(&frame, frame.len() as u32, &offload, 0x1234_5678).unwrap();
            assert_sound(&frame, &pieces, &plan);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        head in prop::collection::vec(any::<u8>(), 0..300),
        tail in 0_u32..70_000,
        kind in prop::sample::select(vec![SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::UdpFragments]),
        v6: bool,
    ) {
        let mut head = head;
        if let Some(bytes) = head.get_mut(12..15) {
            bytes.copy_from_slice(if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x4f] });
        }
        let mut offload = plain(v6).offload(kind, 1400);
        offload.checksum = None;
        if let Ok(plan) = Plan::new(&head, head.len() as u32 + tail, &offload, 0) {
            let mut headers = Headers::new();
            for index in 0..plan.pieces() {
                plan.write(index, &mut headers).unwrap();
                headers.finish(index as u16);
            }
        }
        prop_assert!(headers_needed(&head, &offload) <= MAX_HEAD_BYTES);
    }
}
