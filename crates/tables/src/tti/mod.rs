//! `tautline tti`: shows when ticks reach user space.

mod in_short;
mod mark;
mod page;
mod pv_sched_table;
mod stage_table;
mod table;

pub use page::page;
pub use table::text;
