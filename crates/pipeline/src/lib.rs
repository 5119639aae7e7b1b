//! Decides what is done with the frames of a burst: a [`Program`] for each port decides, and tells an [`Output`].
//!
//! | program | where frames go |
//! |---|---|
//! | [`Learning`] | by address, to the port behind which the address was learned |
//! | [`VlanLearning`] | the same within VLANs, with tags pushed and popped |
//! | [`Wire`] | all to one port |
//! | [`FlowProgram`] | as flow tables say |
//! | [`Bonded`] | as another program says, and for a bond to one of its ports |
//! | [`Nowhere`] | nowhere |
//!
//! A program opens nothing and reads no clock (time is an argument). A port is only a number for it.
//! [`Program::run`] is on the packet path, where it neither allocates nor waits. One program may run on several
//! workers at once, for each queue of its port.
//!
//! Parts that programs share: [`Admission`] says which frames may come from a port, [`RateLimit`] is a token
//! bucket, [`flow::of_frame`] finds the flow of a frame.
//!
//! # Where to change what
//!
//! - To add a rule of the switch: `Admission` or a `Program` in `crates/pipeline`. `crates/switch/src/programs.rs`
//!   chooses the program of each port. Its option belongs in `crates/switch/src/setup.rs`, in
//!   `crates/daemon/src/settings.rs` and in `crates/tautline/src/switch_command.rs`.
#![forbid(unsafe_code)]

mod admission;
mod bond;
mod connections;
pub mod flow;
mod flows;
mod fragments;
mod injected;
mod key;
mod learning;
mod policing;
mod port_numbers;
mod program;
mod rate_limit;
#[cfg(test)]
mod testing;
mod upcalls;
mod vlan;
mod wire;
mod worker_flows;

pub use ::conntrack::{ListFrom, Listed, Page, Selection, Tuple, TupleSelection, ZoneLimits};
pub use admission::{Admission, Guard, Unguarded};
pub use bond::{
    BOND_BUCKETS, BondExits, BondGuard, BondLoad, BondMode, Bonded, BondedNetwork, Buckets, Carriers,
};
pub use connections::{Connections, MAX_CONNECTIONS};
pub use flows::FlowProgram;
pub use injected::{ControllersFrame, Injected};
pub use key::Key;
pub use learning::table::{MOVE_WINDOW_SECONDS, MacTable, Refused, TableCounts, TableOptions};
pub use learning::{Learning, Station};
pub use policing::{Policer, Policing};
pub use port_numbers::PortNumbers;
pub use program::{Announced, Flooded, Now, Output, Program, Reach};
pub use rate_limit::RateLimit;
pub use upcalls::{PuntedFrame, Upcall, Upcalls, Wanted};
pub use vlan::{PortVlans, PriorityTags, VlanLearning, VlanMode, VlanOptions};
pub use wire::{Nowhere, Wire};
pub use worker_flows::{TablesId, WorkerFlows, flow_ms};

/// A port of a switch, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);
