//! The text of a policy, as TOML.
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::mistake::Wrong;

/// A whole policy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Sets of addresses by name.
    #[serde(default)]
    pub sets: BTreeMap<String, Vec<Spanned<String>>>,
    /// The addresses that a port's frames may come from, by the name of the port.
    #[serde(default)]
    pub addresses: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    /// Groups of ports by name.
    #[serde(default)]
    pub groups: BTreeMap<String, Group>,
}

/// Ports with the same rules. A port may be in several groups: the rules of all hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub ports: Vec<Spanned<String>>,
    /// Connections that the ports accept.
    #[serde(default, rename = "in")]
    pub inbound: Vec<Rule>,
    /// Connections that the ports begin.
    #[serde(default, rename = "out")]
    pub outbound: Vec<Rule>,
}

/// Connections that are allowed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `tcp`, `udp`, `sctp`, `icmp` (both versions) or a number; any protocol without it.
    pub protocol: Option<Spanned<String>>,
    /// Destination ports and ranges of them, as in `80,8000-8099`.
    pub ports: Option<Spanned<String>>,
    /// The other end: the name of a set, or an address with or without prefix length.
    pub with: Option<Spanned<String>>,
}

/// Reads a policy.
pub fn read(text: &str) -> Result<Policy, Wrong> {
    toml::from_str(text).map_err(|error| Wrong::new(error.span().unwrap_or_default(), error.message()))
}
