//! Conversion from rows of the table Bridge to bridges of the switch.

use std::collections::BTreeMap;
use std::path::Path;

use control::{BridgeDescription, ControllerDescription, ControllerKeys, ControllerState};
use ovsdb::{Cache, Datum, Row, Uuid};

use crate::rows::{integer, rows, text};

/// The controllers of one bridge, at most.
const MOST_CONTROLLERS: usize = 16;
/// The bits of a datapath id that do not name the implementer (OpenFlow 1.5, section 7.3.1).
const ID_BITS: u64 = (1 << 48) - 1;

/// The network of a bridge: a database reaches no ports that do not name it so.
pub fn network(bridge: &str) -> String {
    format!("ovs:{bridge}")
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok().filter(|id| *id != 0)
}

/// The number of a bridge: the value of `other_config:datapath-id`, or else a part of the row's identity, which stays
/// the same.
fn datapath_id(id: Uuid, bridge: &Row) -> u64 {
    let asked = bridge.get("other_config").and_then(|config| config.get("datapath-id"));
    asked.and_then(hexadecimal).unwrap_or((id.0 as u64 & ID_BITS).max(1))
}

/// The value of `other_config:vlan-limit` of the switch. As in Open vSwitch, a value that is no number is as if it were
/// not there.
fn vlan_limit(cache: &Cache) -> Option<u8> {
    let (_, switch) = cache.rows("Open_vSwitch").next()?;
    let limit = switch.get("other_config").and_then(|config| config.get("vlan-limit"))?;
    limit.parse::<i64>().ok().map(|limit| limit.clamp(0, u8::MAX.into()) as u8)
}

/// A bridge of the database. `folder` is the folder of its sockets `BRIDGE.mgmt` and `BRIDGE.snoop`.
pub fn bridge(id: Uuid, row: &Row, cache: &Cache, folder: &Path) -> BridgeDescription {
    let name = text(row, "name");
    let is_file_name = !name.is_empty() && !name.contains('/') && !matches!(name, "." | "..");
    let controllers = controllers(row, cache).take(MOST_CONTROLLERS);
    BridgeDescription {
        network: network(name),
        datapath_id: datapath_id(id, row),
        secure: text(row, "fail_mode") == "secure",
        vlan_limit: vlan_limit(cache),
        openflow: is_file_name.then(|| folder.join(format!("{name}.mgmt"))),
        snoop: is_file_name.then(|| folder.join(format!("{name}.snoop"))),
        controllers: controllers
            .map(|(_, row)| (text(row, "target").to_owned(), controller(row, cache)))
            .collect(),
    }
}

/// The rows of a bridge's controllers.
pub fn controllers<'a>(bridge: &'a Row, cache: &'a Cache) -> impl Iterator<Item = (Uuid, &'a Row)> {
    rows(cache, bridge, "controller", "Controller")
}

/// The keys of the switch, in the table SSL.
fn keys(cache: &Cache) -> Option<ControllerKeys> {
    let (_, switch) = cache.rows("Open_vSwitch").next()?;
    let (_, row) = rows(cache, switch, "ssl", "SSL").next()?;
    let file = |column: &str| text(row, column).into();
    Some(ControllerKeys {
        private_key: file("private_key"),
        certificate: file("certificate"),
        authority: file("ca_cert"),
    })
}

/// How a bridge is to be connected with a controller. All connections are out of band.
fn controller(row: &Row, cache: &Cache) -> ControllerDescription {
    let is_encrypted = ["ssl:", "pssl:"].iter().any(|kind| text(row, "target").starts_with(kind));
    let number = |column: &str| integer(row, column).and_then(|value| u64::try_from(value).ok());
    let small = |column: &str| number(column).and_then(|value| u32::try_from(value).ok());
    ControllerDescription {
        probe_ms: number("inactivity_probe"),
        longest_pause_ms: number("max_backoff"),
        frames_per_second: small("controller_rate_limit"),
        burst: small("controller_burst_limit"),
        keys: keys(cache).filter(|_| is_encrypted),
    }
}

/// The columns of a controller.
pub fn connection(state: &ControllerState) -> [(&'static str, Datum); 3] {
    let since = if state.is_connected { "sec_since_connect" } else { "sec_since_disconnect" };
    let mut status = BTreeMap::new();
    status.insert("state", if state.is_connected { "ACTIVE" } else { "BACKOFF" }.to_owned());
    status.extend(state.seconds.map(|seconds| (since, seconds.to_string())));
    status.extend(state.error.clone().map(|why| ("last_error", why)));
    [
        ("is_connected", Datum::from(state.is_connected)),
        ("role", state.role.as_deref().map_or(Datum::empty(), Datum::from)),
        ("status", Datum::texts(status.iter().map(|(key, value)| (*key, value.as_str())))),
    ]
}

/// The column `datapath_id` of a bridge.
pub fn identity(bridge: &BridgeDescription) -> Datum {
    Datum::from(format!("{:016x}", bridge.datapath_id).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_keeps_its_number_and_listens_in_its_folder_alone() {
        let row = |name: &str, config: &[(&str, &str)]| -> Row {
            let config = Datum::texts(config.iter().copied());
            [("name".to_owned(), Datum::from(name)), ("other_config".to_owned(), config)]
                .into_iter()
                .collect()
        };
        let cache = Cache::default();
        let described =
            bridge(Uuid(5 << 64 | 0xffff_0000_0000_0007), &row("br0", &[]), &cache, Path::new("/run"));
        assert_eq!((described.datapath_id, described.openflow), (7, Some("/run/br0.mgmt".into())));
        let asked = row("br0", &[("datapath-id", "0000a1b2c3d4e5f6")]);
        let described = bridge(Uuid(5), &asked, &cache, Path::new("/run"));
        assert_eq!(identity(&described), Datum::from("0000a1b2c3d4e5f6"));
        assert_eq!(described.vlan_limit, None);
        for name in ["../br0", ".", "..", ""] {
            assert_eq!(bridge(Uuid(5), &row(name, &[]), &cache, Path::new("/run")).openflow, None, "{name}");
        }
    }
}
