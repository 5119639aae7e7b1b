//! A frame whose head was replaced is delivered as if its sender had sent it so.
use frame::{EditedFrames, HeadEdit, WINDOW_BYTES, Windows};

use super::*;

/// The frame of a batch, edited, with a window of `window` bytes.
fn edited(batch: &FrameBatch, window: usize, edit: &HeadEdit<'_>) -> Result<EditedFrames, DropReason> {
    let (mut windows, mut edited) = (Windows::new(1), EditedFrames::new(1).unwrap());
    let window = windows.extend(0, batch.frame(0), window);
    edited.push(batch, 0, window, edit).map(|()| edited)
}

/// The expected bytes of an edited frame.
fn changed(frame: &[u8], edit: &HeadEdit<'_>) -> Vec<u8> {
    [&frame[..edit.at], edit.inserted, &frame[edit.at + edit.removed..]].concat()
}

/// Edits of tags: the number of bytes that are removed behind the addresses, and the bytes that are inserted.
fn tag_edits() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let tag = prop_oneof![Just([0x81, 0, 0, 10]), Just([0x88, 0xa8, 0x60, 20])];
    (0_usize..=2, prop::collection::vec(tag, 0..=2)).prop_map(|(removed, tags)| (4 * removed, tags.concat()))
}

/// The frame with two tags, for edits that take them out.
fn tagged((header, mut frame): (NetHeader, Vec<u8>)) -> (NetHeader, Vec<u8>) {
    frame.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0, 8]);
    (NetHeader { csum_start: header.csum_start + 8, ..header }, frame)
}

proptest! {
    #[test]
    fn any_edit_of_any_frame_gives_the_bytes_of_the_book(
        len in 14usize..700,
        window in 0usize..300,
        places: (prop::sample::Index, prop::sample::Index),
        inserted in prop::collection::vec(any::<u8>(), 0..=256),
        splits in prop::collection::vec(0usize..100, 0..4),
        split in 0usize..200,
    ) {
        let frame = bytes(len);
        let batch = batch_of(NetHeader::default(), &frame, &splits).unwrap();
        let known = window.clamp(64, WINDOW_BYTES).min(len);
        let at = places.0.index(known + 1);
        let removed = places.1.index(known - at + 1);
        let edit = HeadEdit { at, removed, inserted: &inserted };
        let expected = changed(&frame, &edit);
        let edited = edited(&batch, window, &edit);
        if expected.len() < 14 {
            prop_assert_eq!(edited.map(|_| ()), Err(DropReason::TooShort));
            return Ok(());
        }
        let edited = edited.unwrap();
        prop_assert_eq!(edited.batch().frame(0).snapshot(), &expected[..expected.len().min(64)]);
        let got = deliver(edited.batch(), &Accepts::NOTHING, split).unwrap();
        prop_assert_eq!(got, vec![(NetHeader { num_buffers: 1, ..NetHeader::default() }, expected.clone())]);
        // And the usual way, to one buffer.
        let file = sealed_memfd(c"room", AREA).unwrap();
        let mapping = Mapping::shared(&file, 0, AREA).unwrap();
        let all = SharedSlice::of_mapping(&mapping);
        let room = all.slice(0, 12 + expected.len());
        prop_assert_eq!(write_plain(Temporal, &edited.batch().frame(0), room, HeaderLayout::Full, 1), Some(12 + expected.len()));
        let mut got = vec![0; expected.len()];
        all.slice(12, expected.len()).read(&mut got);
        prop_assert_eq!(got, expected);
    }

    /// Checksums and segments too: `sent` is the frame as its sender would have sent it with these tags.
    #[test]
    fn offloads_are_done_behind_other_tags(
        v6: bool,
        len in 0usize..8000,
        mss in prop::option::of(536u16..3000),
        (removed, inserted) in tag_edits(),
        takes in 0usize..3,
        splits in prop::collection::vec(0usize..200, 0..4),
        split in 0usize..200,
    ) {
        let (header, frame) = tagged(tcp(v6, &bytes(len)));
        let gso_type = match (mss, v6) {
            (None, _) => NetHeader::GSO_NONE,
            (_, true) => NetHeader::GSO_TCPV6,
            (_, false) => NetHeader::GSO_TCPV4,
        };
        let hdr_len = header.csum_start + 20;
        let header = NetHeader { gso_type, gso_size: mss.unwrap_or(0), hdr_len, ..header };
        let edit = HeadEdit { at: 12, removed, inserted: &inserted };
        let batch = batch_of(header, &frame, &splits).unwrap();
        let moved = |place: u16| place + inserted.len() as u16 - removed as u16;
        let header = NetHeader { csum_start: moved(header.csum_start), hdr_len: moved(hdr_len), ..header };
        let sent = batch_of(header, &changed(&frame, &edit), &[]).unwrap();
        let all = Accepts { checksum: true, tcp_v4: true, tcp_v6: true, ..Accepts::NOTHING };
        let accepts = [Accepts::NOTHING, CHECKSUM_ONLY, all][takes];
        let edited = edited(&batch, 0, &edit).unwrap();
        let got = deliver(edited.batch(), &accepts, split).unwrap();
        let mut expected = deliver(&sent, &accepts, split).unwrap();
        if let (None, [(header, _)]) = (mss, &mut expected[..]) {
            // The hint says nothing of a frame that is not cut.
            header.hdr_len = got[0].0.hdr_len;
        }
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn a_checksum_without_a_place_in_the_edited_frame_is_a_drop() {
    let (header, frame) = tcp(false, &bytes(100));
    let batch = batch_of(header, &frame, &[]).unwrap();
    let reason = |edit: HeadEdit<'_>| edited(&batch, 0, &edit).map(|_| ()).unwrap_err();
    // The checksum begins at 34 and is stored at 50.
    assert_eq!(reason(HeadEdit { at: 14, removed: 24, inserted: &[] }), DropReason::OffloadImpossible);
    assert_eq!(reason(HeadEdit { at: 36, removed: 15, inserted: &[] }), DropReason::OffloadImpossible);
    assert_eq!(reason(HeadEdit { at: 12, removed: 53, inserted: &[] }), DropReason::TooShort);
    assert_eq!(reason(HeadEdit { at: usize::MAX, removed: 1, inserted: &[] }), DropReason::TooShort);
    assert_eq!(reason(HeadEdit { at: 12, removed: 0, inserted: &[0; 257] }), DropReason::TooLong);
    let longest = bytes(LARGEST_FRAME_BYTES);
    let batch = batch_of(NetHeader::default(), &longest, &[]).unwrap();
    let tag = HeadEdit { at: 12, removed: 0, inserted: &[0x81, 0, 0, 1] };
    assert_eq!(edited(&batch, 0, &tag).map(|_| ()).unwrap_err(), DropReason::TooLong);
}
