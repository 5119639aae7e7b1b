//! `tautline scenario`: shows how many users a chain serves in time.

mod mark;
mod page;
mod table;
mod users;
mod view;

pub use page::page;
pub use table::text;
