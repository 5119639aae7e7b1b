//! Actions on the wire (OpenFlow 1.0 §5.2.4; 1.5 §7.2.6; ovs-actions(7)).

mod connection;
mod controller;
mod field;
mod learn;
mod list;
mod nicira;
mod output;
mod pick;
mod standard;
mod wire;

pub(crate) use controller::reason;
pub use controller::reason_number;
pub(crate) use list::{read_list, write_list};
