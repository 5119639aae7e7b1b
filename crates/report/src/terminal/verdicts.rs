//! One line for each environment: in how many metrics a difference was shown.

use measure::compare::Finding;

use crate::units;
use crate::view::View;

use super::Canvas;

pub(super) fn draw(canvas: &mut Canvas, view: &View) {
    let others = view.results.environments.iter().skip(1);
    let counts: Vec<_> = others
        .map(|environment| {
            let of = |finding: Finding| {
                let all = view.analysis.comparisons.iter();
                all.filter(|c| c.environment == environment.name && c.finding == finding).count()
            };
            let [none, slower, faster] =
                [Finding::NoDifferenceShown, Finding::Slower, Finding::Faster].map(of);
            (environment, none, slower, faster)
        })
        .filter(|(_, none, slower, faster)| none + slower + faster > 0)
        .collect();
    if counts.is_empty() {
        return;
    }
    canvas.heading("in short");
    for (environment, none, slower, faster) in counts {
        let mark = if environment.emulated { crate::EMULATED_MARK } else { "" };
        let text = format!(
            "{}{mark}: no difference shown in {none} of {} metrics; {slower} slower, {faster} faster",
            units::text(&environment.name),
            none + slower + faster,
        );
        canvas.item("-", &text);
    }
}
