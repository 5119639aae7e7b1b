//! A bridge as controllers see it: flows, groups, meters and ports behind OpenFlow.
//!
//! [`Bridge`] is the switch of the crate `controllers`: what controllers ask becomes changes of `flow-tables`, and what these
//! refuse becomes OpenFlow's errors, as Open vSwitch has them. The crate opens nothing and reads no clock: time is an
//! argument.
//!
//! # Compared with Open vSwitch 3.1
//!
//! `tests/ofctl` gives the same commands of `ovs-ofctl` to a bridge and to Open vSwitch's own one, and compares what is
//! printed. These differ on purpose:
//!
//! | what | here | Open vSwitch 3.1 |
//! |---|---|---|
//! | a flow of OpenFlow 1.0 that sets a field whose protocol its match does not have | refused | the field is set on frames that have it |
//! | `load`, `mod_nw_tos` and others that set a field | are printed as the crate `flow` prints them | keep their name |
//! | flows and groups | [`flow_tables::Limits`] | no limit |
//! | evictions, and configurations of tables | refused | as OpenFlow 1.4 has them |
//! | a secondary ends tracked connections | refused | done |
//! | the order of groups, meters and ports in an answer | by number | by hash |
//! | its own table 254 | is not there | is told of if asked for |
//!
//! # Where to change what
//!
//! - What a change of flows does: `flows.rs`; of groups: `groups.rs`; of meters: `meters.rs`; of ports: `ports.rs`; what is told of one: `port.rs`.
//! - What is answered to questions: `answers.rs`. Which error a refusal is: `refusal.rs`.
#![forbid(unsafe_code)]

mod answers;
mod bridge;
mod flows;
mod groups;
mod meters;
mod port;
mod ports;
mod refusal;
mod state;
mod time;
mod tunnel_options;

pub use bridge::{Bridge, Identity};
pub use port::{BridgePort, PortCounts};
