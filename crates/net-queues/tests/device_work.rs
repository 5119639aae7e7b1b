//! How long a frame may be, and how many frames that are to be cut a burst may have.
use std::sync::Arc;

use frame::{DropReason, LARGEST_FRAME_BYTES, QueueCounters, Source};
use net_queues::device::FromGuest;
use virtio::net::HeaderLayout;
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, Piece, Request, RingFeatures, RingLayout};

const BOTH: [RingLayout; 2] = [RingLayout::Split, RingLayout::Packed];
const STRIDE: u64 = 0x1_1000;
const FRAMES: u32 = 32;

fn arena(layout: RingLayout, size: u32) -> Arena {
    Arena::new(RingFeatures::plain(layout), size, STRIDE * 64)
}

fn source(arena: &Arena, counters: &Arc<QueueCounters>) -> FromGuest {
    FromGuest::new(arena.device(), HeaderLayout::Full, None, None, true, Arc::clone(counters))
}

/// Writes a net header and the start of a frame, where the mock's data has its `number`th buffer. A `gso_size` of 0:
/// nothing is left to be done.
fn write_frame(arena: &Arena, number: u32, gso_size: u16) {
    let at = u64::from(number) * STRIDE;
    let [low, high] = gso_size.to_le_bytes();
    let header = if gso_size == 0 { [0; 12] } else { [1, 1, 54, 0, low, high, 34, 0, 16, 0, 0, 0] };
    arena.write_data(at, &header);
    arena.write_data(at + 12, &[number as u8; 64]);
}

/// 32 frames of 64 KiB, whole and to be cut into up to 1024 segments each: some of them a burst, none lost, in their
/// order.
#[test]
fn a_burst_of_long_frames_and_of_frames_to_be_cut_ends_early() {
    for layout in BOTH {
        for (gso_size, bursts) in [(0, 7), (64, FRAMES), (1, FRAMES), (536, 21), (1460, 13)] {
            let (arena, counters) = (arena(layout, 64), Arc::default());
            let (mut driver, mut source) = (arena.driver(), source(&arena, &counters));
            for number in 0..FRAMES {
                write_frame(&arena, number, gso_size);
                let address = DATA + u64::from(number) * STRIDE;
                let buffer = Buffer { address, len: 12 + 65_480, cookie: number };
                assert_eq!(driver.add(&[buffer], Direction::ToDevice), 1);
            }
            let (mut seen, mut count) = (Vec::new(), 0);
            while seen.len() < FRAMES as usize {
                let batch = source.rx_burst(256).unwrap();
                assert!(!batch.is_empty());
                seen.extend(batch.frames().map(|frame| u32::from(frame.snapshot()[20])));
                source.release();
                count += 1;
            }
            assert_eq!((count, seen), (bursts, (0..FRAMES).collect()), "{layout:?}, gso_size {gso_size}");
            assert_eq!(driver.reclaim(&mut Vec::new(), 64), Ok(FRAMES as usize));
            let counts = counters.counts();
            assert_eq!((counts.frames, counts.dropped()), (FRAMES.into(), 0));
        }
    }
}

/// Frames in many pieces, and frames of one piece behind many descriptors that hold nothing.
#[test]
fn a_burst_of_chains_of_many_descriptors_ends_early() {
    for layout in BOTH {
        for len in [10, 0] {
            let (arena, counters) = (arena(layout, 2048), Arc::default());
            let (mut driver, mut source) = (arena.driver(), source(&arena, &counters));
            for number in 0..16 {
                write_frame(&arena, number, 0);
                let address = DATA + u64::from(number) * STRIDE;
                let mut pieces = vec![Piece { address, len }; 100];
                pieces[0].len = 12 + 64;
                let request = Request { readable: &pieces, writable: &[], cookie: number };
                assert_eq!(driver.add_requests(&[request]), 1);
            }
            let (mut seen, mut longest) = (Vec::new(), 0);
            while seen.len() < 16 {
                let batch = source.rx_burst(256).unwrap();
                assert!(!batch.is_empty());
                // How much is enough is known from the second burst on.
                longest = if seen.is_empty() { 0 } else { longest.max(batch.len()) };
                seen.extend(batch.frames().map(|frame| u32::from(frame.snapshot()[20])));
                source.release();
            }
            assert_eq!(seen, (0..16).collect::<Vec<_>>(), "{layout:?}");
            assert!(longest <= 5, "{layout:?}, pieces of {len} bytes: a burst of {longest}");
        }
    }
}

/// The frame has one piece, two with the header apart, or many; it has the offloads that only long frames have.
#[test]
fn the_longest_frame_passes_and_a_longer_one_does_not() {
    for layout in BOTH {
        for gso_size in [0, 1460] {
            for pieces in [&[0][..], &[12], &[12, 100, 4000]] {
                let (arena, counters) = (arena(layout, 64), Arc::<QueueCounters>::default());
                let (mut driver, mut source) = (arena.driver(), source(&arena, &counters));
                if gso_size > 0 {
                    write_frame(&arena, 0, gso_size);
                }
                for longer in [0, 1, 1000] {
                    let mut left = (12 + LARGEST_FRAME_BYTES + longer) as u32;
                    let mut address = DATA;
                    let mut readable = Vec::new();
                    for len in pieces.iter().copied().filter(|len| *len > 0).chain([u32::MAX]) {
                        let len = left.min(len);
                        readable.push(Piece { address, len });
                        (left, address) = (left - len, address + u64::from(len));
                    }
                    let request = Request { readable: &readable, writable: &[], cookie: 0 };
                    assert_eq!(driver.add_requests(&[request]), 1);
                    let arena = source.rx_burst(8).unwrap().len();
                    assert_eq!(arena, usize::from(longer == 0), "{layout:?}, {longer} more, {pieces:?}");
                    source.release();
                }
                assert_eq!(counters.drops(DropReason::TooLong), 2);
            }
        }
    }
}
