//! A switch between the rings of two guests, with marks in what its threads write.
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deliveries::DeliveryFile;
use frame::{FrameBatch, QueueCounters, QueueError, Source};
use memory::{Region, SharedSlice};
use net_queues::device::{EventFd, FromGuest, ToGuest, ToGuestOptions};
use switch::{Options, PortOptions, Switch};
use virtio::net::{Accepts, HeaderLayout};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, DriverQueue, RingFeatures, RingLayout, Used};

use super::rss;
use super::trace::{Addresses, STACK_BELOW};
use crate::bench::*;

/// Before the addresses, in the output of the traced program.
pub const ADDRESSES: &str = "addresses ";

/// The mean number of frames in a burst.
const BURST: usize = 16;
const SIZE: u32 = 64;
const STRIDE: u64 = 2048;
/// Rounds that count: as many frames for each queue, in the mean, as a ring has slots.
pub const ROUNDS: usize = SIZE as usize / BURST;
/// Rounds before: addresses are learned, and each worker has moved bursts.
const WARM_UP: usize = 2;
/// Between two looks at the rings.
const LOOK: Duration = Duration::from_millis(5);
/// The layout of a guest's rings.
const LAYOUT: RingLayout = RingLayout::Packed;

/// A word on a page of its own.
#[repr(align(4096))]
struct Page(AtomicU64);

static MARK: Page = Page(AtomicU64::new(0));
static PASS: Page = Page(AtomicU64::new(0));
static FRAME: Page = Page(AtomicU64::new(0));
/// An address in the stack of each worker that has moved a burst.
static STACKS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

impl Page {
    fn write(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }
}

/// An address in the stack of the calling thread.
fn stack() -> u64 {
    let local = 0u8;
    std::ptr::from_ref(&local) as u64
}

/// A source that marks its bursts and their frames.
struct Marked {
    source: FromGuest,
    known: bool,
}

impl Source for Marked {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        PASS.write();
        if !self.known {
            self.known = true;
            STACKS.lock().unwrap().push(stack());
        }
        let batch = self.source.rx_burst(max)?;
        (0..batch.len()).for_each(|_| FRAME.write());
        Ok(batch)
    }

    fn needs_release(&self) -> bool {
        self.source.needs_release()
    }

    fn release(&mut self) {
        self.source.release();
    }

    fn sleep(&mut self) -> bool {
        self.source.sleep()
    }

    fn wake(&mut self) {
        self.source.wake();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.wake_fd()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        self.source.counters()
    }
}

/// A ring with buffers, and its driver half.
struct Ring {
    arena: Arena,
    driver: Box<dyn DriverQueue>,
    direction: Direction,
    kick: EventFd,
    /// A duplicate of `kick`, for the driver half.
    kicks: OwnedFd,
    /// The buffers, in the order in which they are added, again and again.
    buffers: Vec<Buffer>,
    /// The buffer that is added next.
    next: usize,
    used: Vec<Used>,
    /// Buffers that the device has not used yet.
    open: usize,
}

impl Ring {
    /// A ring with that many buffers.
    fn new(direction: Direction, buffers: usize, len: usize) -> Self {
        assert!(buffers <= SIZE as usize, "{buffers} buffers");
        let arena = Arena::new(RingFeatures::plain(LAYOUT), SIZE, u64::from(SIZE) * STRIDE);
        let buffer =
            |slot: usize| Buffer { address: DATA + slot as u64 * STRIDE, len: len as u32, cookie: 0 };
        let buffers = (0..buffers).map(buffer).collect();
        let (driver, kick) = (arena.driver(), EventFd::new().unwrap());
        let (kicks, used) = (kick.share().unwrap(), Vec::with_capacity(SIZE as usize));
        Ring { arena, driver, direction, kick, kicks, buffers, next: 0, used, open: 0 }
    }

    /// A transmitq whose driver sends these frames in each round.
    fn sending(frames: &[Vec<u8>]) -> Self {
        let len = frames.first().map_or(0, Vec::len);
        let ring = Ring::new(Direction::ToDevice, frames.len(), len);
        for (buffer, frame) in ring.buffers.iter().zip(frames) {
            // In one piece: to write byte by byte takes most of the time.
            let of_buffer = |region: &&Region| {
                (0..region.size_bytes()).contains(&buffer.address.wrapping_sub(region.guest_base()))
            };
            let region = ring.arena.space.regions().iter().find(of_buffer).unwrap();
            let at = (buffer.address - region.guest_base()) as usize;
            SharedSlice::of_mapping(region.mapping()).slice(at, frame.len()).write(frame);
        }
        ring
    }

    /// Adds all buffers that the device has used.
    fn add(&mut self) {
        while self.open < self.buffers.len() {
            let free = self.buffers.len() - self.open;
            let buffers = &self.buffers[self.next..];
            let buffers = &buffers[..free.min(buffers.len())];
            assert_eq!(self.driver.add(buffers, self.direction), buffers.len());
            self.open += buffers.len();
            self.next = (self.next + buffers.len()) % self.buffers.len();
        }
        rustix::io::write(&self.kicks, &1u64.to_ne_bytes()).unwrap();
    }

    /// The number of buffers that the device has used since the last call.
    fn reclaim(&mut self) -> usize {
        self.used.clear();
        self.driver.reclaim(&mut self.used, SIZE as usize).unwrap();
        self.open -= self.used.len();
        self.used.len()
    }
}

/// A guest's transmitqs and receiveqs.
struct Guest {
    sends: Vec<Ring>,
    receives: Vec<Ring>,
}

impl Guest {
    /// All frames of the guest go to the other guest. Each frame of a round has a flow of its own; the hash of the
    /// flow selects its queue.
    fn new(queues: u16, station_of_it: u8, of_other: u8) -> Self {
        let header = vec![0; HeaderLayout::Full.bytes()];
        let mut frames = vec![Vec::new(); queues.into()];
        for flow in rss::flows(station_of_it, of_other, usize::from(queues) * BURST) {
            let bytes = flow.frame(station(of_other), station(station_of_it));
            frames[flow.hash() as usize % usize::from(queues)].push([&header[..], &bytes].concat());
        }
        let sends = frames.iter().map(|frames| Ring::sending(frames)).collect();
        let receive = |_| Ring::new(Direction::FromDevice, SIZE as usize, STRIDE as usize);
        Guest { sends, receives: (0..queues).map(receive).collect() }
    }

    /// The port of the guest, whose deliveries are kept in a file.
    fn port(&self, file: &Path) -> Scripted {
        let queues = self.sends.len() as u16;
        let deliveries = DeliveryFile::open(file, queues).unwrap().unwrap();
        let layout = HeaderLayout::Full;
        let options =
            ToGuestOptions { layout, accepts: Accepts::NOTHING, mergeable: false, max_frame_bytes: None };
        let pairs: Vec<_> = (0..queues)
            .zip(self.sends.iter().zip(&self.receives))
            .map(|(pair, (sends, receives))| {
                let (device, kick) = (sends.arena.device(), Some(sends.kick.clone()));
                let mut source = FromGuest::new(device, layout, kick, None, true, Arc::default());
                let mut sink = ToGuest::new(receives.arena.device(), options, None, true, Arc::default());
                source.note_deliveries(deliveries.area(), pair);
                sink.note_deliveries(deliveries.area(), pair);
                (pair, Marked { source, known: false }, sink)
            })
            .collect();
        let attach = move |context: &mut dyn port::PortContext| {
            for (pair, source, sink) in pairs {
                context.attach_source(pair, Box::new(source));
                context.attach_sink(pair, Box::new(sink));
            }
            // The file stays as long as the port.
            std::mem::forget(deliveries);
            Ok(())
        };
        Scripted::new(queues, attach, |_, _| Ok(())).0
    }

    /// Posts all free buffers for frames.
    fn post(&mut self) {
        self.receives.iter_mut().for_each(Ring::add);
    }

    /// Sends all frames of a round. Returns their number.
    fn send(&mut self) -> usize {
        self.sends.iter_mut().for_each(Ring::add);
        self.sends.iter().map(|ring| ring.open).sum()
    }

    /// The number of frames that have come since the last call.
    fn receive(&mut self) -> usize {
        self.receives.iter_mut().map(Ring::reclaim).sum()
    }

    /// Whether all frames were taken.
    fn has_sent(&mut self) -> bool {
        self.sends.iter_mut().all(|ring| {
            ring.reclaim();
            ring.open == 0
        })
    }
}

/// The frames of all flows, each once, until all have arrived.
fn round(guests: &mut [Guest; 2]) {
    guests.iter_mut().for_each(Guest::post);
    let mut awaited: usize = guests.iter_mut().map(Guest::send).sum();
    // Each look at a ring takes time of the workers, under valgrind.
    while !guests.iter_mut().all(Guest::has_sent) {
        std::thread::sleep(LOOK);
    }
    while awaited > 0 {
        awaited -= guests.iter_mut().map(Guest::receive).sum::<usize>();
        std::thread::sleep(LOOK);
    }
}

/// The frames between the marks.
pub fn frames(queues: u16) -> u64 {
    (2 * usize::from(queues) * BURST * ROUNDS) as u64
}

/// Traffic both ways between two guests with that many queue pairs, by that many workers. Prints [`Addresses`] and waits
/// for a line before the traffic that counts.
pub fn traffic(queues: u16, workers: u16) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        workers: vec![None; workers.into()],
        worker_deadline: Duration::from_secs(600),
        ..Options::default()
    };
    let mut switch = Switch::new(options).unwrap();
    let mut guests = [Guest::new(queues, 0, 1), Guest::new(queues, 1, 0)];
    for (index, guest) in guests.iter().enumerate() {
        let port = guest.port(&folder.path().join(name(index)));
        switch.add_port(name(index), Box::new(port), PortOptions::default()).unwrap();
    }
    let bench = Bench::run(switch);
    (0..WARM_UP).for_each(|_| round(&mut guests));
    let mut workers = STACKS.lock().unwrap().clone();
    workers.sort_unstable();
    // A worker may have several sources.
    workers.dedup_by(|later, earlier| *later - *earlier < STACK_BELOW);
    let addresses = Addresses {
        mark: MARK.address(),
        pass: PASS.address(),
        frame: FRAME.address(),
        workers,
        others: vec![stack(), bench.change(|_| stack())],
    };
    println!("\n{ADDRESSES}{}", serde_json::to_string(&addresses).unwrap());
    std::io::stdin().read_exact(&mut [0]).unwrap();
    MARK.write();
    (0..ROUNDS).for_each(|_| round(&mut guests));
    // A pass ends when the next begins.
    std::thread::sleep(Duration::from_millis(100));
    MARK.write();
    drop(bench);
}
