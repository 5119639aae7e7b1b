//! Where and how the run was made.

use comfy_table::Cell;

use crate::view::{View, environment_name, plan};
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

use crate::canvas::Canvas;

pub(super) fn draw(canvas: &mut Canvas, view: &View) {
    let results = view.results;
    let host = &results.host;
    let known = |fact: &str| if fact.is_empty() { "unknown".to_owned() } else { units::text(fact) };
    canvas.paragraph(&format!(
        "{}, {} CPUs, {}; kernel {}{}; {}",
        known(&host.cpu_model),
        host.cpus_online,
        units::size(host.memory_bytes as f64),
        known(host.kernel.split(' ').next().unwrap_or_default()),
        if host.hypervisor.is_empty() {
            String::new()
        } else {
            format!("; itself a guest of {}", units::text(&host.hypervisor))
        },
        units::text(&crate::view::started(results)),
    ));
    canvas.paragraph(&plan(results));
    if !results.complete {
        canvas.warning(&format!(
            "INTERRUPTED after {}: what follows was gathered before; intervals are wider or missing",
            units::watched((results.elapsed_s.max(0.0) * 1e9) as u64)
        ));
    }
    let base = results.environments.first().map(|environment| environment.name.as_str());
    let rows: Vec<Vec<Cell>> = results
        .environments
        .iter()
        .map(|environment| {
            let facts: Vec<String> =
                environment.facts.iter().map(|(key, value)| format!("{key} {value}")).collect();
            let mut words = units::text(&facts.join(", "));
            if let Some(failure) = &environment.failure {
                words = format!("FAILED: {}", units::text(&failure.to_string()));
            } else if base == Some(environment.name.as_str()) {
                words = format!("the base of all ratios {words}");
            }
            let how = if environment.emulated {
                format!("{} (emulated)", units::text(&environment.accelerator))
            } else {
                units::text(&environment.accelerator)
            };
            vec![Cell::new(environment_name(environment)), Cell::new(how), Cell::new(words)]
        })
        .collect();
    if rows.is_empty() {
        canvas.warning("no environment was measured");
    } else {
        canvas.columns(&[], rows);
    }
    if view.any_emulated() {
        canvas.item(EMULATED_MARK, EMULATED_MEANING);
    }
    if view.analysis.summaries.is_empty() {
        canvas.warning("nothing was measured: there is no figure to show");
    }
}
