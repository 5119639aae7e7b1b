//! Bonds: `bond/list`, `bond/show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::Request;
use serde_json::Value;

use super::room::Room;

/// A port of a bond.
struct Member {
    name: String,
    mac: String,
    mode: String,
    is_enabled: bool,
    is_active: bool,
    /// The load in bytes, by bucket of stations.
    load: BTreeMap<u8, u64>,
}

/// The bonds of bridges by name, each with its ports in their order.
fn bonds(room: &Room) -> Result<BTreeMap<String, Vec<Member>>, String> {
    let answer = room.ask(Request::Ports)?;
    let mut bonds = BTreeMap::<String, Vec<Member>>::new();
    let is_own =
        |name: &str| room.bridges().iter().any(|bridge| bridge.ports.iter().any(|port| port.name == name));
    for port in answer["ports"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, bond) = (text(&port["name"]), &port["bond"]);
        if let Some(of) = bond["name"].as_str().filter(|_| is_own(&name)) {
            let member = Member {
                name,
                mac: text(&port["interface"]["mac"]),
                mode: text(&bond["mode"]),
                is_enabled: bond["is_enabled"] == true,
                is_active: bond["is_active"] == true,
                load: serde_json::from_value(bond["load"].clone()).unwrap_or_default(),
            };
            bonds.entry(of.to_owned()).or_default().push(member);
        }
    }
    Ok(bonds)
}

/// `bond/list`: a line for each bond.
pub fn list(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let mut said = "bond\ttype\trecircID\tmembers\n".to_owned();
    for (name, members) in bonds(room)? {
        let mode = members.first().map_or("", |member| member.mode.as_str());
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let _ = writeln!(said, "{name}\t{mode}\t0\t{}", names.join(", "));
    }
    Ok(said)
}

/// `bond/show`: one bond, or all.
pub fn show(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bonds = bonds(room)?;
    match arguments.first() {
        None => Ok(bonds.iter().map(|(name, members)| shown(name, members)).collect::<Vec<_>>().join("\n")),
        Some(name) => {
            bonds.get(*name).map(|members| shown(name, members)).ok_or_else(|| "no such bond\n".to_owned())
        }
    }
}

fn shown(name: &str, members: &[Member]) -> String {
    const NO_ADDRESS: &str = "00:00:00:00:00:00";
    let mode = members.first().map_or("", |member| member.mode.as_str());
    let mut said = format!(
        "---- {name} ----\nbond_mode: {mode}\nbond may use recirculation: no, Recirc-ID : -1\nbond-hash-basis: 0\n\
         lb_output action: disabled, bond-id: -1\nupdelay: 0 ms\ndowndelay: 0 ms\nlacp_status: off\n\
         lacp_fallback_ab: false\n"
    );
    if mode == "active-backup" {
        said += "active-backup primary: <none>\n";
    }
    match members.iter().find(|member| member.is_active) {
        Some(Member { name, mac, .. }) => {
            let mac = if mac.is_empty() { NO_ADDRESS } else { mac };
            let _ = writeln!(said, "active member mac: {mac}({name})");
        }
        None => {
            let _ = writeln!(said, "active member mac: {NO_ADDRESS}(none)");
        }
    }
    for Member { name, is_enabled, is_active, load, .. } in members {
        let state = if *is_enabled { "enabled" } else { "disabled" };
        let active = if *is_active { "  active member\n" } else { "" };
        let _ = write!(said, "\nmember {name}: {state}\n{active}  may_enable: {is_enabled}\n");
        for (bucket, bytes) in load {
            let _ = writeln!(said, "  hash {bucket}: {} kB load", bytes / 1024);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_has_the_lines_of_open_vswitch() {
        let member = |name: &str, is_active| Member {
            name: name.to_owned(),
            mac: String::new(),
            mode: "active-backup".to_owned(),
            is_enabled: is_active,
            is_active,
            load: if is_active { [(7, 4096)].into() } else { BTreeMap::new() },
        };
        let said = shown("bond0", &[member("p1", true), member("p2", false)]);
        assert!(said.starts_with("---- bond0 ----\nbond_mode: active-backup\n"), "{said}");
        let end = "active member mac: 00:00:00:00:00:00(p1)\n\nmember p1: enabled\n  active member\n  may_enable: true\n  hash 7: 4 kB load\n\n\
                   member p2: disabled\n  may_enable: false\n";
        assert!(said.ends_with(end), "{said}");
    }
}
