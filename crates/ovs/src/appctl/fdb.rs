//! The table of addresses: `fdb/show`, `fdb/add`, `fdb/del`, `fdb/flush`, `fdb/stats-show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::Request;
use serde_json::Value;

use super::bridge::{Served, ServedPort};
use super::room::Room;
use crate::bridges::network;

/// The bridge that a command names.
fn named(room: &Room, arguments: &[&str]) -> Result<Served, String> {
    let found = room.bridges().into_iter().find(|bridge| arguments.first() == Some(&bridge.name.as_str()));
    found.ok_or_else(|| "no such bridge\n".to_owned())
}

/// `fdb/show`: the stations, beginning with the station that was not seen for the longest time. A station behind a port
/// that is not in the database (`--port`, `tautline ctl`) has no port number.
pub fn show(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bridge = named(room, arguments)?;
    let answer = room.ask(Request::Stations)?;
    let numbers: BTreeMap<&str, u16> =
        bridge.ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    let all = answer["stations"].as_array().into_iter().flatten();
    let own = network(&bridge.name);
    let mut stations: Vec<&Value> = all.filter(|station| station["network"] == own.as_str()).collect();
    stations.sort_by_key(|station| std::cmp::Reverse(station["age_seconds"].as_u64()));
    let mut said = " port  VLAN  MAC                Age\n".to_owned();
    for station in stations {
        let text = |field: &str| station[field].as_str().unwrap_or_default();
        let number = |field: &str| station[field].as_u64().unwrap_or(0);
        let own = || if text("port") == bridge.name { "LOCAL" } else { "-" };
        let port = numbers.get(text("port")).map_or_else(|| own().to_owned(), u16::to_string);
        let (vlan, address) = (number("vlan"), text("address"));
        let age = match station["is_static"] == true {
            true => "static".to_owned(),
            false => format!("{:>3}", number("age_seconds")),
        };
        let _ = writeln!(said, "{port:>5}  {vlan:>4}  {address}  {age}");
    }
    Ok(said)
}

/// The number of a VLAN.
fn vlan(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{:.16}: write the VLAN as a number from 0 to 4095\n", text))
}

/// `fdb/add`: a station that stays behind a port, which is named or has this number.
pub fn add(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bridge = named(room, arguments)?;
    let [_, port, of_vlan, address] = arguments else {
        return Err("write bridge port vlan mac\n".to_owned());
    };
    let is_meant = |own: &&ServedPort| own.name == *port || own.number.to_string() == *port;
    let local = bridge.has_local && [bridge.name.as_str(), "LOCAL"].contains(port);
    let found = bridge.ports.iter().find(is_meant).map(|port| port.name.clone());
    let port = found.or_else(|| local.then_some(bridge.name)).ok_or_else(|| "no such port\n".to_owned())?;
    room.ask(Request::HoldStation { port, vlan: vlan(of_vlan)?, address: (*address).to_owned() })?;
    Ok(String::new())
}

/// `fdb/del`: forgets a station, one of `fdb/add` too.
pub fn delete(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let network = network(&named(room, arguments)?.name);
    let [_, of_vlan, address] = arguments else { return Err("write bridge vlan mac\n".to_owned()) };
    let vlan = vlan(of_vlan)?;
    room.ask(Request::ReleaseStation { network, vlan, address: (*address).to_owned() })?;
    Ok(String::new())
}

/// `fdb/flush`: forgets the stations of one bridge, or of all bridges.
pub fn flush(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bridges: Vec<String> = match arguments {
        [] => room.bridges().into_iter().map(|bridge| bridge.name).collect(),
        _ => vec![named(room, arguments)?.name],
    };
    for bridge in bridges {
        room.ask(Request::ForgetStations { network: Some(network(&bridge)) })?;
    }
    Ok("table successfully flushed\n".to_owned())
}

/// `fdb/stats-show`: statistics of the table of addresses.
pub fn statistics(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bridge = named(room, arguments)?.name;
    let counters = room.counters()?;
    let networks = counters["networks"].as_array().map(Vec::as_slice).unwrap_or_default();
    // A bridge without ports has no network yet.
    let own = network(&bridge);
    let found = networks.iter().find(|network| network["name"] == own.as_str());
    let table = found.map_or(&Value::Null, |network| &network["table"]);
    let of = |name: &str| table[name].as_u64().unwrap_or(0);
    let answer = room.ask(Request::Stations)?;
    let stations = answer["stations"].as_array().into_iter().flatten();
    let is_held = |station: &&Value| station["network"] == own.as_str() && station["is_static"] == true;
    let held = stations.filter(is_held).count();
    Ok(format!(
        "Statistics for bridge \"{bridge}\":\n  \
         Current/maximum MAC entries in the table: {}/{}\n  \
         Current static MAC entries in the table : {held}\n  \
         Total number of learned MAC entries     : {}\n  \
         Total number of expired MAC entries     : {}\n  \
         Total number of evicted MAC entries     : {}\n  \
         Total number of port moved MAC entries  : {}\n",
        of("addresses"),
        room.addresses,
        of("learned"),
        of("expired"),
        of("evicted"),
        of("moved")
    ))
}
