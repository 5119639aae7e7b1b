//! A bridge as controllers see it: flows, groups, meters and ports behind OpenFlow.
//!
//! [`Bridge`] implements the trait `Switch` of the crate `controllers`. It carries out the requests of controllers as
//! changes of `flow-tables`. A change that the tables refuse becomes the OpenFlow error with which Open vSwitch refuses
//! it. The crate opens no files or sockets and reads no clock: the time is an argument.
//!
//! # Compared with Open vSwitch 3.1
//!
//! `tests/ofctl` gives the same commands of `ovs-ofctl` to a bridge of this crate and to a bridge of Open vSwitch, and
//! compares the output. These differences are intended:
//!
//! | subject | here | Open vSwitch 3.1 |
//! |---|---|---|
//! | a flow of OpenFlow 1.0 that sets a field, and whose match does not require the field's protocol | is refused | sets the field in frames that have the field |
//! | actions that set a field, such as `load` and `mod_nw_tos` | are printed as the crate `flow` prints them | are printed with their own names |
//! | the number of flows and groups | is limited by [`flow_tables::Limits`] | is not limited |
//! | a request for eviction, or for a configuration of tables | is refused | is carried out as OpenFlow 1.4 specifies |
//! | a request of a secondary controller to end tracked connections | is refused | is carried out |
//! | the order of groups, meters and ports in an answer | by number | by hash |
//! | table 254, which Open vSwitch uses internally | does not exist | is reported on request |
//!
//! # Where to change what
//!
//! - To change how flows, groups, meters or ports are changed: `flows.rs`, `groups.rs`, `meters.rs`, `ports.rs`.
//! - To accept an action of lines of flows that is refused now: `line.rs`.
//! - To change the description of a port for controllers: `port.rs`.
//! - To change answers to requests: `answers.rs`.
//! - To change what controllers get of a frame, and how they return it: `punted.rs`.
//! - To change the OpenFlow error of a refusal: `refusal.rs`.
//! - To change what a process that takes over gets of a bridge: `saved.rs`.
#![forbid(unsafe_code)]

mod answers;
mod bridge;
pub mod compose;
mod flows;
mod groups;
pub mod line;
mod meters;
mod port;
mod ports;
mod punted;
mod refusal;
pub mod replace;
mod saved;
mod state;
mod time;
mod tunnel_options;

pub use bridge::{Bridge, Identity};
pub use port::{BridgePort, PortCounts};
pub use punted::SentFrame;
