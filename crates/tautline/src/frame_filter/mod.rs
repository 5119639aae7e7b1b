//! Which frames a capture keeps: the most used part of pcap-filter(7), the language of tcpdump.

mod filter;
mod headers;
mod parse;

pub use filter::Filter;
pub use headers::{HEADER_BYTES, Headers};
pub use parse::parse;
