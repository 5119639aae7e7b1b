//! `tautline host verify`: what a plan's changes give.

mod in_short;
mod limits;
mod table;

pub use limits::figures;

use lab::host_verify::Verification;

/// The whole text, in at most `width` columns; its last lines are the summary.
pub fn render(verification: &Verification, width: usize) -> String {
    let end = in_short::lines(verification).into_iter().map(|line| line + "\n");
    table::render(verification, width) + &end.collect::<String>()
}
