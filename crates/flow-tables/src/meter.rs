//! Meters: rates of frames or of bits, by token buckets. Time is an argument.
use flow::{Band, BandKind, Meter, MeterUnit};

/// A bucket's tokens: bits, or thousandths of a frame. A band's rate is as many of them each millisecond.
const TOKENS_OF_A_FRAME: u64 = 1000;

/// A meter, and the tokens in its buckets.
#[derive(Clone, Debug)]
pub struct MeterState {
    meter: Meter,
    tokens: Vec<u64>,
    last_ms: u64,
}

/// The most tokens that a band's bucket holds: its burst, or what its rate brings in a second.
fn full(band: &Band) -> u64 {
    let burst = if band.burst == 0 { band.rate } else { band.burst };
    u64::from(burst) * 1000
}

impl MeterState {
    /// A meter whose buckets are full.
    pub fn new(meter: Meter, now_ms: u64) -> Self {
        let tokens = meter.bands.iter().map(full).collect();
        Self { meter, tokens, last_ms: now_ms }
    }

    /// The meter.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether a frame of this number of bytes passes: false if a band of the kind `drop` has too few tokens. A frame
    /// takes tokens from each band that has enough of them. Bands that mark the DSCP let all frames pass.
    pub fn passes(&mut self, frame_bytes: usize, now_ms: u64) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.last_ms);
        self.last_ms = self.last_ms.max(now_ms);
        let cost = match self.meter.unit {
            MeterUnit::Kilobits => 8 * frame_bytes as u64,
            MeterUnit::Packets => TOKENS_OF_A_FRAME,
        };
        let mut passes = true;
        for (band, tokens) in self.meter.bands.iter().zip(&mut self.tokens) {
            let new = elapsed_ms.saturating_mul(u64::from(band.rate));
            *tokens = tokens.saturating_add(new).min(full(band));
            match tokens.checked_sub(cost) {
                Some(left) => *tokens = left,
                None => passes &= band.kind != BandKind::Drop,
            }
        }
        passes
    }
}
