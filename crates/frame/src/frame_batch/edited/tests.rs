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

/// The sender may change its memory at any time: what a program has looked at is what is delivered.
#[test]
fn what_was_looked_at_is_delivered_whatever_the_sender_writes() {
    let (batch, memory) = burst(1);
    for (window, edit) in [
        (256, HeadEdit::NONE),
        (100, HeadEdit { at: 12, removed: 0, inserted: &[7; 4] }),
        (0, HeadEdit { at: 12, removed: 0, inserted: &[7; 4] }),
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
