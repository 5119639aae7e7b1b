//! The switch between in-memory ports whose other side is in the hands of the tests.
mod attaching;
mod bench;
mod changing;
mod flows;
mod forwarding;
mod lines;
mod loops;
mod policing;
mod shares;
mod sleeping;
mod stuck;
mod trouble;
mod vlans;
mod workers;
