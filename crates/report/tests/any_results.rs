//! No results file, however strange, may end the program.

use measure::compare::analyse;
use measure::{CurvePoint, Histogram, Results, Unit, Verdict, example};
use proptest::prelude::*;
use report::{diff::Diff, gate::Gate, html, several::Several, terminal};

fn strange_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 1e-3..1e9,
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, -f64::INFINITY, 0.0, -0.0, -1.0, f64::MAX,
            f64::MIN_POSITIVE, 5e-324, 1.0]),
        1 => any::<f64>(),
    ]
}

prop_compose! {
    fn any_results()(
        values in prop::collection::vec(strange_number(), 1..200),
        counts in prop::collection::vec((any::<u64>(), 0..1_000_000_000_000u64), 0..20),
        x in prop::collection::vec(strange_number(), 1..20),
        environments in 0usize..5,
        metrics in 0usize..80,
        blocks in 1u32..12,
        word in "\\PC{0,40}",
        complete: bool,
        plan_ms: u64,
        elapsed_s in strange_number(),
    ) -> Results {
        let mut results = example::results();
        results.complete = complete;
        results.plan.trial_ms = plan_ms;
        results.elapsed_s = elapsed_s;
        results.environments.truncate(environments);
        results.metrics.truncate(metrics);
        results.trials.retain(|trial| trial.block < blocks);
        for (place, spec) in results.metrics.iter_mut().enumerate() {
            spec.title.push_str(&word);
            match place % 5 {
                0 => spec.unit = Unit::Other(word.clone()),
                1 => spec.curve = Some(CurvePoint { curve: word.clone(), x: 1.0, x_title: word.clone() }),
                _ => {}
            }
            if let Some(curve) = &mut spec.curve {
                curve.x = x[place % x.len()];
            }
        }
        for (place, trial) in results.trials.iter_mut().enumerate() {
            trial.outcome.value = values[place % values.len()];
            trial.outcome.missed = counts.first().map_or(0, |count| count.0);
            trial.outcome.elapsed_ns = counts.last().map_or(0, |count| count.0);
            if place % 11 == 0 {
                trial.verdict = Verdict::KeptNoisy(word.clone());
            }
            // A histogram takes memory: in some trials only.
            if place % 97 == 0 {
                let mut histogram = Histogram::new();
                for (_, nanos) in &counts {
                    histogram.record_ns(*nanos);
                }
                trial.outcome.histogram = Some(histogram);
            }
        }
        results
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_drawn(results in any_results(), width in 0usize..300, color: bool) {
        let analysis = analyse(&results);
        prop_assert!(!terminal::render(&results, &analysis, width, color).is_empty());
        let page = html::render(std::slice::from_ref(&results));
        prop_assert!(page.ends_with("</html>"));
        prop_assert!(!page.contains("=\"NaN"), "a coordinate that no browser draws");
        let other = example::results();
        prop_assert!(!Diff::new(&results, &other).render(width, color).is_empty());
        // The example's trials after the first start add time and no shape.
        let mut short = other.clone();
        short.trials.retain(|trial| trial.block == 0);
        let runs = [results.clone(), short.clone(), results.clone()];
        prop_assert!(!Several::new(&[short, results.clone()]).render(width, color).is_empty());
        let page = html::render(&runs);
        prop_assert!(page.ends_with("</html>") && !page.contains("=\"NaN"));
        let gate = Gate::parse(
            "[[limit]]\nmetric='*'\nmax_slowdown=2\n[[limit]]\nmetric='*'\nstatistic='p99'\nmax=1",
        );
        prop_assert!(gate.unwrap().evaluate(&results, &analysis).len() >= 2);
    }
}
