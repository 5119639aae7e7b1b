//! The switch as a service: settings by flags or in a configuration file, signals, the control socket, metrics,
//! captures, hand-over to another process, and what the process gives up once it runs.
//!
//! A program needs only [`run`]: `tautline switch` reads its flags into [`Settings`] and calls it.
//!
//! # Where to change what
//!
//! - To change what the switch gives up: `sandbox.rs`, and its row in `docs/threat-model.md`.
//! - To change how a running switch is taken over: `hand_over_format.rs`, `exchange.rs`, `take_over.rs`
//!   and `control_socket/hand_over.rs`; ports: `Port::hand_over`, `crates/vhost-device/src/backend/hand_over.rs`,
//!   `crates/vhost-user/src/session/backend/journal.rs`; the switch: `crates/switch/src/hand_over.rs`.
//! - To change the flows of a running switch: `bridges/`; lines of flows: `crates/bridge/src/line.rs`.
//! - To change the configuration file: `settings.rs` (each key is an option) and `settings_file.rs`; a port of it:
//!   `crates/control/src/port_description.rs`.
#![forbid(unsafe_code)]

mod bonds;
mod bridges;
mod companion;
mod configuration_file;
mod configured;
mod control_socket;
mod error;
mod exchange;
mod flows;
mod frame_filter;
pub mod hand_over_format;
mod metrics;
mod non_blocking_writer;
mod operator;
mod policing;
mod ports;
mod readiness;
mod run;
mod sandbox;
mod selection;
pub mod settings;
pub mod settings_file;
mod signals;
mod take_over;
mod vlans;
mod wanted_ports;
mod watch;

pub use companion::Companion;
pub use configured::read_settings;
pub use error::{Error, Invalid};
pub use frame_filter::check as check_filter;
pub use ports::described;
pub use run::{Service, run};
pub use settings::Settings;
pub use signals::{CounterFile, Counters};
pub use tunnel_ports::KINDS as TUNNELS;
