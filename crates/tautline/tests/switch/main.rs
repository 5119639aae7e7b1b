//! `tautline switch` and `tautline ctl`, with real and hostile peers.

mod af_xdp;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/mod.rs"]
mod common;
mod control;
mod dpdk;
mod flow_tables;
mod guests;
mod hostile;
mod namespaces;
mod openflow_messages;
mod ovsdb;
mod plug_in_a_guest;
mod recovery;
mod recovery_drivers;
#[path = "../switch_process/mod.rs"]
mod switch_process;
mod upgrade;
mod vdpa;
mod vduse;
