//! Which frames a capture keeps: the most used part of pcap-filter(7), with the meaning that tcpdump gives it.

mod field;
mod filter;
mod parse;
mod possible;
mod primitives;
#[cfg(test)]
mod tests;

pub use field::HEADER_BYTES;
pub use filter::Filter;
pub use parse::parse;

/// Says what is wrong with a filter.
///
/// # Errors
/// The text is not understood, or no frame can match it.
pub fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}
