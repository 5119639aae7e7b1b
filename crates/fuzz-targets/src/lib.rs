//! One fuzz target for each kind of bytes that another program writes: a peer, a guest, a file.
//!
//! Each accepts any bytes, and panics if the code under test accepts something that it must not. `fuzz/` runs them
//! guided by coverage (`make fuzz`). The tests of this crate replay `fuzz/corpus`, which has a folder for each
//! target.
//!
//! To add a target: a function here or in a module, a line in [`TARGETS`], and a folder in `fuzz/corpus` with at
//! least one input.
//!
//! # Where to change what
//!
//! - To fuzz something else: a function and a line in `TARGETS` of `crates/fuzz-targets`, a folder in `fuzz/corpus`.
//!   `make fuzz` runs all targets, `scripts/fuzz.sh NAME` one.
#![forbid(unsafe_code)]

mod control_channels;
mod database;
mod frames;
mod openflow_messages;
mod queues;
mod script;
mod text;
mod tunnel_headers;
mod vhost_user_messages;

/// A target: its name, and the function that takes an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("hostile_driver", queues::hostile_driver),
    ("hostile_device", queues::hostile_device),
    ("vhost_user_codec", vhost_user_messages::codec),
    ("vhost_user_back_end", vhost_user_messages::back_end),
    ("vhost_user_front_end", vhost_user_messages::front_end),
    ("frames", frames::frames),
    ("control_protocol", text::control_protocol),
    ("configuration", text::configuration),
    ("hand_over", text::hand_over),
    ("results", text::results),
    ("agent_protocol", text::agent_protocol),
    ("files", text::files),
    ("ovsdb_server", database::ovsdb_server),
    ("openflow_messages", openflow_messages::openflow_messages),
    ("tunnel_headers", tunnel_headers::tunnel_headers),
    ("control_channels", control_channels::control_channels),
];

/// The target with this name.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
