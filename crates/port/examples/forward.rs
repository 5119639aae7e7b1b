//! What the one copy costs here, with nothing around it: bursts of 32 frames from one guest's transmitq to
//! another guest's receiveq, drivers and devices in one thread; deliveries are noted, as a port does.
//!
//! `cargo run --release -p tautline-port --example forward [packed|split] [in-order] [tagged] [BYTES] [BURSTS]` prints ns
//! a frame by stage, `tagged` with a VLAN tag pushed into each frame on its way; with `gate` it counts instructions,
//! which repeat exactly where nanoseconds do not, and says whether the limits are kept.
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deliveries::DeliveryFile;
use frame::{EditedFrames, HeadEdit, QueueCounters, Sink, Source};
use net_queues::device::{FromGuest, ToGuest, ToGuestOptions};
use peers::callgrind::{Runs, gate as gate_of};
use virtio::net::{Accepts, HeaderLayout};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, DriverQueue, RingFeatures, RingLayout, Used};

const BURST: usize = 32;
const SIZE: u32 = 256;
const STRIDE: u64 = 2048;
/// Bursts until every slot of the rings has been used once.
const LAP: usize = SIZE as usize / BURST;

/// Instructions a frame, both drivers included, that must not be exceeded: what was measured, and a tenth
/// for other compilers.
const LIMITS: [(&str, f64); 7] = [
    ("split 64", 508.0),
    ("split in-order 64", 558.0),
    ("packed 64", 571.0),
    ("packed in-order 64", 527.0),
    ("split 1518", 766.0),
    ("split tagged 64", 790.0),
    ("split tagged 1518", 1100.0),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words == ["gate"] {
        return gate();
    }
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (bytes, bursts) = (*numbers.first().unwrap_or(&64), *numbers.get(1).unwrap_or(&100_000));
    let layout = if words.contains(&"split") { RingLayout::Split } else { RingLayout::Packed };
    let features = RingFeatures { in_order: words.contains(&"in-order"), ..RingFeatures::plain(layout) };
    let (one, other) = (Arena::new(features, SIZE, DATA_BYTES), Arena::new(features, SIZE, DATA_BYTES));
    let mut guests = Guests::new(&one, &other, bytes);
    guests.edited = words.contains(&"tagged").then(|| EditedFrames::new(BURST).expect("memory for heads"));
    let stages = (0..bursts)
        .map(|burst| guests.pass(burst % LAP))
        .fold([Duration::ZERO; 4], |sums, burst| std::array::from_fn(|stage| sums[stage] + burst[stage]));
    assert_eq!(guests.to.counts().frames, (bursts * BURST) as u64);
    let ns = |stage: Duration| stage.as_nanos() as f64 / (bursts * BURST) as f64;
    let [drivers, lend, accept, release] = stages.map(ns);
    println!(
        "{layout:?} {bytes} bytes, ns a frame: lend {lend:.1}, accept {accept:.1}, release {release:.1}; \
         together {:.1}; both drivers {drivers:.1}",
        lend + accept + release
    );
    ExitCode::SUCCESS
}

const DATA_BYTES: u64 = SIZE as u64 * STRIDE;

/// Two guests, and the way from one to the other.
struct Guests {
    sender: Box<dyn DriverQueue>,
    receiver: Box<dyn DriverQueue>,
    source: Box<dyn Source>,
    sink: Box<dyn Sink>,
    /// Removed at the end.
    _deliveries: [DeliveryFile; 2],
    /// Where they lie. Dropped after them.
    _folder: tempfile::TempDir,
    to: Arc<QueueCounters>,
    /// Frames with a tag more, if each gets one.
    edited: Option<EditedFrames>,
    /// By burst of a lap: the buffers that are sent, and those that receive.
    sent: Vec<Vec<Buffer>>,
    room: Vec<Vec<Buffer>>,
    all: Vec<u16>,
    used: Vec<Used>,
}

impl Guests {
    fn new(one: &Arena, other: &Arena, bytes: usize) -> Self {
        let layout = HeaderLayout::Full;
        let (from, to): (Arc<_>, Arc<_>) = Default::default();
        let mut source = FromGuest::new(one.device(), layout, None, None, true, from);
        let options =
            ToGuestOptions { layout, accepts: Accepts::NOTHING, mergeable: false, max_frame_bytes: None };
        let mut sink = ToGuest::new(other.device(), options, None, true, Arc::clone(&to));
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let deliveries = ["one", "other"].map(|name| {
            DeliveryFile::open(&folder.path().join(name), 1)
                .expect("memory for a file")
                .expect("a folder in memory")
        });
        source.note_deliveries(deliveries[0].area(), 0);
        sink.note_deliveries(deliveries[1].area(), 0);
        let buffers = |round: usize, len: usize| -> Vec<Buffer> {
            let slot = |i: usize| (round * BURST + i) as u64;
            let buffer = |i| Buffer { address: DATA + slot(i) * STRIDE, len: len as u32, cookie: 0 };
            (0..BURST).map(buffer).collect()
        };
        let (sent, room) = (0..LAP)
            .map(|round| (buffers(round, layout.bytes() + bytes), buffers(round, STRIDE as usize)))
            .unzip();
        Guests {
            sender: one.driver(),
            receiver: other.driver(),
            source: Box::new(source),
            sink: Box::new(sink),
            _deliveries: deliveries,
            _folder: folder,
            to,
            edited: None,
            sent,
            room,
            all: (0..BURST as u16).collect(),
            used: Vec::with_capacity(SIZE as usize),
        }
    }

    /// One burst; what the drivers, batch, accepting and releasing took.
    fn pass(&mut self, round: usize) -> [Duration; 4] {
        let begin = Instant::now();
        assert_eq!(self.receiver.add(&self.room[round], Direction::FromDevice), BURST);
        assert_eq!(self.sender.add(&self.sent[round], Direction::ToDevice), BURST);
        let added = Instant::now();
        let batch = self.source.rx_burst(BURST).expect("a sound ring");
        let lent = Instant::now();
        match &mut self.edited {
            None => self.sink.accept(batch, &self.all).expect("a sound ring"),
            Some(edited) => {
                let tag = HeadEdit { at: 12, removed: 0, inserted: &[0x81, 0, 0, 10] };
                for (index, frame) in batch.frames().enumerate() {
                    edited.push(batch, index, frame.snapshot(), &tag).expect("room for a tag");
                }
                self.sink.accept(edited.batch(), &self.all).expect("a sound ring");
                edited.clear();
            }
        }
        let accepted = Instant::now();
        self.source.release();
        let released = Instant::now();
        self.used.clear();
        self.receiver.reclaim(&mut self.used, BURST).expect("a sound ring");
        self.sender.reclaim(&mut self.used, BURST).expect("a sound ring");
        assert_eq!(self.used.len(), 2 * BURST);
        [added - begin + released.elapsed(), lent - added, accepted - lent, released - accepted]
    }
}

fn gate() -> ExitCode {
    // The difference of two runs that differ only in their number of bursts.
    let runs = Runs { few: 32 * LAP, many: 96 * LAP, frames: BURST };
    gate_of(&LIMITS, runs, |case| format!("{case} bytes"))
}
