//! The commands that describe a datapath of Open vSwitch: `dpctl/show`, `dpif/show`, `dpif/show-dp-features`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::bridge::{Served, ServedPort};
use super::room::Room;
use crate::Observed;
use crate::columns::CAPABILITIES;

/// The datapath's name, as for a userspace datapath of Open vSwitch.
pub const NAME: &str = "netdev@ovs-netdev";
/// The OpenFlow number of the bridge's own port (`OFPP_LOCAL`).
const LOCAL: u16 = 0xfffe;

/// Whether a word names the datapath.
pub fn is_datapath(word: &str) -> bool {
    [NAME, "ovs-netdev"].contains(&word)
}

/// The error for a word that names another datapath.
pub fn other(word: &str) -> String {
    let shown: String = word.chars().take(64).filter(|letter| !letter.is_control()).collect();
    format!("{shown}: the switch has one datapath, {NAME}\n")
}

/// Numbers in the datapath of what are bridges, in their order; numbers of ports are lower.
fn local_numbers() -> impl Iterator<Item = u16> {
    (0..=LOCAL).rev()
}

/// The number of frames to a known address, and of flooded frames.
fn lookups(counters: &Value) -> (u64, u64) {
    let sum = |name: &str| -> u64 {
        let workers = counters["workers"].as_array().into_iter().flatten();
        workers.filter_map(|worker| worker[name].as_u64()).sum()
    };
    let missed = sum("flooded");
    (sum("frames").saturating_sub(missed), missed)
}

/// The numbers of ports in the datapath, by name: a port's number in OpenFlow, unless a port of another bridge has it.
fn numbers(bridges: &[Served]) -> BTreeMap<String, u16> {
    let (mut numbers, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for port in bridges.iter().flat_map(|bridge| &bridge.ports) {
        let free = || (1..=u16::MAX).find(|number| !taken.contains(number));
        let number = Some(port.number).filter(|number| !taken.contains(number)).or_else(free);
        let number = number.unwrap_or(port.number);
        taken.insert(number);
        numbers.insert(port.name.clone(), number);
    }
    numbers
}

/// `dpctl/show`: the ports, and with `-s` their counters.
pub fn show(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let counters = room.counters()?;
    let with_counters = arguments.contains(&"-s") || arguments.contains(&"--statistics");
    if let Some(word) = arguments.iter().find(|word| !word.starts_with('-') && !is_datapath(word)) {
        return Err(other(word));
    }
    let (hit, missed) = lookups(&counters);
    let mut said = format!("{NAME}:\n  lookups: hit:{hit} missed:{missed} lost:0\n  flows: 0\n");
    let (observed, bridges) = (Observed::all(&counters), room.bridges());
    let numbers = numbers(&bridges);
    for (own, Served { name, ports, .. }) in local_numbers().zip(bridges) {
        let _ = writeln!(said, "  port {own}: {name} (internal)");
        for port in ports {
            let _ = writeln!(said, "  port {}: {} ({})", numbers[&port.name], port.name, port.kind);
            if !with_counters {
                continue;
            }
            let statistics = observed.get(&port.name).map(|port| &port.statistics);
            let of = |name: &str| statistics.and_then(|all| all.get(name)).copied().unwrap_or(0);
            let [received, sent] = ["rx", "tx"]
                .map(|way| ["packets", "dropped", "bytes"].map(|what| of(&format!("{way}_{what}"))));
            let _ = write!(
                said,
                "    RX packets:{} errors:? dropped:{} overruns:? frame:?\n    \
                 TX packets:{} errors:? dropped:{} aborted:? carrier:?\n    collisions:?\n    \
                 RX bytes:{}{}  TX bytes:{}{}\n",
                received[0],
                received[1],
                sent[0],
                sent[1],
                received[2],
                in_units(received[2]),
                sent[2],
                in_units(sent[2])
            );
        }
    }
    Ok(said)
}

/// The count again in larger units, from a kibibyte on.
fn in_units(bytes: u64) -> String {
    let unit =
        [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)].into_iter().find(|(_, bits)| bytes >> bits > 0);
    unit.map_or_else(String::new, |(unit, bits)| {
        format!(" ({:.1} {unit})", bytes as f64 / (1_u64 << bits) as f64)
    })
}

/// `dpif/show`: bridges and their ports, with datapath and OpenFlow numbers.
pub fn bridges(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let (hit, missed) = lookups(&room.counters()?);
    let mut said = format!("{NAME}: hit:{hit} missed:{missed}\n");
    let bridges = room.bridges();
    let numbers = numbers(&bridges);
    for (own, Served { name, ports, .. }) in local_numbers().zip(bridges) {
        let _ = writeln!(said, "  {name}:\n    {name} {LOCAL}/{own}: (internal)");
        for port in ports {
            let ServedPort { number, name, kind } = port;
            let _ = writeln!(said, "    {name} {number}/{}: ({kind})", numbers[&name]);
        }
    }
    Ok(said)
}

/// The names of `dpif/show-dp-features`, and the keys of Datapath.capabilities for them. Other features of Open vSwitch
/// are left out: the switch has no such part.
const FEATURES: [(&str, &str); 16] = [
    ("Masked set action", "masked_set_action"),
    ("Tunnel push pop", "tnl_push_pop"),
    ("Truncate action", "trunc"),
    ("Clone action", "clone"),
    ("Conntrack clear", "ct_clear"),
    ("Check pkt length action", "check_pkt_len"),
    ("Max VLAN headers", "max_vlan_headers"),
    ("Recirc", "recirc"),
    ("CT state", "ct_state"),
    ("CT zone", "ct_zone"),
    ("CT mark", "ct_mark"),
    ("CT label", "ct_label"),
    ("CT state NAT", "ct_state_nat"),
    ("CT orig tuple", "ct_orig_tuple"),
    ("CT orig tuple for IPv6", "ct_orig_tuple6"),
    ("IPv6 ND Extension", "nd_ext"),
];

/// `dpif/show-dp-features BRIDGE`: what flows can do, by the names of Open vSwitch.
pub fn features(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    if !room.bridges().iter().any(|bridge| arguments.first() == Some(&bridge.name.as_str())) {
        return Err("no such bridge\n".to_owned());
    }
    Ok(described())
}

fn described() -> String {
    let mut said = String::new();
    for (name, key) in FEATURES {
        let value = CAPABILITIES.iter().find(|(capability, _)| *capability == key).map(|(_, value)| *value);
        let value = match value {
            Some("true") => "Yes",
            Some(value) => value,
            None => "No",
        };
        let _ = writeln!(said, "{name}: {value}");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_the_capabilities_of_the_database() {
        let said = described();
        assert!(
            said.starts_with("Masked set action: Yes\n") && said.contains("\nMax VLAN headers: 2\n"),
            "{said}"
        );
        assert!(!said.contains(": No\n"), "{said}");
    }

    #[test]
    fn bytes_have_a_unit_from_a_kibibyte_on() {
        assert_eq!([0, 1023, 1024, 3 << 20].map(in_units), ["", "", " (1.0 KiB)", " (3.0 MiB)"]);
    }
}
