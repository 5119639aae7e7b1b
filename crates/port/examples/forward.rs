//! What the one copy costs here, with nothing around it: bursts of 32 frames from one guest's transmitq to
//! another guest's receiveq, drivers and devices in one thread.
//!
//! `cargo run --release -p port --example forward [packed|split] [in-order] [BYTES] [BURSTS]` prints ns a
//! frame by stage. Under `valgrind --tool=callgrind` the same program gives instructions.
use std::sync::Arc;
use std::time::{Duration, Instant};

use port::device::{FromGuest, ToGuest, ToGuestOptions};
use port::{Sink, Source};
use virtio::net::{Accepts, HeaderLayout};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, Layout, RingFeatures};

const BURST: usize = 32;
const SIZE: u32 = 256;
const STRIDE: u64 = 2048;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (bytes, bursts) = (*numbers.first().unwrap_or(&64), *numbers.get(1).unwrap_or(&100_000));
    let layout = if has("split") { Layout::Split } else { Layout::Packed };
    let features = RingFeatures { in_order: has("in-order"), ..RingFeatures::plain(layout) };

    let data = u64::from(SIZE) * STRIDE;
    let (one, other) = (Arena::new(features, SIZE, data), Arena::new(features, SIZE, data));
    let (mut sender, mut receiver) = (one.driver(), other.driver());
    let header = HeaderLayout::Full;
    let (from, to): (Arc<_>, Arc<_>) = Default::default();
    let mut source: Box<dyn Source> = Box::new(FromGuest::new(one.device(), header, None, None, true, from));
    let options =
        ToGuestOptions { layout: header, accepts: Accepts::NOTHING, mergeable: false, max_frame_bytes: None };
    let mut sink: Box<dyn Sink> =
        Box::new(ToGuest::new(other.device(), options, None, true, Arc::clone(&to)));

    let all: Vec<u16> = (0..BURST as u16).collect();
    let buffers = |round: usize, len: usize| -> Vec<Buffer> {
        let slot = |i: usize| ((round * BURST + i) % SIZE as usize) as u64;
        let buffer = |i| Buffer { address: DATA + slot(i) * STRIDE, len: len as u32, cookie: 0 };
        (0..BURST).map(buffer).collect()
    };
    let rounds = SIZE as usize / BURST;
    let (sent, room): (Vec<_>, Vec<_>) = (0..rounds)
        .map(|round| (buffers(round, header.bytes() + bytes), buffers(round, STRIDE as usize)))
        .unzip();
    let mut used = Vec::with_capacity(SIZE as usize);
    let mut stages = [Duration::ZERO; 4];
    for burst in 0..bursts {
        let round = burst % rounds;
        let begin = Instant::now();
        assert_eq!(receiver.add(&room[round], Direction::FromDevice), BURST);
        assert_eq!(sender.add(&sent[round], Direction::ToDevice), BURST);
        let added = Instant::now();
        let lending = source.lend(BURST).expect("a sound ring");
        let lent = Instant::now();
        sink.accept(lending, &all).expect("a sound ring");
        let accepted = Instant::now();
        source.release();
        let released = Instant::now();
        used.clear();
        receiver.reclaim(&mut used, BURST).expect("a sound ring");
        sender.reclaim(&mut used, BURST).expect("a sound ring");
        assert_eq!(used.len(), 2 * BURST);
        for (stage, time) in stages.iter_mut().zip([
            added - begin + released.elapsed(),
            lent - added,
            accepted - lent,
            released - accepted,
        ]) {
            *stage += time;
        }
    }
    assert_eq!(to.counts().frames, (bursts * BURST) as u64);
    let ns = |stage: Duration| stage.as_nanos() as f64 / (bursts * BURST) as f64;
    let [drivers, lend, accept, release] = stages.map(ns);
    println!(
        "{layout:?} {bytes} bytes, ns a frame: lend {lend:.1}, accept {accept:.1}, release {release:.1}; \
         together {:.1}; both drivers {drivers:.1}",
        lend + accept + release
    );
}
