//! Why a search has no answer.
use traffic::results::SearchResult;
use traffic::rfc2544::LEAST_FPS;
use traffic::search::{Cut, Finding, Load};

/// The reason why a search ended early, in words.
pub fn why_cut(cut: Cut) -> &'static str {
    match cut {
        Cut::Trials => "the number of trials that a search may take was reached",
        Cut::Traffic => "the time that a search may take was reached",
        Cut::Invalid => {
            "the generator was disturbed or too slow in every try at one load; give it a CPU of its own (--cpu), \
             or offer less (--max-rate)"
        }
    }
}

/// Why a search has no answer, in words.
pub fn why_undecided(result: &SearchResult) -> Option<String> {
    let of = |finding: &Finding<Load>| match finding {
        Finding::Undecided { cut, .. } => Some(format!("undecided: {}", why_cut(*cut))),
        Finding::BelowMinimum { .. } => Some(format!("frames are lost even at {LEAST_FPS} frames/s")),
        _ => None,
    };
    match result {
        SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => of(finding),
        SearchResult::Mlr { outcome } => outcome.cut.map(|cut| format!("undecided: {}", why_cut(cut))),
        SearchResult::Maximum { .. } => None,
    }
}
