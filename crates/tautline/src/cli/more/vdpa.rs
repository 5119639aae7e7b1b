//! The command line of `vdpa`.

use std::path::PathBuf;

use clap::Args;
use vdpa_relay::Port;

use super::EXIT_CODES;

/// Arguments of `vdpa`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Vdpa {
    /// The socket where the relay listens for front-ends, its name in log lines, and how much memory a front-end may
    /// share [default: 64G]. All of that memory is pinned.
    #[arg(long, value_name = "NAME=vhost-user:PATH[,memory=SIZE]")]
    pub port: Port,

    /// The vDPA device that works on the rings of the front-end.
    #[arg(long, value_name = "/dev/vhost-vdpa-N")]
    pub device: PathBuf,
}
