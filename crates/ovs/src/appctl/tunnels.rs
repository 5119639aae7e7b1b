//! The commands about tunnels: `tnl/neigh/show`, `tnl/ports/show`, `ovs/route/show`, `ovs/route/lookup`, `bfd/show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use control::Request;
use serde_json::Value;

use super::room::Room;
use crate::Observed;

/// The width of the column of IP addresses: the longest text of one, and a zero (`INET6_ADDRSTRLEN`).
const ADDRESS_WIDTH: usize = 46;

fn tunnels(room: &Room, to: Option<IpAddr>) -> Result<Value, String> {
    room.ask(Request::Tunnels { to }).map_err(|why| why + "\n")
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

fn list<'a>(of: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    of[field].as_array().into_iter().flatten()
}

/// `tnl/neigh/show`: the neighbours whose Ethernet addresses are known.
pub fn neighbours(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let mut said = format!("{:<ADDRESS_WIDTH$}MAC                 Bridge\n{}\n", "IP", "=".repeat(74));
    for link in list(&tunnels(room, None)?, "underlays") {
        for neighbour in list(link, "neighbours") {
            let (address, mac) = (text(neighbour, "address"), text(neighbour, "mac"));
            let _ = writeln!(said, "{address:<ADDRESS_WIDTH$}{mac}   {}", text(link, "name"));
        }
    }
    Ok(said)
}

/// The name that Open vSwitch has for what receives frames of tunnels of this kind.
fn device(kind: &str, port: u64) -> String {
    match kind {
        "geneve" => format!("genev_sys_{port}"),
        "vxlan" => format!("vxlan_sys_{port}"),
        other => format!("{other}_sys"),
    }
}

/// `tnl/ports/show`: what receives frames of tunnels, and how many tunnels use it.
pub fn ports(room: &mut Room, _: &[&str]) -> Result<String, String> {
    let mut used = BTreeMap::<(String, u64), usize>::new();
    for tunnel in list(&tunnels(room, None)?, "tunnels") {
        let port = tunnel["port"].as_u64().unwrap_or(0);
        *used.entry((device(text(tunnel, "kind"), port), port)).or_default() += 1;
    }
    let mut said = "Listening ports:\n".to_owned();
    for ((device, port), count) in used {
        let _ = writeln!(said, "{device} ({port}) ref_cnt={count}");
    }
    Ok(said)
}

/// `ovs/route/show`: the routes of interfaces at whose addresses tunnels end.
pub fn routes(room: &mut Room, _: &[&str]) -> Result<String, String> {
    Ok(routed(&tunnels(room, None)?))
}

fn routed(tunnels: &Value) -> String {
    let mut said = "Route Table:\n".to_owned();
    for link in list(tunnels, "underlays") {
        for address in list(link, "addresses").filter_map(Value::as_str) {
            let bits = if address.contains(':') { 128 } else { 32 };
            let name = text(link, "name");
            let _ = writeln!(said, "Cached: {address}/{bits} dev {name} SRC {address} local");
        }
    }
    for route in list(tunnels, "routes") {
        let (network, bits) = (text(route, "network"), route["bits"].as_u64().unwrap_or(0));
        let _ = write!(said, "Cached: {network}/{bits} dev {}", text(route, "underlay"));
        if let Some(gateway) = route["gateway"].as_str() {
            let _ = write!(said, " GW {gateway}");
        }
        let _ = writeln!(said, " SRC {}", text(route, "source"));
    }
    said
}

/// `ovs/route/lookup ADDRESS`: the next hop to an address.
pub fn lookup(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let address = arguments.first().and_then(|word| word.parse::<IpAddr>().ok());
    let address = address.ok_or_else(|| "Invalid destination IP address\n".to_owned())?;
    hop(&tunnels(room, Some(address))?["hop"], address)
}

fn hop(hop: &Value, to: IpAddr) -> Result<String, String> {
    let neighbour = hop["neighbour"].as_str().ok_or_else(|| "Not found\n".to_owned())?;
    // The address itself stands for none.
    let gateway = if neighbour == to.to_string() { "::" } else { neighbour };
    Ok(format!("src {}\ngateway {gateway}\ndev {}\n", text(hop, "source"), text(hop, "underlay")))
}

/// `bfd/show [INTERFACE]`: the sessions that check the paths to the other ends of tunnels.
pub fn sessions(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let all = Observed::all(&room.counters()?);
    let sessions = all.iter().filter(|(_, port)| !port.bfd.is_empty());
    match arguments.first() {
        None => {
            Ok(sessions.map(|(name, port)| format!("---- {name} ----\n{}", session(&port.bfd))).collect())
        }
        Some(wanted) => {
            let mut named = sessions.filter(|(name, _)| name == wanted);
            named.next().map(|(_, port)| session(&port.bfd)).ok_or_else(|| "no such bfd object\n".to_owned())
        }
    }
}

/// The lines of Open vSwitch that the column `bfd_status` has values for.
fn session(status: &BTreeMap<String, String>) -> String {
    let lines = [
        ("Forwarding", "forwarding"),
        ("Local Session State", "state"),
        ("Local Diagnostic", "diagnostic"),
        ("Remote Session State", "remote_state"),
        ("Remote Diagnostic", "remote_diagnostic"),
    ];
    let mut said = String::new();
    for (name, value) in lines.iter().filter_map(|(name, key)| Some((name, status.get(*key)?))) {
        let _ = writeln!(said, "  {name}: {value}");
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_has_the_lines_of_open_vswitch() {
        let status = [("state", "up"), ("forwarding", "true"), ("flap_count", "1")];
        let status = status.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(session(&status), "  Forwarding: true\n  Local Session State: up\n");
    }

    #[test]
    fn routes_have_the_lines_of_open_vswitch() {
        let tunnels = json!({"underlays": [{"name": "br0", "addresses": ["192.0.2.1", "fd00::1"]}],
            "routes": [{"network": "192.0.2.0", "bits": 24, "gateway": null, "source": "192.0.2.1", "underlay": "br0"},
                       {"network": "0.0.0.0", "bits": 0, "gateway": "192.0.2.9", "source": "192.0.2.1",
                        "underlay": "br0"}]});
        let expected = "Route Table:\nCached: 192.0.2.1/32 dev br0 SRC 192.0.2.1 local\n\
                        Cached: fd00::1/128 dev br0 SRC fd00::1 local\nCached: 192.0.2.0/24 dev br0 SRC 192.0.2.1\n\
                        Cached: 0.0.0.0/0 dev br0 GW 192.0.2.9 SRC 192.0.2.1\n";
        assert_eq!(routed(&tunnels), expected);
        let to: IpAddr = [198, 51, 100, 1].into();
        let by = json!({"neighbour": "192.0.2.9", "source": "192.0.2.1", "underlay": "br0"});
        assert_eq!(hop(&by, to).unwrap(), "src 192.0.2.1\ngateway 192.0.2.9\ndev br0\n");
        assert_eq!(hop(&Value::Null, to), Err("Not found\n".to_owned()));
        assert_eq!([device("geneve", 6081), device("gre", 0)], ["genev_sys_6081", "gre_sys"]);
    }
}
