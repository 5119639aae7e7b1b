//! The commands that `make compare` does not build; `cli/left_out.rs` is there in their place.

mod agent;
mod crypto;
mod packaging;
mod rfc2544;
mod scenario;
mod torture;
mod vdpa;

pub use self::{agent::*, crypto::*, packaging::*, rfc2544::*, scenario::*, torture::*, vdpa::*};

use super::{EXIT_CODES, Reported, ResultsTo};

/// What `--version` prints.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
