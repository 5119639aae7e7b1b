//! `tautline host verify`: what a plan's changes give.

mod limits;
mod table;

pub use limits::figures;
pub use table::render;
