//! A port as the control protocol and the configuration file describe it.
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Serialize};

/// A port without its name: a table `[ports.NAME]` of the configuration file, and the `port` of a request.
///
/// Keys that this type does not name are options of the kind; the switch checks them when it makes the port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PortDescription {
    /// The kind of port: `vhost-user`, `tap` and others.
    pub kind: String,
    /// A path, the name of an interface, or whatever the kind asks for.
    pub target: String,
    /// The only source addresses that its frames may have; any if it is empty.
    #[serde(default, deserialize_with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// The length of the longest frame from the port, in bytes; `None` for the limit of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frame: Option<u32>,
    /// Frames a second from it that may go to several ports, 0 for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood_limit: Option<u32>,
    /// Rates that frames from it are held to, such as `100kpps`.
    #[serde(default, deserialize_with = "one_or_several", skip_serializing_if = "Vec::is_empty")]
    pub police: Vec<String>,
    /// Options of the kind, by name.
    #[serde(flatten)]
    pub options: BTreeMap<String, OptionValue>,
}

/// Options that every kind of port has: its VLANs.
pub const VLAN_OPTIONS: [&str; 6] = ["tag", "trunks", "vlan_mode", "cvlans", "qinq-ethtype", "priority-tags"];

/// Options that every kind of port has: its bond, how the ports of the bond share frames, and after how many milliseconds
/// load is moved between them.
pub const BOND_OPTIONS: [&str; 3] = ["bond", "bond_mode", "bond-rebalance-interval"];

/// The option of every kind of port that names the network whose ports it reaches.
pub const NETWORK_OPTION: &str = "network";

/// The option of every kind of port that gives its OpenFlow number.
pub const NUMBER_OPTION: &str = "ofport";

impl PortDescription {
    /// Whether both describe the same port, their limits, network, number, bond and VLANs aside: those can be changed while
    /// the port runs.
    pub fn is_same_port(&self, other: &Self) -> bool {
        let of_kind = |(key, _): &(&String, &OptionValue)| {
            let key = key.as_str();
            let of_all = [&[NETWORK_OPTION, NUMBER_OPTION][..], &VLAN_OPTIONS, &BOND_OPTIONS];
            !of_all.iter().any(|options| options.contains(&key))
        };
        (&self.kind, &self.target) == (&other.kind, &other.target)
            && self.options.iter().filter(of_kind).eq(other.options.iter().filter(of_kind))
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// Written `on` or `off` on the command line.
    Switch(bool),
    /// A number.
    Number(i64),
    /// Anything else.
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            OptionValue::Number(number) => number.fmt(f),
            OptionValue::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = OptionValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }

            fn visit_bool<E>(self, on: bool) -> Result<OptionValue, E> {
                Ok(OptionValue::Switch(on))
            }

            fn visit_i64<E>(self, number: i64) -> Result<OptionValue, E> {
                Ok(OptionValue::Number(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<OptionValue, E> {
                let too_large = |_| E::custom(format!("{number} is too large a number"));
                number.try_into().map(OptionValue::Number).map_err(too_large)
            }

            fn visit_str<E>(self, text: &str) -> Result<OptionValue, E> {
                Ok(OptionValue::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// A list of texts, or one text in place of a list of one.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Read;
    impl<'de> Visitor<'de> for Read {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of texts")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Vec<String>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(texts))
        }
    }
    deserializer.deserialize_any(Read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_reads_back() {
        let text = r#"{"kind":"vhost-user","target":"/tmp/a,b","allow":["02:00:00:00:00:01"],"flood-limit":0,"mac":"x","packed":false,"queue-pairs":2}"#;
        let read: PortDescription = serde_json::from_str(text).unwrap();
        assert_eq!((read.flood_limit, read.max_frame, read.allow.len()), (Some(0), None, 1));
        let options: Vec<String> = read.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(options, ["mac=x", "packed=off", "queue-pairs=2"]);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let other = PortDescription { flood_limit: None, allow: Vec::new(), ..read.clone() };
        assert!(read != other && read.is_same_port(&other));
        let with = |key: &str| {
            let mut other = read.clone();
            other.options.insert(key.to_owned(), OptionValue::Number(10));
            other
        };
        assert!(
            read.is_same_port(&with("tag"))
                && read.is_same_port(&with("network"))
                && read.is_same_port(&with("bond"))
                && !read.is_same_port(&with("mtu"))
        );
    }

    #[test]
    fn what_is_no_description_is_named() {
        for (text, said) in [
            (r#"{"kind":"tap"}"#, "target"),
            (r#"{"kind":"tap","target":"t","up":[1]}"#, "a text, a number"),
            (r#"{"kind":"tap","target":"t","up":1.5}"#, "a text, a number"),
            (r#"{"kind":"tap","target":"t","mtu":18446744073709551615}"#, "too large"),
            (r#"{"kind":"tap","target":"t","allow":7}"#, "a list of texts"),
            (r#"{"kind":"tap","target":"t","flood-limit":-1}"#, "u32"),
        ] {
            let error = serde_json::from_str::<PortDescription>(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
