use super::*;
use proptest::prelude::*;

const GSO_TYPES: [(u8, SegmentKind); 4] = [
    (NetHeader::GSO_TCPV4, SegmentKind::TcpV4),
    (NetHeader::GSO_TCPV6, SegmentKind::TcpV6),
    (NetHeader::GSO_UDP, SegmentKind::UdpFragments),
    (NetHeader::GSO_UDP_L4, SegmentKind::UdpSegments),
];

fn checksummed(csum_start: u16, csum_offset: u16) -> NetHeader {
    NetHeader { flags: NetHeader::F_NEEDS_CSUM, csum_start, csum_offset, ..NetHeader::default() }
}

fn segmented(gso_type: u8) -> NetHeader {
    NetHeader { gso_type, gso_size: 1448, hdr_len: 54, ..checksummed(34, 16) }
}

#[test]
fn a_checksum_lies_inside_the_frame_to_its_last_byte() {
    let partial = |start, offset| Ok(Some(PartialChecksum { start, offset }));
    let outside = |start, offset, frame_bytes| {
        Err::<Option<PartialChecksum>, _>(OffloadError::ChecksumOutside { start, offset, frame_bytes })
    };
    let parse = |start, offset, frame_bytes| {
        Offload::parse(checksummed(start, offset), frame_bytes).map(|offload| offload.checksum)
    };
    assert_eq!(parse(34, 16, 52), partial(34, 16));
    assert_eq!(parse(34, 16, 51), outside(34, 16, 51));
    assert_eq!(parse(14, 0, 16), partial(14, 0));
    assert_eq!(parse(14, 0, 15), outside(14, 0, 15));
    assert_eq!(parse(14, 0, 0), outside(14, 0, 0));
    // Sums that would come out small in 16 bits.
    assert_eq!(parse(u16::MAX, 0, 1500), outside(u16::MAX, 0, 1500));
    assert_eq!(parse(14, u16::MAX, 1500), outside(14, u16::MAX, 1500));
    assert_eq!(parse(u16::MAX, u16::MAX, 131_071), outside(u16::MAX, u16::MAX, 131_071));
    assert_eq!(parse(u16::MAX, u16::MAX, 131_072), partial(u16::MAX, u16::MAX));
    // Without the flag the fields mean nothing.
    let unused = NetHeader { flags: 0, ..checksummed(u16::MAX, u16::MAX) };
    assert_eq!(Offload::parse(unused, 60), Ok(Offload::NONE));
}

/// Where the receiver wants it finished it would be written to an address, behind all checks of these.
#[test]
fn no_checksum_covers_the_addresses() {
    for start in [0, 10, 13] {
        let parsed = Offload::parse(checksummed(start, 10 - start.min(10)), 60);
        assert_eq!(parsed, Err(OffloadError::ChecksumOfAddresses(start)));
    }
}

#[test]
fn only_known_segmentations_with_a_size_and_a_checksum_pass() {
    for (gso_type, kind) in GSO_TYPES {
        for ecn in [false, true] {
            let gso_type = gso_type | if ecn { NetHeader::GSO_ECN } else { 0 };
            let header = segmented(gso_type);
            let segmentation = Offload::parse(header, 4000).unwrap().segmentation.unwrap();
            assert_eq!((segmentation.kind, segmentation.ecn), (kind, ecn));
            assert_eq!((segmentation.segment_bytes.get(), segmentation.header_bytes_hint), (1448, 54));
            let empty = NetHeader { gso_size: 0, ..header };
            assert_eq!(Offload::parse(empty, 4000), Err(OffloadError::SegmentBytes(gso_type)));
            let complete = Offload::parse(NetHeader { flags: 0, ..header }, 4000);
            match kind {
                SegmentKind::UdpFragments => assert_eq!(complete.unwrap().checksum, None),
                _ => assert_eq!(complete, Err(OffloadError::WithoutChecksum(gso_type))),
            }
        }
    }
    let known: Vec<u8> = GSO_TYPES.iter().map(|(gso_type, _)| *gso_type).collect();
    for gso_type in (1..=u8::MAX).filter(|gso_type| !known.contains(&(gso_type & !NetHeader::GSO_ECN))) {
        let answer = Offload::parse(segmented(gso_type), 4000);
        assert_eq!(answer, Err(OffloadError::SegmentKind(gso_type)));
    }
}

#[test]
fn a_receiver_without_checksums_gets_no_flags() {
    let verified = NetHeader { flags: NetHeader::F_DATA_VALID, ..NetHeader::default() };
    let offload = Offload::parse(verified, 60).unwrap();
    assert!(offload.verified);
    assert_eq!(Accepts::NOTHING.header(&offload).flags, 0);
    assert_eq!(Accepts::NOTHING.delivery(&offload), Delivery::AsIs);
    let takes = Accepts { checksum: true, ..Accepts::NOTHING };
    assert_eq!(takes.header(&offload).flags, NetHeader::F_DATA_VALID);
}

/// What each feature lets through, on both sides.
#[test]
fn what_is_delivered_how_is_a_matter_of_the_negotiated_features() {
    let offload = |header| Offload::parse(header, 4000).unwrap();
    let kind = |gso_type| offload(segmented(gso_type));
    let frames = [
        Offload::NONE,
        offload(checksummed(34, 16)),
        kind(NetHeader::GSO_TCPV4),
        kind(NetHeader::GSO_TCPV6),
        kind(NetHeader::GSO_TCPV4 | NetHeader::GSO_ECN),
        kind(NetHeader::GSO_UDP),
        kind(NetHeader::GSO_UDP_L4),
    ];
    let (a, f, s) = (Delivery::AsIs, Delivery::FinishChecksum, Delivery::Segment);
    use crate::NetFeatures as F;
    #[rustfmt::skip]
    let table: [(&[Features], &[Features], [Delivery; 7]); 10] = [
        (&[], &[], [a, f, s, s, s, s, s]),
        (&[F::GUEST_CSUM], &[F::CSUM], [a, a, s, s, s, s, s]),
        // No segmentation without checksums, whatever else was negotiated (§5.1.3.1).
        (&[F::GUEST_TSO4], &[F::HOST_TSO4], [a, f, s, s, s, s, s]),
        (&[F::GUEST_CSUM, F::GUEST_TSO4], &[F::CSUM, F::HOST_TSO4], [a, a, a, s, s, s, s]),
        (&[F::GUEST_CSUM, F::GUEST_TSO6], &[F::CSUM, F::HOST_TSO6], [a, a, s, a, s, s, s]),
        (&[F::GUEST_CSUM, F::GUEST_ECN], &[F::CSUM, F::HOST_ECN], [a, a, s, s, s, s, s]),
        (&[F::GUEST_CSUM, F::GUEST_TSO4, F::GUEST_ECN],
         &[F::CSUM, F::HOST_TSO4, F::HOST_ECN], [a, a, a, s, a, s, s]),
        (&[F::GUEST_CSUM, F::GUEST_UFO], &[F::CSUM, F::HOST_UFO], [a, a, s, s, s, a, s]),
        (&[F::GUEST_CSUM, F::GUEST_USO4, F::GUEST_USO6], &[F::CSUM, F::HOST_USO],
         [a, a, s, s, s, s, a]),
        // One IP version of the two is not enough: the header does not say which it is.
        (&[F::GUEST_CSUM, F::GUEST_USO4], &[F::CSUM], [a, a, s, s, s, s, s]),
    ];
    for (driver, device, expected) in table {
        let of = |features: &[Features]| features.iter().fold(Features::empty(), |all, one| all.union(*one));
        for accepts in [Accepts::of_driver(of(driver)), Accepts::of_device(of(device))] {
            let delivered = frames.map(|offload| accepts.delivery(&offload));
            assert_eq!(delivered, expected, "{driver:?} {device:?}");
        }
        // The other side's features say nothing.
        assert_eq!(Accepts::of_driver(of(device)), Accepts::NOTHING);
        assert_eq!(Accepts::of_device(of(driver)), Accepts::NOTHING);
    }
}

proptest! {
    #[test]
    fn a_header_says_what_was_parsed(bytes: [u8; 12], frame_bytes in 0_u32..70_000, plausible: bool) {
        let mut header = NetHeader::from_bytes(&bytes, crate::net::HeaderLayout::Full);
        if plausible {
            header.flags &= 3;
            header.gso_type = [0, 1, 3, 4, 5, 0x81, 0x84][usize::from(header.gso_type) % 7];
            (header.csum_start, header.csum_offset) = (header.csum_start % 100, header.csum_offset % 20);
        }
        if let Ok(offload) = Offload::parse(header, frame_bytes) {
            let again = offload.header();
            prop_assert_eq!(again.num_buffers, 1);
            let expected = Offload { verified: offload.verified && offload.checksum.is_none(), ..offload };
            prop_assert_eq!(Offload::parse(again, frame_bytes), Ok(expected));
        }
    }
}
