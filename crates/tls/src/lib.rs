//! TLS as Open vSwitch's programs use it: both ends have a certificate of one authority, whatever names are in it
//! (ovs-pki(8)). TLS 1.3 and 1.2, by `rustls`.
//!
//! - To change which files are read: `keys.rs`.
//! - To change how bytes pass without waiting: `session.rs`.
#![forbid(unsafe_code)]

mod by_authority;
mod keys;
mod session;

pub use keys::{KeyFiles, Keys};
pub use session::Session;
