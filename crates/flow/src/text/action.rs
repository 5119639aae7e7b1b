//! Reads and prints actions as text.

mod connection;
mod learn;
mod parse;
mod print;
mod word;

use crate::action::{HashFields, Reason};

pub(super) use parse::list;
pub(super) use print::List;
pub(super) use word::{Word, number, port_of, split};

const REASONS: [(&str, Reason); 6] = [
    ("no_match", Reason::NoMatch),
    ("action", Reason::Action),
    ("invalid_ttl", Reason::InvalidTtl),
    ("action_set", Reason::ActionSet),
    ("group", Reason::Group),
    ("packet_out", Reason::PacketOut),
];

const HASH_FIELDS: [(&str, HashFields); 7] = [
    ("eth_src", HashFields::EthSrc),
    ("symmetric_l4", HashFields::SymmetricL4),
    ("symmetric_l3l4", HashFields::SymmetricL3L4),
    ("symmetric_l3l4+udp", HashFields::SymmetricL3L4Udp),
    ("symmetric_l3", HashFields::SymmetricL3),
    ("nw_src", HashFields::NwSrc),
    ("nw_dst", HashFields::NwDst),
];

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, of)| *of == value).map_or("", |(name, _)| name)
}
