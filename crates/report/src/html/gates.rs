//! What a gate found.

use maud::{Markup, html};

use crate::gate::GateOutcome;
use crate::units;

pub(super) fn section(outcomes: &[GateOutcome]) -> Markup {
    let missed = outcomes.iter().filter(|outcome| !outcome.held()).count();
    html! {
        @if !outcomes.is_empty() {
            section {
                h2 { "Gate: " @if missed == 0 { "all " (outcomes.len()) " limits held" } @else { (missed) " of " (outcomes.len()) " limits missed" } }
                ul class="plain" {
                    @for outcome in outcomes {
                        li class=(if outcome.held() { "faster" } else { "slower" }) { (units::text(&outcome.to_string())) }
                    }
                }
            }
        }
    }
}
