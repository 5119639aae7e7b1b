//! Frames with another head, into the buffers of a guest: both layouts, in one buffer and in several.
use std::sync::Arc;

use frame::{EditedFrames, FrameBatch, HeadEdit, OwnMemory, Sink};
use net_queues::device::{ToGuest, ToGuestOptions};
use virtio::net::{Accepts, HeaderLayout, NetHeader};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, RingFeatures, RingLayout};

const TAG: HeadEdit<'static> = HeadEdit { at: 12, removed: 0, inserted: &[0x81, 0, 0, 10] };
const POP: HeadEdit<'static> = HeadEdit { at: 12, removed: 4, inserted: &[] };

/// Frames of these lengths, each with bytes of its own, in memory of ours.
fn burst(lengths: &[usize]) -> (FrameBatch, Vec<Vec<u8>>) {
    const ROOM: usize = 4096;
    let memory = OwnMemory::new(c"burst", (lengths.len() * ROOM) as u64).unwrap();
    let mut batch = FrameBatch::of_memory(lengths.len());
    let frames = lengths.iter().enumerate().map(|(index, len)| {
        let frame: Vec<u8> = (0..*len).map(|at| (at * 7 + index * 31) as u8).collect();
        memory.slice(index * ROOM + NetHeader::BYTES, *len).write(&frame);
        let arena = batch.arena_mut().unwrap();
        let first = arena.len();
        memory.sg_builder().push(arena, (index * ROOM) as u64, (NetHeader::BYTES + len) as u32);
        batch.push(first, HeaderLayout::Full).unwrap();
        frame
    });
    let frames = frames.collect();
    (batch, frames)
}

#[test]
fn a_guest_gets_the_edited_frames_in_its_buffers() {
    let lengths = [60, 64, 68, 128, 1514, 3000];
    for layout in [RingLayout::Split, RingLayout::Packed] {
        for (mergeable, buffer) in [(false, 4096), (true, 200)] {
            for edit in [TAG, POP] {
                let features = RingFeatures::plain(layout);
                let arena = Arena::new(features, 256, 256 * buffer);
                let mut driver = arena.driver();
                let posted: Vec<Buffer> = (0..128)
                    .map(|n| Buffer { address: DATA + n * buffer, len: buffer as u32, cookie: n as u32 })
                    .collect();
                assert_eq!(driver.add(&posted, Direction::FromDevice), 128);
                let options = ToGuestOptions {
                    layout: HeaderLayout::Full,
                    accepts: Accepts::NOTHING,
                    mergeable,
                    max_frame_bytes: None,
                };
                let mut sink = ToGuest::new(arena.device(), options, None, true, Arc::default());
                let (batch, frames) = burst(&lengths);
                let mut edited = EditedFrames::new(lengths.len()).unwrap();
                // The third goes as it is.
                for index in [0, 1, 3, 4, 5] {
                    edited.push(&batch, index, batch.frame(index).snapshot(), &edit).unwrap();
                }
                sink.accept(&batch, &[2]).unwrap();
                sink.accept(edited.batch(), &[0, 1, 3, 4, 5]).unwrap();
                let mut used = Vec::new();
                driver.reclaim(&mut used, usize::MAX).unwrap();
                let mut used = used.into_iter();
                for index in [2, 0, 1, 3, 4, 5] {
                    let mut expected = frames[index].clone();
                    if index != 2 {
                        expected.splice(edit.at..edit.at + edit.removed, edit.inserted.iter().copied());
                    }
                    let mut got = Vec::new();
                    while got.len() < NetHeader::BYTES + expected.len() {
                        let piece = used.next().expect("a buffer more");
                        got.extend(arena.read_data(u64::from(piece.cookie) * buffer, piece.written as usize));
                    }
                    assert_eq!(got[NetHeader::BYTES..], expected, "{layout:?}, {mergeable}, frame {index}");
                }
                assert!(used.next().is_none());
            }
        }
    }
}
