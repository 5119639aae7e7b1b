//! One axis: its readings, and the force that a controller computes from them.

/// From one tick to the next, s, as the model has it.
const STEP: f64 = 0.001;
/// Variance of a reading, and of what moves the axis.
const READING_VARIANCE: f64 = 1e-4;
const MOTION_VARIANCE: f64 = 1e-2;
/// The gains of the state feedback: stiffness and damping.
const STIFFNESS: f64 = 400.0;
const DAMPING: f64 = 40.0;

/// The reading of an axis at a tick: a slow oscillation with noise. Both are determined by axis and tick.
pub fn reading(axis: u32, tick: u64) -> f64 {
    let mut noise = (u64::from(axis) << 40 ^ tick).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    noise ^= noise >> 29;
    noise = noise.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    noise ^= noise >> 32;
    let noise = (noise as u32 as f64 / f64::from(u32::MAX) - 0.5) * 0.02;
    // A triangle wave: no function whose last digit may differ between machines.
    let phase = (tick + u64::from(axis) * 37) % 2000;
    let triangle = if phase < 1000 { phase as f64 } else { (2000 - phase) as f64 };
    triangle / 1000.0 - 0.5 + noise
}

/// The state of an axis as estimated by a Kalman filter of position and velocity (Kalman, 1960).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    position: f64,
    velocity: f64,
    /// The covariance of the position, of position and velocity, and of the velocity.
    covariance: [f64; 3],
}

impl Default for Estimate {
    fn default() -> Self {
        Estimate { position: 0.0, velocity: 0.0, covariance: [1.0, 0.0, 1.0] }
    }
}

impl Estimate {
    /// Takes a reading, and returns the force that brings the axis to rest in the middle.
    pub fn update(&mut self, reading: f64) -> f64 {
        let [pp, pv, vv] = self.covariance;
        let position = self.position + STEP * self.velocity;
        let (pp, pv, vv) = (pp + STEP * (2.0 * pv + STEP * vv), pv + STEP * vv, vv + STEP * MOTION_VARIANCE);
        let (gain_p, gain_v) = (pp / (pp + READING_VARIANCE), pv / (pp + READING_VARIANCE));
        let residual = reading - position;
        self.position = position + gain_p * residual;
        self.velocity += gain_v * residual;
        self.covariance = [(1.0 - gain_p) * pp, (1.0 - gain_p) * pv, vv - gain_v * pv];
        -STIFFNESS * self.position - DAMPING * self.velocity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_axis_and_is_quieter_than_the_readings() {
        let mut estimate = Estimate::default();
        let mut worst: f64 = 0.0;
        for tick in 0..900 {
            estimate.update(reading(0, tick));
            if tick > 300 {
                worst = worst.max((estimate.position - (tick as f64 / 1000.0 - 0.5)).abs());
            }
        }
        assert!(worst < 0.01, "{worst}");
    }
}
