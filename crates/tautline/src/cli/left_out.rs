//! The command line of the commands that `make compare` does not build: anything, so that the answer is the remedy.

use std::ffi::OsString;

use clap::Args;

/// What `--version` prints.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "+compare\n`make compare` built it, without agent, completions, crypto, man, rfc2544, scenario, torture and vdpa;\n\
     `make release` builds the whole program"
);

/// Arguments of a command that is left out.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct LeftOut {
    /// Whatever the command would take.
    #[arg(hide = true, num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

pub use self::{
    LeftOut as Agent, LeftOut as Completions, LeftOut as Crypto, LeftOut as Man, LeftOut as Rfc2544,
    LeftOut as Scenario, LeftOut as Torture, LeftOut as Vdpa,
};
