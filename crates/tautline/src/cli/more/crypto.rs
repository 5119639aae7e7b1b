//! The command line of `crypto`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use crypto_device::Port;
use crypto_driver::bench::{Algorithm, MOST_SLOTS};
use linux::duration;

use super::{EXIT_CODES, ResultsTo};

/// Arguments of `crypto`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Crypto {
    /// A device: its name, the socket where it listens, and how many sessions a front-end may have there
    /// [default: 1024]. May be repeated.
    #[arg(long, required = true, value_name = "NAME=vhost-user:PATH[,sessions=N]")]
    pub port: Vec<Port>,

    /// A subcommand to carry out instead of serving.
    #[command(subcommand)]
    pub command: Option<CryptoCommand>,
}

/// The subcommands of `crypto`.
#[derive(Debug, Subcommand)]
pub enum CryptoCommand {
    /// Operations a second and latencies of a device, by algorithm and size, compared with direct calls of the
    /// library.
    Bench(CryptoBench),
}

/// Arguments of `crypto bench`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CryptoBench {
    /// The device: the vhost-user socket where it listens. No other front-end may be connected.
    #[arg(long, value_name = "virtio-user:PATH", value_parser = crypto_driver::bench::target)]
    pub to: PathBuf,

    /// Only these algorithms, of aes-128-cbc, aes-128-cbc-decrypt, aes-128-ctr, aes-256-xts, aes-128-gcm,
    /// chacha20-poly1305, sha-256, sha-512, hmac-sha-256, aes-128-cmac.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub algorithms: Vec<Algorithm>,

    /// Bytes of a request's data, multiples of 16.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_value = "64,256,1024,4096,16384,65536", value_parser = crypto_driver::bench::size)]
    pub sizes: Vec<u32>,

    /// Requests that are outstanding at once. One outstanding request is always measured too.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_SLOTS)))]
    pub depth: u16,

    /// Use a packed ring.
    #[arg(long)]
    pub packed: bool,

    /// How often device and library are measured in turns, for each algorithm and size; 6 or more give intervals.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: u32,

    /// Length of each trial; a block has three.
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(10)))]
    pub trial: Duration,

    /// How long the device may take for an answer.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(600)))]
    pub timeout: Duration,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
