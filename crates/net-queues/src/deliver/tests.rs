use std::sync::Arc;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use frame::{DropReason, FrameBatch, LARGEST_FRAME_BYTES};
use memory::{
    Access, AddressSpace, Mapping, NonTemporal, Region, RegionRange, SharedSlice, Translator, sealed_memfd,
};
use proptest::prelude::*;
use virtio::net::{Accepts, HeaderLayout, NetHeader, checksum};

mod edited;

use super::{GsoOutput, Scratch, write_plain};
use crate::cache_policy::{Stores, Temporal};

const AREA: u64 = 1 << 18;

/// A frame with its net header, in slices of these lengths (the last takes the rest).
fn batch_of(header: NetHeader, frame: &[u8], splits: &[usize]) -> Result<FrameBatch, DropReason> {
    let file = sealed_memfd(c"frame", AREA).unwrap();
    let bytes: Vec<u8> = header.to_bytes().into_iter().chain(frame.iter().copied()).collect();
    // Pieces lie apart, so that a copy that runs on where one ends is seen.
    let mut at = 0;
    let mut place = 0u64;
    let mut places = Vec::new();
    for &split in splits.iter().chain([&usize::MAX]) {
        let len = split.min(bytes.len() - at);
        rustix::io::pwrite(&file, &bytes[at..at + len], place).unwrap();
        places.push((place, len as u32));
        place += len as u64 + 3;
        at += len;
    }
    let space = AddressSpace::from_regions([Region::map(&file, RegionRange::at(0, AREA)).unwrap()]).unwrap();
    let mut translator = Translator::new(Arc::new(space));
    let mut batch = FrameBatch::of_memory(1);
    for (place, len) in places {
        translator.builder(batch.arena_mut().unwrap()).push(place, len, Access::Read).unwrap();
    }
    batch.push(0, HeaderLayout::Full)?;
    Ok(batch)
}

/// The net headers and frames that a receiver gets. Its buffers are split too.
fn deliver(
    batch: &FrameBatch,
    accepts: &Accepts,
    split: usize,
) -> Result<Vec<(NetHeader, Vec<u8>)>, DropReason> {
    let file = sealed_memfd(c"room", AREA).unwrap();
    let mapping = Mapping::shared(&file, 0, AREA).unwrap();
    let all = SharedSlice::of_mapping(&mapping);
    let mut scratch = Scratch::default();
    let output = GsoOutput::of(batch.frame(0), accepts, &mut scratch)?;
    let got = (0..output.count()).map(|i| {
        let bytes = NetHeader::BYTES + output.len_bytes(i);
        let first = split.min(bytes);
        all.write(&vec![0xee; AREA as usize]);
        let to = [all.slice(0, first), all.slice(100_000, bytes - first)];
        assert_eq!(output.write(i, &to, HeaderLayout::Full, 1), bytes);
        let mut delivered = vec![0; bytes];
        to[0].read(&mut delivered[..first]);
        to[1].read(&mut delivered[first..]);
        let mut guard = [0];
        all.slice(100_000 + bytes - first, 1).read(&mut guard);
        assert_eq!(guard, [0xee], "nothing is written behind the frame");
        let header = delivered[..NetHeader::BYTES].try_into().unwrap();
        (NetHeader::from_bytes(&header, HeaderLayout::Full), delivered[NetHeader::BYTES..].to_vec())
    });
    Ok(got.collect())
}

/// A TCP frame whose checksum is left partial, as a guest sends it.
fn tcp(v6: bool, payload: &[u8]) -> (NetHeader, Vec<u8>) {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    let (start, pseudo) = if v6 {
        builder.ipv6([1; 16], [2; 16], 64).tcp(1, 2, 1000, 500).write(&mut frame, payload).unwrap();
        (54, checksum::pseudo_v6(&[1; 16], &[2; 16], 6, (frame.len() - 54) as u32))
    } else {
        builder
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1, 2, 1000, 500)
            .write(&mut frame, payload)
            .unwrap();
        (34, checksum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, (frame.len() - 34) as u16))
    };
    frame[start + 16..start + 18].copy_from_slice(&pseudo.to_be_bytes());
    let flags = NetHeader::F_NEEDS_CSUM;
    (NetHeader { flags, csum_start: start as u16, csum_offset: 16, ..NetHeader::default() }, frame)
}

/// The payload of a TCP segment whose checksums are right, with its sequence number.
fn sound_segment(frame: &[u8]) -> (u32, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("TCP") };
    let header = tcp.to_header();
    let expected = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            header.calc_checksum_ipv4(&ip, tcp.payload())
        }
        NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()),
        other => panic!("{other:?}"),
    };
    // All ones say the same as zero to every verifier, and we never store zero.
    let expected = expected.map(|sum| if sum == 0 { 0xffff } else { sum });
    assert_eq!(Ok(header.checksum), expected);
    (header.sequence_number, tcp.payload().to_vec())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + 7) as u8).collect()
}

const CHECKSUM_ONLY: Accepts = Accepts { checksum: true, ..Accepts::NOTHING };

proptest! {
    #[test]
    fn a_plain_frame_arrives_as_it_was(len in 14usize..3000, splits in prop::collection::vec(0usize..300, 0..4), split in 0usize..200) {
        let frame = bytes(len);
        let batch = batch_of(NetHeader::default(), &frame, &splits).unwrap();
        let got = deliver(&batch, &Accepts::NOTHING, split).unwrap();
        prop_assert_eq!(got, vec![(NetHeader { num_buffers: 1, ..NetHeader::default() }, frame)]);
    }

    #[test]
    fn a_partial_checksum_is_finished_or_passed_on(v6: bool, len in 0usize..2000, splits in prop::collection::vec(0usize..100, 0..4), split in 0usize..200) {
        let (header, frame) = tcp(v6, &bytes(len));
        let batch = batch_of(header, &frame, &splits).unwrap();
        let got = deliver(&batch, &Accepts::NOTHING, split).unwrap();
        prop_assert_eq!(got[0].0, NetHeader { num_buffers: 1, ..NetHeader::default() });
        prop_assert_eq!(sound_segment(&got[0].1).1, bytes(len));
        let got = deliver(&batch, &CHECKSUM_ONLY, split).unwrap();
        prop_assert_eq!(got, vec![(NetHeader { num_buffers: 1, ..header }, frame)]);
    }

    #[test]
    fn a_large_frame_is_segmented_for_who_does_not_take_it_whole(v6: bool, len in 1usize..20000, mss in 64u16..3000, partial: bool, splits in prop::collection::vec(0usize..2000, 0..4), split in 0usize..200) {
        let payload = bytes(len);
        let (header, frame) = tcp(v6, &payload);
        let gso_type = if v6 { NetHeader::GSO_TCPV6 } else { NetHeader::GSO_TCPV4 };
        let batch = batch_of(NetHeader { gso_type, gso_size: mss, ..header }, &frame, &splits).unwrap();
        let accepts = if partial { CHECKSUM_ONLY } else { Accepts::NOTHING };
        let got = deliver(&batch, &accepts, split).unwrap();
        prop_assert_eq!(got.len(), len.div_ceil(usize::from(mss)));
        let mut whole = Vec::new();
        for (header, mut segment) in got {
            if partial {
                prop_assert_eq!(header.flags, NetHeader::F_NEEDS_CSUM);
                let at = usize::from(header.csum_start);
                let field = at + usize::from(header.csum_offset);
                let sum = checksum::nonzero_field(checksum::sum(&segment[at..]));
                segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let (sequence, payload) = sound_segment(&segment);
            prop_assert_eq!(sequence as usize, 1000 + whole.len());
            whole.extend(payload);
        }
        prop_assert_eq!(whole, payload);
    }
}

#[test]
fn a_datagram_in_fragments_has_one_checksum_over_all_of_them() {
    let payload = bytes(5001);
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.udp(5, 6).write(&mut frame, &payload).unwrap();
    let right = u16::from_be_bytes([frame[40], frame[41]]);
    let pseudo = checksum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 17, (frame.len() - 34) as u16);
    frame[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: NetHeader::GSO_UDP,
        gso_size: 1480,
        csum_start: 34,
        csum_offset: 6,
        ..NetHeader::default()
    };
    let batch = batch_of(header, &frame, &[100]).unwrap();
    let got = deliver(&batch, &Accepts::NOTHING, 50).unwrap();
    assert_eq!(got.len(), 4);
    let datagram: Vec<u8> = got.iter().flat_map(|(_, fragment)| fragment[34..].to_vec()).collect();
    assert_eq!(u16::from_be_bytes([datagram[6], datagram[7]]), right);
    assert_eq!(datagram[8..], payload);
}

#[test]
fn what_cannot_be_finished_is_a_drop_with_its_reason() {
    let reason = |header, frame: &[u8]| {
        deliver(&batch_of(header, frame, &[]).unwrap(), &Accepts::NOTHING, 99).unwrap_err()
    };
    let (header, frame) = tcp(false, &bytes(3000));
    // A checksum far behind any header, and one in another place than TCP's.
    assert_eq!(reason(NetHeader { csum_start: 2000, ..header }, &frame), DropReason::OffloadImpossible);
    let split = NetHeader { gso_type: NetHeader::GSO_TCPV4, gso_size: 1000, ..header };
    assert_eq!(reason(NetHeader { csum_start: 30, ..split }, &frame), DropReason::OffloadImpossible);
    assert_eq!(reason(NetHeader { gso_size: 1, ..split }, &frame), DropReason::OffloadImpossible);
    assert_eq!(reason(split, &frame[..53]), DropReason::OffloadImpossible);
}

/// Each segment's start is searched among the sender's slices, so a finely split frame becomes few segments.
#[test]
fn a_finely_split_frame_is_not_cut_finely() {
    let (header, frame) = tcp(false, &bytes(32_000));
    let segments = |slices: usize, gso_size: u16| {
        let header = NetHeader { gso_type: NetHeader::GSO_TCPV4, gso_size, ..header };
        let batch = batch_of(header, &frame, &vec![32; slices - 1]).unwrap();
        GsoOutput::of(batch.frame(0), &Accepts::NOTHING, &mut Scratch::default()).map(|output| output.count())
    };
    for (slices, gso_size, expected) in [(131, 64, 500), (1000, 500, 64), (1, 64, 500)] {
        assert_eq!(segments(slices, gso_size), Ok(expected), "{slices} slices, {gso_size} bytes a segment");
    }
    for (slices, gso_size) in [(132, 64), (1000, 64), (1000, 480)] {
        assert_eq!(
            segments(slices, gso_size),
            Err(DropReason::OffloadImpossible),
            "{slices} slices, {gso_size} bytes a segment"
        );
    }
}

#[test]
fn headers_that_lie_are_refused_when_lent() {
    let refused = |header, len| batch_of(header, &bytes(len), &[]).unwrap_err();
    let (header, _) = tcp(false, &[]);
    assert_eq!(refused(header, 51), DropReason::MalformedHeader);
    assert_eq!(refused(NetHeader { csum_offset: u16::MAX, ..header }, 2000), DropReason::MalformedHeader);
    assert_eq!(refused(NetHeader { gso_type: 77, ..header }, 2000), DropReason::MalformedHeader);
    assert_eq!(refused(NetHeader::default(), 13), DropReason::TooShort);
}

/// Frames without a net header, as AF_XDP gives them.
#[test]
fn complete_frames_have_the_same_limits() {
    let file = sealed_memfd(c"frame", AREA).unwrap();
    let space = AddressSpace::from_regions([Region::map(&file, RegionRange::at(0, AREA)).unwrap()]).unwrap();
    let mut translator = Translator::new(Arc::new(space));
    let mut batch = FrameBatch::of_memory(4);
    for len in [13, 14, LARGEST_FRAME_BYTES as u32, LARGEST_FRAME_BYTES as u32 + 1] {
        translator.builder(batch.arena_mut().unwrap()).push(0, len, Access::Read).unwrap();
    }
    let mut refused = Vec::new();
    batch.push_each_complete(0, |reason| refused.push(reason));
    assert_eq!(refused, [DropReason::TooShort, DropReason::TooLong]);
    let lengths: Vec<_> = batch.frames().map(|frame| frame.len_bytes()).collect();
    assert_eq!(lengths, [14, LARGEST_FRAME_BYTES]);
}

#[test]
fn a_verified_checksum_is_told_only_to_who_asked_for_it() {
    let header = NetHeader { flags: NetHeader::F_DATA_VALID, ..NetHeader::default() };
    let batch = batch_of(header, &bytes(100), &[]).unwrap();
    assert_eq!(deliver(&batch, &Accepts::NOTHING, 99).unwrap()[0].0.flags, 0);
    assert_eq!(deliver(&batch, &CHECKSUM_ONLY, 99).unwrap()[0].0.flags, NetHeader::F_DATA_VALID);
}

/// Frames of every length around the snapshot's, in buffers of exactly their length: all of the frame and nothing else
/// is written, because the bytes behind it in the snapshot belong to another guest.
#[test]
fn plain_frames_are_written_to_their_last_byte_and_no_further() {
    plain_frames_are_written_whole(Temporal);
    match NonTemporal::detect() {
        Some(non_temporal) => plain_frames_are_written_whole(non_temporal),
        None => println!("this processor has no stores that go past the caches: one kind only"),
    }
}

fn plain_frames_are_written_whole(stores: impl Stores) {
    for layout in [HeaderLayout::Full, HeaderLayout::Legacy] {
        for len in (14..=140).chain([1514, 9014]) {
            let frame: Vec<u8> = (0..len).map(|i| (i * 7) as u8 | 1).collect();
            let frame_at = layout.bytes();
            // In one slice, with the header in one of its own, and split elsewhere.
            let splits: [&[usize]; 5] = [&[], &[12], &[5], &[90], &[12, 13, 80]];
            for (splits, spare) in splits.into_iter().zip([0, 1, 100].into_iter().cycle()) {
                let splits: Vec<usize> = splits.iter().copied().filter(|split| *split < 12 + len).collect();
                let batch = batch_of(NetHeader::default(), &frame, &splits).unwrap();
                let file = sealed_memfd(c"room", AREA).unwrap();
                let mapping = Mapping::shared(&file, 0, AREA).unwrap();
                let all = SharedSlice::of_mapping(&mapping);
                let mut got = vec![0xee; frame_at + len + 200];
                all.write(&got);
                let room = frame_at + len + spare;
                let small = all.slice(0, room - spare - 1);
                assert_eq!(write_plain(stores, &batch.frame(0), small, layout, 1), None);
                all.read(&mut got);
                assert!(got.iter().all(|byte| *byte == 0xee), "no room, and nothing is written");
                let written = write_plain(stores, &batch.frame(0), all.slice(0, room), layout, 1);
                stores.finish();
                assert_eq!(written, Some(frame_at + len));
                all.read(&mut got);
                let expected = NetHeader { num_buffers: 1, ..NetHeader::default() }.to_bytes();
                assert_eq!(got[..frame_at], expected[..frame_at], "{layout:?}, {len}");
                assert_eq!(got[frame_at..frame_at + len], frame, "{layout:?}, {len}");
                assert!(got[frame_at + len..].iter().all(|byte| *byte == 0xee), "{layout:?}, {len}");
            }
        }
    }
}

/// Frames that need more than a copy to one buffer take the general path.
#[test]
fn frames_with_something_to_be_done_are_not_plain() {
    let file = sealed_memfd(c"room", AREA).unwrap();
    let mapping = Mapping::shared(&file, 0, AREA).unwrap();
    let room = SharedSlice::of_mapping(&mapping);
    let (header, frame) = tcp(false, &[7; 100]);
    let partial = batch_of(header, &frame, &[]).unwrap();
    assert_eq!(write_plain(Temporal, &partial.frame(0), room, HeaderLayout::Full, 1), None);
    let in_pieces = batch_of(header, &frame, &[80]).unwrap();
    assert_eq!(write_plain(Temporal, &in_pieces.frame(0), room, HeaderLayout::Full, 1), None);
}
