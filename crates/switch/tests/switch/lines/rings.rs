//! A switch between the rings of two guests, with marks in what its threads write.
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deliveries::DeliveryFile;
use frame::{FrameBatch, QueueCounters, QueueError, Source};
use net_queues::device::{EventFd, FromGuest, ToGuest, ToGuestOptions};
use switch::{Options, PortOptions, Switch};
use virtio::net::{Accepts, HeaderLayout};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Direction, DriverQueue, RingFeatures, RingLayout, Used};

use super::trace::{Addresses, STACK_BELOW};
use crate::bench::*;

/// Before the addresses, in the output of the traced program.
pub const ADDRESSES: &str = "addresses ";

const BURST: usize = 16;
const SIZE: u32 = 64;
const STRIDE: u64 = 2048;
/// Rounds that count: all slots of a ring once.
pub const ROUNDS: usize = SIZE as usize / BURST;
/// Rounds before: addresses are learned, and each worker has moved bursts.
const WARM_UP: usize = 2;
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
    /// For each round until all slots are used once, the buffers that are added.
    buffers: Vec<Vec<Buffer>>,
    used: Vec<Used>,
    /// Buffers that the device has not used yet.
    open: usize,
}

impl Ring {
    fn new(direction: Direction, len: usize) -> Self {
        let arena = Arena::new(RingFeatures::plain(LAYOUT), SIZE, u64::from(SIZE) * STRIDE);
        // All frames that a ring sends lie in one buffer: to write them takes most of the time.
        let stride = if direction == Direction::ToDevice { 0 } else { STRIDE };
        let buffer =
            |slot: usize| Buffer { address: DATA + slot as u64 * stride, len: len as u32, cookie: 0 };
        let buffers = (0..SIZE as usize).collect::<Vec<_>>();
        let buffers =
            buffers.chunks(BURST).map(|slots| slots.iter().copied().map(buffer).collect()).collect();
        let (driver, kick) = (arena.driver(), EventFd::new().unwrap());
        let (kicks, used) = (kick.share().unwrap(), Vec::with_capacity(SIZE as usize));
        Ring { arena, driver, direction, kick, kicks, buffers, used, open: 0 }
    }

    fn add(&mut self, round: usize) {
        let buffers = &self.buffers[round % self.buffers.len()];
        assert_eq!(self.driver.add(buffers, self.direction), BURST);
        self.open += BURST;
        rustix::io::write(&self.kicks, &1u64.to_ne_bytes()).unwrap();
    }

    fn is_done(&mut self) -> bool {
        self.used.clear();
        self.driver.reclaim(&mut self.used, BURST).unwrap();
        self.open -= self.used.len();
        self.open == 0
    }
}

/// A guest's transmitqs and receiveqs.
struct Guest {
    sends: Vec<Ring>,
    receives: Vec<Ring>,
}

impl Guest {
    /// All frames of the guest go to the other guest.
    fn new(queues: u16, station_of_it: u8, of_other: u8) -> Self {
        let layout = HeaderLayout::Full;
        let sends = (0..queues).map(|queue| {
            let bytes = frame(station(of_other), station(station_of_it), queue.into());
            let bytes = [&vec![0; layout.bytes()][..], &bytes].concat();
            let ring = Ring::new(Direction::ToDevice, bytes.len());
            ring.arena.write_data(0, &bytes);
            ring
        });
        let receives = (0..queues).map(|_| Ring::new(Direction::FromDevice, STRIDE as usize));
        Guest { sends: sends.collect(), receives: receives.collect() }
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

    fn rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.sends.iter_mut().chain(&mut self.receives)
    }
}

/// One burst on each queue, until all frames have arrived.
fn round(guests: &mut [Guest; 2], number: usize) {
    guests.iter_mut().flat_map(|guest| &mut guest.receives).for_each(|ring| ring.add(number));
    guests.iter_mut().flat_map(|guest| &mut guest.sends).for_each(|ring| ring.add(number));
    while !guests.iter_mut().flat_map(Guest::rings).all(Ring::is_done) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The frames between the marks.
pub fn frames(queues: u16) -> u64 {
    (2 * usize::from(queues) * BURST * ROUNDS) as u64
}

/// Traffic both ways between two guests with that many queue pairs, by as many workers. Prints [`Addresses`] and waits
/// for a line before the traffic that counts.
pub fn traffic(queues: u16) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = Options {
        workers: vec![None; queues.into()],
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
    (0..WARM_UP).for_each(|number| round(&mut guests, number));
    let mut workers = STACKS.lock().unwrap().clone();
    workers.sort_unstable();
    // Each worker has a source of each guest.
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
    (0..ROUNDS).for_each(|number| round(&mut guests, number));
    // A pass ends when the next begins.
    std::thread::sleep(Duration::from_millis(100));
    MARK.write();
    drop(bench);
}
