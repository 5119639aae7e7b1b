//! UFO: the fragments are valid, and together they are the datagram.
use etherparse::{LaxNetSlice, LaxSlicedPacket};

use super::*;

proptest! {
    #[test]
    fn fragments_make_up_the_datagram(
        below in below(),
        payload in prop::collection::vec(any::<u8>(), 0..6000),
        segment_bytes in 100_u16..3000,
        partial: bool,
        first in 0_usize..300,
    ) {
        let right = below.udp(&payload);
        let mut frame = right.clone();
        let mut offload = below.offload(SegmentKind::UdpFragments, segment_bytes);
        match partial {
            true => frame[below.transport() + 6..][..2].copy_from_slice(&[0xde, 0xad]),
            false => offload.checksum = None,
        }
        let pieces = cut(&frame, first, &offload).unwrap();
        let fragmentable = below.fragmentable();
        let fits = frame.len() - fragmentable <= segment_bytes.into();
        prop_assert_eq!(fits, pieces.len() == 1);
        if fits {
            prop_assert_eq!(&pieces[0], &right);
            return Ok(());
        }
        let mut datagram = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let last = i + 1 == pieces.len();
            // Not the strict parser: it reads a later fragment's data as the header that the first one has.
            let parsed = LaxSlicedPacket::from_ethernet(piece).unwrap();
            prop_assert_eq!(parsed.vlan_ids().len(), below.tags);
            let (offset, more, header_bytes) = match parsed.net.unwrap() {
                LaxNetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                    prop_assert_eq!(usize::from(header.total_len), piece.len() - below.network());
                    prop_assert_eq!(header.identification, below.identification);
                    prop_assert!(!header.dont_fragment);
                    if i == 0 {
                        prop_assert_eq!(&header.options[..], &below.options[..]);
                    }
                    (header.fragment_offset, header.more_fragments, fragmentable)
                }
                LaxNetSlice::Ipv6(ip) => {
                    let header = ip.header().to_header();
                    prop_assert_eq!(usize::from(header.payload_length), piece.len() - below.network() - 40);
                    let (extensions, ..) =
                        Ipv6Extensions::from_slice_lax(header.next_header, &piece[below.network() + 40..]);
                    let fragment = extensions.fragment.unwrap();
                    prop_assert_eq!(fragment.identification, 0x1234_5678);
                    prop_assert_eq!(extensions.hop_by_hop_options.is_some(), below.hop_by_hop.is_some());
                    (fragment.fragment_offset, fragment.more_fragments, fragmentable + 8)
                }
                LaxNetSlice::Arp(_) => unreachable!(),
            };
            prop_assert_eq!(offset.byte_offset() as usize, datagram.len());
            prop_assert_eq!(more, !last);
            let data = &piece[header_bytes..];
            prop_assert!(data.len() <= segment_bytes.into() && !data.is_empty());
            prop_assert!(last || data.len() % 8 == 0);
            datagram.extend_from_slice(data);
        }
        prop_assert_eq!(&datagram[..], &right[fragmentable..]);
    }
}

/// RFC 791 §3.1: record route (7) is for the first fragment only, router alert (0x94) for all.
#[test]
fn options_that_are_not_copied_become_no_operations() {
    let options = vec![0x94, 4, 0, 0, 7, 7, 4, 1, 2, 3, 4, 0];
    let below = Below { tags: 1, identification: 5, options, ..plain(false) };
    let frame = below.udp(&[5; 3000]);
    let pieces = cut(&frame, 64, &below.offload(SegmentKind::UdpFragments, 1480)).unwrap();
    let options = |piece: &Vec<u8>| piece[38..50].to_vec();
    assert_eq!(pieces.len(), 3);
    assert_eq!(options(&pieces[0]), below.options);
    assert_eq!(options(&pieces[1]), [0x94, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(options(&pieces[2]), options(&pieces[1]));
}

#[test]
fn a_fragments_checksum_cannot_be_left_to_the_receiver() {
    let below = Below { identification: 0, dont_fragment: false, destination: Some(1), ..plain(true) };
    let frame = below.udp(&[5; 3000]);
    let offload = below.offload(SegmentKind::UdpFragments, 1448);
    let plan = Plan::new(&frame, frame.len() as u32, &offload, 0).unwrap();
    assert_eq!(plan.sum_of(), SumOf::Frame);
    let mut headers = Headers::new();
    plan.write(0, &mut headers).unwrap();
    assert_eq!(headers.leave_partial(), None);
    plan.write(1, &mut headers).unwrap();
    assert_eq!(headers.leave_partial(), Some(Offload::NONE));
    // The first fragment must hold destination options and UDP header.
    let too_small = below.offload(SegmentKind::UdpFragments, 15);
    let error = Plan::new(&frame, frame.len() as u32, &too_small, 0).unwrap_err();
    assert_eq!(error, SegmentError::FragmentTooSmall { segment_bytes: 15, needed: 16 });
}
