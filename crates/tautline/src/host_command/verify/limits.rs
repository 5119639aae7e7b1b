//! What a gate may limit of a verification: `applied.wakeup` and `as-found.wakeup`, distributions in nanoseconds, and
//! `applied.interrupts` and its like a second.

use measure::{Histogram, Unit};
use report::gate;

use super::effects::{Effect, Figure};
use super::record::Sample;
use super::results::Verification;
use super::states::State;

/// All of them.
pub fn figures(verification: &Verification) -> Vec<gate::Figure> {
    let sides: [(&str, State, fn(&Effect) -> f64); 2] = [
        ("as-found", State::AsFound, |effect| effect.base),
        ("applied", State::Applied, |effect| effect.other),
    ];
    sides
        .into_iter()
        .flat_map(|(name, state, level)| {
            let own: Vec<&Sample> =
                verification.samples.iter().filter(|sample| sample.state == state).collect();
            let mut all = vec![wakeup(format!("{name}.wakeup"), &own)];
            for (event, figure) in [
                ("interrupts", Figure::Interrupts),
                ("timer", Figure::Timer),
                ("softirqs", Figure::Softirqs),
                ("switches", Figure::Switches),
            ] {
                let effect = verification.effects.iter().find(|effect| effect.figure == figure);
                all.push(gate::Figure {
                    metric: format!("{name}.{event}"),
                    unit: Unit::OpsPerSecond,
                    value: effect.map(level).ok_or_else(|| "it could not be counted".to_owned()),
                    histogram: None,
                    missed: None,
                });
            }
            all
        })
        .collect()
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
