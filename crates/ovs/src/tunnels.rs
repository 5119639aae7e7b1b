//! Interfaces of the types `geneve`, `vxlan` and `gre`.

use control::{OptionValue, PortDescription};
use ovsdb::Row;

use crate::rows::{option, text};

/// Options of an interface, and those of the switch's port with the same values.
const SAME: [(&str, &str); 3] = [("local_ip", "local"), ("key", "key"), ("dst_port", "dst-port")];
/// Options whose value `inherit` is not supported and has no effect.
const NUMBERS: [&str; 2] = ["tos", "ttl"];
/// Numbers of the column `bfd`, the port's options with these values, and the range of the values.
const BFD: [(&str, &str, [i64; 2]); 3] = [
    ("min_rx", "bfd-min-rx", [100, 3_600_000]),
    ("min_tx", "bfd-min-tx", [100, 3_600_000]),
    ("mult", "bfd-mult", [1, 255]),
];

/// The port of a tunnel.
///
/// # Errors
/// An option is missing or not supported, in words for the column `error`.
pub(crate) fn tunnel(interface: &Row) -> Result<PortDescription, String> {
    let name = text(interface, "name");
    let Some(remote) = option(interface, "remote_ip") else {
        return Err(format!(
            "give the address of the other end, or flow: ovs-vsctl set interface {name} options:remote_ip=ADDRESS"
        ));
    };
    if option(interface, "in_key").is_some() || option(interface, "out_key").is_some() {
        return Err(format!("the switch has one key for both directions: write options:key of {name}"));
    }
    let (kind, target) = (text(interface, "type").to_owned(), remote.to_owned());
    let mut port = PortDescription { kind, target, ..PortDescription::default() };
    let mut add = |key: &str, value: OptionValue| _ = port.options.insert(key.to_owned(), value);
    for (theirs, ours) in SAME {
        if let Some(value) = option(interface, theirs).filter(|value| !value.is_empty()) {
            add(ours, OptionValue::Text(value.to_owned()));
        }
    }
    for key in NUMBERS {
        if let Some(value) = option(interface, key).filter(|value| *value != "inherit") {
            add(key, OptionValue::Text(value.to_owned()));
        }
    }
    let bfd = |key| interface.get("bfd").and_then(|bfd| bfd.get(key));
    if bfd("enable") == Some("true") && remote != "flow" {
        add("bfd", OptionValue::Switch(true));
        for (theirs, ours, [least, most]) in BFD {
            // As in Open vSwitch, what is no number has no effect, and others are moved into the range.
            if let Some(value) = bfd(theirs).and_then(|value| value.parse::<i64>().ok()) {
                add(ours, OptionValue::Text(value.clamp(least, most).to_string()));
            }
        }
    }
    if option(interface, "csum") == Some("true") {
        add("csum", OptionValue::Switch(true));
    }
    Ok(port)
}
