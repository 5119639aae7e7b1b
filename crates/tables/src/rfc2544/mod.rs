//! `tautline rfc2544`: packet rates and latencies of any vhost-user switch.

mod diff;
mod gate;
mod in_short;
mod pages;
mod show;
mod tables;
mod undecided;

pub use diff::Diff;
pub use gate::figures;
pub use pages::page;
pub use show::text;
