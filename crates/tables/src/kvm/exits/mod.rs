//! `tautline kvm trace`: exits by reason, and where the time went.

mod page;
mod table;

pub use page::page;
pub use table::{text, times};
