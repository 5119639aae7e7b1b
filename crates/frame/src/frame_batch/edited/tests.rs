use virtio::net::{HeaderLayout, NetHeader};

use super::*;
use crate::Windows;

const ROOM: usize = 1024;

/// Frames of 300 bytes, the first of which is their number, and the memory that they lie in.
fn burst(frames: usize) -> (FrameBatch, OwnMemory) {
    let memory = OwnMemory::new(c"burst", (frames * ROOM) as u64).unwrap();
    let mut batch = FrameBatch::of_memory(frames);
    for index in 0..frames {
        memory.slice(index * ROOM + NetHeader::BYTES, 300).write(&[index as u8; 300]);
        let arena = batch.arena_mut().unwrap();
        let first = arena.len();
        memory.sg_builder().push(arena, (index * ROOM) as u64, (NetHeader::BYTES + 300) as u32);
        batch.push(first, HeaderLayout::Full).unwrap();
    }
    (batch, memory)
}

fn whole(batch: &FrameBatch, index: usize) -> Vec<u8> {
    let frame = batch.frame(index);
    let mut bytes = vec![0; frame.len_bytes()];
    assert_eq!(frame.read(0, &mut bytes), bytes.len());
    bytes
}

/// The sender may change its memory at any time: the bytes that a program has examined are the bytes that are
/// delivered.
#[test]
fn what_was_looked_at_is_delivered_whatever_the_sender_writes() {
    let (batch, memory) = burst(1);
    for (window, edit) in [
        (256, HeadEdit::NONE),
        (100, HeadEdit { at: 12, removed: 0, inserted: &[7; 4] }),
        (0, HeadEdit { at: 12, removed: 0, inserted: &[7; 4] }),
        (0, HeadEdit { at: 12, removed: 4, inserted: &[] }),
        (0, HeadEdit { at: 12, removed: 4, inserted: &[7; 4] }),
        (200, HeadEdit { at: 0, removed: 150, inserted: &[7; 20] }),
    ] {
        memory.slice(NetHeader::BYTES, 300).write(&[0; 300]);
        let mut windows = Windows::new(1);
        let known = windows.extend(0, batch.frame(0), window).len();
        assert_eq!(known, window.max(64));
        memory.slice(NetHeader::BYTES, 300).write(&[9; 300]);
        assert_eq!(windows.extend(0, batch.frame(0), window), vec![0; known], "read once");
        let mut edited = EditedFrames::new(1).unwrap();
        edited.push(&batch, 0, windows.window(0, batch.frame(0)), &edit).unwrap();
        let mut expected = vec![0; known];
        expected.splice(edit.at..edit.at + edit.removed, edit.inserted.iter().copied());
        expected.extend(vec![9; 300 - known]);
        assert_eq!(whole(edited.batch(), 0), expected, "{window}, {edit:?}");
    }
}

/// Edits of tags have a separate path. Other edits, and frames that end in the edited bytes, must have the same result.
#[test]
fn a_frame_of_any_length_is_edited_as_bytes_are() {
    let tag = &[0x81, 0, 0, 5];
    let edits = [(12, 0, &tag[..]), (12, 4, &[]), (12, 4, tag), (13, 0, tag), (12, 8, &[]), (12, 0, &[3; 8])];
    for len in (14..=140).chain([1514, 9018, 10_240, 10_241, 20_000]) {
        let memory = OwnMemory::new(c"burst", 1 << 15).unwrap();
        let sent: Vec<u8> = (0..len).map(|at| (at * 7 + at / 256) as u8).collect();
        memory.slice(NetHeader::BYTES, len).write(&sent);
        // In one piece, and in two.
        for pieces in [&[NetHeader::BYTES + len][..], &[NetHeader::BYTES + 14, len - 14]] {
            let mut batch = FrameBatch::of_memory(1);
            let mut at = 0;
            for bytes in pieces.iter().filter(|bytes| **bytes > 0) {
                memory.sg_builder().push(batch.arena_mut().unwrap(), at, *bytes as u32);
                at += *bytes as u64;
            }
            batch.push(0, HeaderLayout::Full).unwrap();
            for (at, removed, inserted) in edits {
                let edit = HeadEdit { at, removed, inserted };
                let mut edited = EditedFrames::new(1).unwrap();
                let done = edited.push(&batch, 0, batch.frame(0).snapshot(), &edit);
                let is_long_enough = at + removed <= len && edit.edited_bytes(len) >= ETHERNET_HEADER_BYTES;
                assert_eq!(done.is_ok(), is_long_enough, "{len}, {edit:?}");
                if is_long_enough {
                    let mut expected = sent.clone();
                    expected.splice(at..at + removed, inserted.iter().copied());
                    let frame = edited.batch().frame(0);
                    assert!(frame.snapshot() == &expected[..expected.len().min(64)], "{len}, {edit:?}");
                    assert!(whole(edited.batch(), 0) == expected, "{len}, {edit:?}");
                }
            }
        }
    }
}

#[test]
fn edited_frames_have_the_places_of_the_burst_and_those_between_are_empty() {
    let (batch, _memory) = burst(6);
    let mut edited = EditedFrames::new(6).unwrap();
    let tag = HeadEdit { at: 12, removed: 0, inserted: &[0x81, 0, 0, 5] };
    let push = |edited: &mut EditedFrames, index: usize| {
        edited.push(&batch, index, batch.frame(index).snapshot(), &tag).unwrap();
    };
    (0..6).for_each(|index| push(&mut edited, index));
    edited.clear();
    push(&mut edited, 1);
    push(&mut edited, 4);
    assert_eq!(edited.batch().len(), 5);
    for index in 0..5 {
        let bytes = whole(edited.batch(), index);
        let is_edited = [1, 4].contains(&index);
        assert_eq!(bytes.len(), if is_edited { 304 } else { 0 }, "{index}");
        assert!(!is_edited || (bytes[0], bytes[303]) == (index as u8, index as u8));
    }
    edited.clear();
    assert!(edited.batch().is_empty() && edited.batch().sender_log().is_none());
}

#[test]
fn a_window_holds_what_the_frame_has_and_no_more_than_its_limit() {
    let (batch, _memory) = burst(2);
    let mut windows = Windows::new(1);
    assert_eq!(windows.extend(0, batch.frame(0), 10).len(), 64);
    assert!(!windows.any() && !windows.is_extended(0));
    assert_eq!(windows.extend(0, batch.frame(0), 1000).len(), WINDOW_BYTES);
    assert!(windows.any() && windows.is_extended(0));
    // A burst is no longer than the windows were made for; beyond, the snapshot is all there is.
    assert_eq!(windows.extend(1, batch.frame(1), 100).len(), 64);
    windows.clear();
    assert!(!windows.any() && !windows.is_extended(0));
    assert_eq!(windows.window(0, batch.frame(0)).len(), 64);
}
