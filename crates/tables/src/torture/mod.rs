//! `tautline torture`: hostile front-ends for any back-end.

mod results;
mod table;

pub use results::{Results, SCHEMA};
pub use table::text;
