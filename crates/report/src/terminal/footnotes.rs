//! Discarded trials and missing figures, with the reasons.

use crate::units;
use crate::view::View;

use crate::canvas::Canvas;

/// The most names that are shown; the results file has the others.
const NAMES_SHOWN: usize = 4;

pub(super) fn draw(canvas: &mut Canvas, view: &View) {
    canvas.heading("noise and gaps");
    let analysis = view.analysis;
    canvas.item(
        "-",
        &format!(
            "{} of {} trials discarded as noisy and repeated; {} kept although noisy (marked !); of these, {} and {} on \
             a core whose SMT sibling was at work",
            analysis.discarded,
            view.results.trials.len(),
            analysis.noisy,
            analysis.disturbed_discarded,
            analysis.disturbed_noisy
        ),
    );
    for ((environment, remark), metrics) in view.remarks() {
        let text = format!("{}: {} ({metrics} metrics)", units::text(environment), units::text(remark));
        canvas.item("-", &text);
    }
    for environment in &view.results.environments {
        if let Some(failure) = &environment.failure {
            let words = units::text(&failure.to_string());
            canvas.item("-", &format!("{} FAILED: {words}", units::text(&environment.name)));
        }
    }
    for (environment, reason, metrics) in view.absences() {
        canvas.item(
            "-",
            &format!(
                "{} lacks {}: {}",
                units::text(environment),
                names(&metrics),
                units::text(&reason.to_string())
            ),
        );
    }
    for (what, failure) in crate::network::missing(view.results) {
        let words = format!("{what}: {}", units::text(&failure.to_string()));
        canvas.item("-", &words);
    }
    let all_paths = view.results.network.paths.iter().all(|path| path.failure.is_none());
    if all_paths
        && view.results.absences.is_empty()
        && view.results.environments.iter().all(|e| e.failure.is_none())
    {
        canvas.item("-", "nothing that was asked for is missing");
    }
}

fn names(metrics: &[&str]) -> String {
    let mut shown = units::text(&metrics[..metrics.len().min(NAMES_SHOWN)].join(", "));
    if metrics.len() > NAMES_SHOWN {
        shown.push_str(&format!(" and {} more", metrics.len() - NAMES_SHOWN));
    }
    shown
}
