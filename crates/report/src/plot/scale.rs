//! A logarithmic axis: maps values to coordinates and chooses ticks.

/// A logarithmic axis from `low` to `high`, drawn between two coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogAxis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogAxis {
    /// An axis that covers all values that can be drawn on it (positive and finite), with a little room at both
    /// ends. It is at least a factor of `least` wide. `None` if no value can be drawn.
    pub(super) fn around(values: impl Iterator<Item = f64>, least: f64, from: f64, to: f64) -> Option<Self> {
        let drawable = values.filter(|value| drawable(*value));
        let (low, high) = drawable
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        // In logarithms: hostile values would overflow otherwise.
        let (low, high) = (low.ln(), high.ln());
        let missing = (least.ln() - (high - low)).max(0.0) / 2.0;
        let room = (high - low + 2.0 * missing) * 0.04;
        Some(LogAxis { low: low - missing - room, high: high + missing + room, from, to })
    }

    /// The coordinate of a value. Values beyond the axis are drawn at its ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(f64::MIN_POSITIVE, f64::MAX).ln() - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    /// Ticks at 1, 2 and 5 of each decade, at 1 and 3, at decades, or at every nth decade: the densest choice with
    /// at most `most` ticks. If the axis is narrower, ticks are at even steps.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let decades = |mantissas: &[f64], every: i32| -> Vec<f64> {
            let (first, last) = (exponent(self.low), exponent(self.high));
            let exponents = (first..=last).filter(|e| e.rem_euclid(every) == 0);
            let all = exponents.flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)));
            all.filter(|value| self.holds(*value)).collect()
        };
        let mut choices = vec![decades(&[1.0, 2.0, 5.0], 1), decades(&[1.0, 3.0], 1), decades(&[1.0], 1)];
        choices.extend([2, 3, 6, 12, 50].map(|every| decades(&[1.0], every)));
        match choices.into_iter().find(|ticks| ticks.len() <= most) {
            Some(ticks) if ticks.len() >= 3 => ticks,
            Some(ticks) => {
                let even = self.even_ticks(most);
                if even.len() > ticks.len() { even } else { ticks }
            }
            None => Vec::new(),
        }
    }

    /// Multiples of a round step.
    fn even_ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = (self.low.exp(), self.high.exp());
        let magnitude = 10f64.powi(exponent((high - low).max(f64::MIN_POSITIVE).ln()));
        let steps = [0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0].map(|step| step * magnitude);
        let Some(step) = steps.into_iter().find(|step| (high - low) / step <= most as f64) else {
            return Vec::new();
        };
        let first = (low / step).ceil();
        (0..=most).map(|n| (first + n as f64) * step).filter(|value| self.holds(*value)).collect()
    }

    /// Ticks at powers of two, for sizes; at most `most`.
    pub(super) fn binary_ticks(&self, most: usize) -> Vec<f64> {
        // From the logarithms, not from the values: room at the ends can go beyond what a double holds.
        let power = |ln: f64| (ln / std::f64::consts::LN_2).clamp(-1022.0, 1023.0);
        let (first, last) = (power(self.low).ceil() as i32, power(self.high).floor() as i32);
        let all = |every: i32| (first..=last).filter(move |e| e.rem_euclid(every) == 0);
        let every = (1..4096).find(|every| all(*every).count() <= most).unwrap_or(4096);
        all(every).map(|e| 2f64.powi(e)).filter(|value| self.holds(*value)).collect()
    }

    fn holds(&self, value: f64) -> bool {
        drawable(value) && (self.low..=self.high).contains(&value.ln())
    }
}

/// Whether a value can be drawn on a logarithmic axis.
pub(super) fn drawable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

fn exponent(ln: f64) -> i32 {
    (ln / std::f64::consts::LN_10).clamp(-308.0, 308.0).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: f64, high: f64) -> LogAxis {
        LogAxis::around([low, high].into_iter(), 1.2, 0.0, 100.0).unwrap()
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        let near = |ticks: Vec<f64>, expected: &[f64]| {
            assert_eq!(ticks.len(), expected.len(), "{ticks:?} {expected:?}");
            assert!(ticks.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{ticks:?}");
        };
        near(axis(1.0, 30.0).ticks(6), &[1.0, 2.0, 5.0, 10.0, 20.0]);
        near(axis(1.0, 1e6).ticks(8), &[1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6]);
        near(axis(0.5, 50.0).ticks(5), &[1.0, 3.0, 10.0, 30.0]);
        near(axis(0.95, 1.12).ticks(6), &[0.95, 1.0, 1.05, 1.1]);
        near(
            axis(16384.0, 268435456.0).binary_ticks(8),
            &[14, 16, 18, 20, 22, 24, 26, 28].map(|e| 2f64.powi(e)),
        );
    }

    #[test]
    fn what_cannot_be_drawn_is_no_axis_and_no_coordinate_is_wild() {
        assert!(LogAxis::around([f64::NAN, 0.0, -1.0, f64::INFINITY].into_iter(), 2.0, 0.0, 1.0).is_none());
        for (low, high) in [(f64::MIN_POSITIVE, f64::MAX), (1.0, 1.0), (5e-324, 5e-324), (1e300, 1e301)] {
            let axis = axis(low, high);
            for value in [low, high, 0.0, -1.0, f64::NAN, f64::INFINITY] {
                assert!((0.0..=100.0).contains(&axis.at(value)), "{low} {high} {value}");
            }
            for most in 2..10 {
                assert!(axis.ticks(most).len() <= most + 1 && axis.binary_ticks(most).len() <= most);
            }
        }
    }
}
