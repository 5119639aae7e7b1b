//! `tautline host verify`: what a plan's changes give.

mod in_short;
mod limits;
mod table;

pub use limits::figures;

use lab::host_verify::Verification;

/// All of it, in at most `width` columns, and at the end its answer.
pub fn render(verification: &Verification, width: usize) -> String {
    let end = in_short::lines(verification).into_iter().map(|line| line + "\n");
    table::render(verification, width) + &end.collect::<String>()
}
