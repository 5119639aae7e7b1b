//! `tautline crypto bench`: a crypto device compared with direct calls of the library.

mod results;
mod table;

pub use results::{Results, SCHEMA};
pub use table::text;
