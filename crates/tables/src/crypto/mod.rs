//! `tautline crypto bench`: a crypto device beside the library called directly.

mod results;
mod table;

pub use results::{Results, SCHEMA};
pub use table::text;
