//! Meters: rates of frames or of bits, by token buckets. Time is an argument.
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{Band, BandKind, Meter, MeterUnit};

/// A bucket's tokens: bits, or thousandths of a frame. A band's rate is as many of them each millisecond.
const TOKENS_OF_A_FRAME: u64 = 1000;

/// A meter, and its token buckets. Several workers may use a meter at once.
///
/// A bucket is one word: the number of tokens that were taken or had no space, counted from time 0. A band brings
/// `now_ms * rate` tokens from time 0 on, so the difference is in the bucket. Numbers wrap around.
#[derive(Debug)]
pub struct MeterState {
    meter: Meter,
    /// By band.
    gone: Vec<AtomicU64>,
    /// The frames that were measured.
    measured: Counts,
    /// The frames for which a band had too few tokens, by band.
    exceeding: Vec<Counts>,
}

/// A count of frames and of their bytes.
#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    fn add(&self, frame_bytes: usize) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(frame_bytes as u64, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.frames.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Clone for Counts {
    fn clone(&self) -> Self {
        let (frames, bytes) = self.get();
        Counts { frames: frames.into(), bytes: bytes.into() }
    }
}

/// The most tokens that a band's bucket holds: its burst, or what its rate brings in a second.
fn full(band: &Band) -> u64 {
    let burst = if band.burst == 0 { band.rate } else { band.burst };
    u64::from(burst) * 1000
}

fn brought(band: &Band, now_ms: u64) -> u64 {
    now_ms.wrapping_mul(band.rate.into())
}

impl Clone for MeterState {
    /// A meter with as many tokens, which are its own from now on.
    fn clone(&self) -> Self {
        let gone = self.gone.iter().map(|gone| gone.load(Ordering::Relaxed).into()).collect();
        Self {
            gone,
            meter: self.meter.clone(),
            measured: self.measured.clone(),
            exceeding: self.exceeding.clone(),
        }
    }
}

impl MeterState {
    /// A meter whose buckets are full.
    pub fn new(meter: Meter, now_ms: u64) -> Self {
        let gone = meter.bands.iter().map(|band| brought(band, now_ms).wrapping_sub(full(band)).into());
        let exceeding = vec![Counts::default(); meter.bands.len()];
        Self { gone: gone.collect(), meter, measured: Counts::default(), exceeding }
    }

    /// The measured frames and their bytes.
    pub fn measured(&self) -> (u64, u64) {
        self.measured.get()
    }

    /// The frames that each band applied to, and their bytes.
    pub fn exceeding(&self) -> Vec<(u64, u64)> {
        self.exceeding.iter().map(Counts::get).collect()
    }

    /// The meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether a frame of this number of bytes passes: false if a band of the kind `drop` has too few tokens. A frame
    /// takes tokens from each band that has enough of them. Bands that mark the DSCP let all frames pass.
    pub fn passes(&self, frame_bytes: usize, now_ms: u64) -> bool {
        let cost = match self.meter.unit {
            MeterUnit::Kilobits => 8 * frame_bytes as u64,
            MeterUnit::Packets => TOKENS_OF_A_FRAME,
        };
        self.measured.add(frame_bytes);
        let mut passes = true;
        for (at, (band, gone)) in self.meter.bands.iter().zip(&self.gone).enumerate() {
            let taken = gone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |gone| {
                let tokens = brought(band, now_ms).wrapping_sub(gone);
                // Another worker's clock was read later: it has taken tokens that are not there yet.
                let is_ahead = tokens > u64::MAX - full(band).max(u64::from(band.rate) * 1000);
                let tokens = if is_ahead { 0 } else { tokens.min(full(band)) };
                let left = tokens.checked_sub(cost)?;
                Some(brought(band, now_ms).wrapping_sub(left))
            });
            if taken.is_err() {
                self.exceeding[at].add(frame_bytes);
                passes &= band.kind != BandKind::Drop;
            }
        }
        passes
    }
}
