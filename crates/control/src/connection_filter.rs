//! Which tracked connections a request is about.
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Connections that have all given properties; without any, all connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionFilter {
    /// The zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u16>,
    /// The number of the IP protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The direction of the first frame. With all properties of a direction and nothing else, connections whose answers
    /// have them are meant too.
    #[serde(default)]
    pub original: TupleFilter,
    /// The direction of the answers.
    #[serde(default)]
    pub reply: TupleFilter,
    /// The mark, and its bits that are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<(u32, u32)>,
    /// The label, and its bits that are compared, as hexadecimal numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<(String, String)>,
}

impl ConnectionFilter {
    /// The label and its bits as numbers.
    ///
    /// # Errors
    /// A text is no hexadecimal number of 128 bits. The error is a text for the user.
    pub fn label(&self) -> Result<Option<(u128, u128)>, String> {
        let number = |text: &str| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            u128::from_str_radix(digits, 16)
                .map_err(|_| format!("{text} is no label: write a hexadecimal number"))
        };
        let Some((value, bits)) = &self.label else { return Ok(None) };
        Ok(Some((number(value)?, number(bits)?)))
    }
}

/// The properties of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TupleFilter {
    /// The sender's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The receiver's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The sender's port; for ICMP the identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The receiver's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// The type of an ICMP message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u8>,
    /// The code of an ICMP message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u8>,
}
