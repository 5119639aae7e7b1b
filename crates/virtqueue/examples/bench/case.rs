//! What is measured: a queue, the shape of its buffers, and whether notifications are decided.

use std::time::Instant;

use virtqueue::mock::{Arena, DATA};
use virtqueue::{
    Buffer, Burst, DeviceQueue, Direction, DriverQueue, Piece, Request, RingFeatures, RingLayout, Used,
};

/// Descriptors of every queue measured.
pub const SIZE: u32 = 256;
/// Buffers that are published, taken and completed together.
pub const BURSTS: [usize; 5] = [1, 4, 32, 64, 256];
/// Bytes of the pieces of a buffer of several: device header, protocol headers, payload; 64 in all.
const PIECES: [u32; 3] = [12, 20, 32];

/// A row of the tables.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub features: RingFeatures,
    /// Each buffer has the three pieces of [`PIECES`], not one.
    pub pieces: bool,
    /// Each burst decides about kick and call, and both sides arm as before a sleep.
    pub asks: bool,
}

impl Case {
    /// Ring slots per buffer.
    fn slots(&self) -> usize {
        if self.pieces && !self.features.indirect { PIECES.len() } else { 1 }
    }

    /// Makes a burst available; gives the kicks that were asked for.
    #[inline(always)]
    pub fn publish(&self, work: &Work, driver: &mut dyn DriverQueue) -> u64 {
        assert_eq!(work.add(driver), work.len());
        u64::from(self.asks && driver.needs_kick())
    }

    /// Takes all buffers of a burst back.
    #[inline(always)]
    pub fn reclaim(&self, driver: &mut dyn DriverQueue, used: &mut Vec<Used>, n: usize) {
        used.clear();
        if self.asks {
            driver.disable_calls();
        }
        assert_eq!(driver.reclaim(used, n).expect("sound"), n);
        if self.asks {
            assert!(!driver.enable_calls(), "all is reclaimed");
        }
    }

    /// Whether the queue can hold a burst.
    pub fn fits(&self, burst: usize) -> bool {
        burst * self.slots() <= SIZE as usize
    }
}

/// Rows of one layout: event_idx stands beside the same questions asked by flags, indirect beside the same
/// pieces as direct chains, because each pays (or not) for that difference alone.
const fn of_layout(layout: RingLayout, names: [&'static str; 6]) -> [Case; 6] {
    let plain = RingFeatures::plain(layout);
    let [one, in_order, flags, event_idx, pieces, indirect] = names;
    let case = Case { name: one, features: plain, pieces: false, asks: false };
    [
        case,
        Case { name: in_order, features: RingFeatures { in_order: true, ..plain }, ..case },
        Case { name: flags, asks: true, ..case },
        Case { name: event_idx, features: RingFeatures { event_idx: true, ..plain }, asks: true, ..case },
        Case { name: pieces, pieces: true, ..case },
        Case { name: indirect, features: RingFeatures { indirect: true, ..plain }, pieces: true, ..case },
    ]
}

/// All rows.
pub fn cases() -> impl Iterator<Item = Case> {
    let split = [
        "split",
        "split+in_order",
        "split, asking",
        "split+event_idx",
        "split, 3 pieces",
        "split+indirect, 3",
    ];
    let packed = [
        "packed",
        "packed+in_order",
        "packed, asking",
        "packed+event_idx",
        "packed, 3 pieces",
        "packed+indirect, 3",
    ];
    of_layout(RingLayout::Split, split).into_iter().chain(of_layout(RingLayout::Packed, packed))
}

/// The row of that name.
pub fn case(name: &str) -> Case {
    cases().find(|case| case.name == name).expect("a case of the table")
}

/// The driver's buffers of one burst, written down beforehand.
pub struct Work {
    buffers: Vec<Buffer>,
    requests: Vec<Request<'static>>,
}

impl Work {
    pub fn new(case: Case, burst: usize) -> Self {
        let address = |i: usize| DATA + i as u64 * 2048;
        if !case.pieces {
            let buffer = |i| Buffer { address: address(i), len: PIECES.iter().sum(), cookie: i as u32 };
            return Work { buffers: (0..burst).map(buffer).collect(), requests: Vec::new() };
        }
        let request = |i| {
            let piece = |(p, len)| Piece { address: address(i) + p as u64 * 256, len };
            let pieces: Vec<Piece> = PIECES.into_iter().enumerate().map(piece).collect();
            // Leaked: a few KiB per case, needed until the process ends.
            Request { readable: pieces.leak(), writable: &[], cookie: i as u32 }
        };
        Work { buffers: Vec::new(), requests: (0..burst).map(request).collect() }
    }

    /// Buffers per burst.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.buffers.len() + self.requests.len()
    }

    /// Makes the burst available, or as much of it as fits; returns how many buffers.
    #[inline(always)]
    pub fn add(&self, driver: &mut dyn DriverQueue) -> usize {
        if self.requests.is_empty() {
            driver.add(&self.buffers, Direction::ToDevice)
        } else {
            driver.add_requests(&self.requests)
        }
    }
}

/// Both halves of a queue.
pub struct Bench {
    pub case: Case,
    pub work: Work,
    pub driver: Box<dyn DriverQueue>,
    pub device: Box<dyn DeviceQueue>,
    pub burst: Burst,
    pub used: Vec<Used>,
    /// Bytes that the device half has found, so that no buffer is skipped unseen.
    pub bytes: u64,
    /// Kicks and calls that were asked for.
    pub notifications: u64,
    pub arena: Arena,
}

impl Bench {
    pub fn new(case: Case, burst: usize) -> Self {
        let arena = Arena::new(case.features, SIZE, 1 << 20);
        Bench {
            case,
            work: Work::new(case, burst),
            driver: arena.driver(),
            device: arena.device(),
            burst: Burst::new(burst),
            used: Vec::with_capacity(SIZE as usize),
            bytes: 0,
            notifications: 0,
            arena,
        }
    }

    /// One burst there and back, in one thread. A case that asks does what two sides do that sleep after
    /// every burst: no notifications while at work, arm, look again.
    #[inline(always)]
    pub fn round(&mut self) {
        let n = self.work.len();
        self.notifications += self.case.publish(&self.work, self.driver.as_mut());
        self.serve(n);
        self.case.reclaim(self.driver.as_mut(), &mut self.used, n);
    }

    /// The device half of one burst.
    #[inline(always)]
    fn serve(&mut self, n: usize) {
        if self.case.asks {
            self.device.disable_kicks();
        }
        assert_eq!(self.device.pop(&mut self.burst, n).expect("sound"), n);
        for chain in self.burst.chains() {
            let slices = chain.readable();
            self.bytes += slices[0].len_bytes() as u64;
            // Apart from the first, so that the rows of one piece do not pay for a loop.
            if self.case.pieces {
                self.bytes += slices[1..].iter().map(|slice| slice.len_bytes() as u64).sum::<u64>();
            }
        }
        self.device.add_used_all(&mut self.burst);
        if self.case.asks {
            self.notifications += u64::from(self.device.needs_call());
            std::hint::black_box(self.device.enable_kicks());
        }
    }

    /// The device half alone, over a queue that the driver half has filled off the clock: nanoseconds per
    /// buffer.
    pub fn device_round(&mut self) -> f64 {
        let n = self.work.len();
        let bursts = fill(&self.work, self.driver.as_mut(), self.case);
        let started = Instant::now();
        for _ in 0..bursts {
            self.serve(n);
        }
        let ns = started.elapsed().as_nanos() as f64;
        empty(self.driver.as_mut(), &mut self.used, bursts * n, self.case);
        ns / (bursts * n) as f64
    }
}

/// As many whole bursts as the queue holds; returns how many.
pub fn fill(work: &Work, driver: &mut dyn DriverQueue, case: Case) -> usize {
    let bursts = SIZE as usize / (work.len() * case.slots());
    for _ in 0..bursts {
        assert_eq!(work.add(driver), work.len());
    }
    bursts
}

/// Takes all of it back, and arms for a call if the case asks.
pub fn empty(driver: &mut dyn DriverQueue, used: &mut Vec<Used>, buffers: usize, case: Case) {
    used.clear();
    assert_eq!(driver.reclaim(used, usize::MAX).expect("sound"), buffers);
    if case.asks {
        assert!(!driver.enable_calls(), "all is reclaimed");
    }
}
