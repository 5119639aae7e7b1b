//! The commands that `make compare` does not build; `left_out.rs` is there in their place.

pub mod agent_command;
pub mod crypto_command;
pub mod packaging;
pub mod rfc2544;
pub mod scenario_command;
mod serving;
pub mod torture_command;
pub mod vdpa_command;
