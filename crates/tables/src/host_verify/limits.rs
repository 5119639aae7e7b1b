//! Figures of a verification that a gate may limit: `applied.wakeup` and `as-found.wakeup` are distributions in
//! nanoseconds, `applied.interrupts` and the like are counts a second.

use lab::host_verify::{Effect, Figure, Sample, State, Verification};
use measure::{Histogram, Unit};
use report::gate;

/// All such figures.
pub fn figures(verification: &Verification) -> Vec<gate::Figure> {
    let mut all = of_state(verification, "as-found", &State::AsFound, |effect| effect.base);
    all.extend(of_state(verification, "applied", &State::Applied, |effect| effect.other));
    all
}

fn of_state(
    verification: &Verification,
    name: &str,
    state: &State,
    level: impl Fn(&Effect) -> f64,
) -> Vec<gate::Figure> {
    let mut own = verification.counted();
    own.retain(|sample| sample.state == *state);
    let events = [
        ("interrupts", Figure::Interrupts),
        ("timer", Figure::Timer),
        ("softirqs", Figure::Softirqs),
        ("switches", Figure::Switches),
    ];
    let counts = events.into_iter().map(|(event, figure)| {
        let effect = verification.effects.iter().find(|effect| effect.figure == figure);
        gate::Figure {
            metric: format!("{name}.{event}"),
            unit: Unit::OpsPerSecond,
            value: effect.map(&level).ok_or_else(|| "it could not be counted".to_owned()),
            histogram: None,
            missed: None,
        }
    });
    [wakeup(format!("{name}.wakeup"), &own)].into_iter().chain(counts).collect()
}

fn wakeup(metric: String, samples: &[&Sample]) -> gate::Figure {
    let mut histogram = Histogram::new();
    for own in samples.iter().filter_map(|sample| sample.outcome.histogram.as_ref()) {
        histogram.merge(own);
    }
    let measured = histogram.count() > 0;
    gate::Figure {
        metric,
        unit: Unit::Nanos,
        value: measured.then(|| histogram.median_ns() as f64).ok_or_else(|| "it was not measured".into()),
        missed: measured.then(|| samples.iter().map(|sample| sample.outcome.missed).sum()),
        histogram: measured.then_some(histogram),
    }
}

#[cfg(test)]
mod tests {
    use lab::host_verify::{example, samples};

    use super::*;

    #[test]
    fn both_sides_can_be_limited_and_what_was_not_counted_has_no_figure() {
        let all = figures(&example(samples(6)));
        let of = |name: &str| all.iter().find(|figure| figure.metric == name).unwrap();
        assert_eq!(all.len(), 10);
        assert_eq!(of("as-found.interrupts").value, Ok(20.0));
        assert_eq!(of("applied.interrupts").value, Ok(0.0));
        assert!(of("applied.switches").value.is_err());
        assert_eq!(of("applied.wakeup").histogram.as_ref().unwrap().max_ns(), 6000);
        assert!(figures(&example(Vec::new())).iter().all(|figure| figure.value.is_err()));
    }
}
