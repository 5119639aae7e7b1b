//! The outcomes of a gate.

use maud::{Markup, html};

use crate::gate::GateOutcome;
use crate::units;

pub(super) fn section(outcomes: &[GateOutcome]) -> Markup {
    let failed = outcomes.iter().filter(|outcome| !outcome.held()).count();
    html! {
        @if !outcomes.is_empty() {
            section {
                h2 { "Gate: " @if failed == 0 { "all " (outcomes.len()) " limits held" } @else { (failed) " of " (outcomes.len()) " limits failed" } }
                ul class="plain" {
                    @for outcome in outcomes {
                        li class=(if outcome.held() { "faster" } else { "slower" }) { (units::text(&outcome.to_string())) }
                    }
                }
            }
        }
    }
}
