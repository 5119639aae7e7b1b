//! The table of addresses: `fdb/show`, `fdb/flush`, `fdb/stats-show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::Request;
use serde_json::Value;

use super::bridge::Served;
use super::room::Room;

/// The bridge, if it is the one that a command names.
fn named(served: &Served, arguments: &[&str]) -> Result<String, String> {
    let bridge = served.bridge.clone().filter(|bridge| arguments == [bridge.as_str()]);
    bridge.ok_or_else(|| "no such bridge\n".to_owned())
}

/// `fdb/show`: the stations, those first that were not seen for longest. A station behind a port that the database does
/// not have (`--port`, `tautline ctl`) has no number.
pub fn show(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let served = room.bridge();
    named(&served, arguments)?;
    let answer = room.ask(Request::Stations)?;
    let numbers: BTreeMap<&str, u16> =
        served.ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    let mut stations: Vec<&Value> = answer["stations"].as_array().into_iter().flatten().collect();
    stations.sort_by_key(|station| std::cmp::Reverse(station["age_seconds"].as_u64()));
    let mut said = " port  VLAN  MAC                Age\n".to_owned();
    for station in stations {
        let text = |field: &str| station[field].as_str().unwrap_or_default();
        let number = |field: &str| station[field].as_u64().unwrap_or(0);
        let port = numbers.get(text("port")).map_or_else(|| "-".to_owned(), u16::to_string);
        let (vlan, address, age) = (number("vlan"), text("address"), number("age_seconds"));
        let _ = writeln!(said, "{port:>5}  {vlan:>4}  {address}  {age:>3}");
    }
    Ok(said)
}

/// `fdb/flush`: forgets all stations.
pub fn flush(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    if !arguments.is_empty() {
        named(&room.bridge(), arguments)?;
    }
    room.ask(Request::ForgetStations)?;
    Ok("table successfully flushed\n".to_owned())
}

/// `fdb/stats-show`: the table of addresses.
pub fn statistics(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let bridge = named(&room.bridge(), arguments)?;
    let table = &room.counters()?["table"];
    let of = |name: &str| table[name].as_u64().unwrap_or(0);
    Ok(format!(
        "Statistics for bridge \"{bridge}\":\n  \
         Current/maximum MAC entries in the table: {}/{}\n  \
         Current static MAC entries in the table : 0\n  \
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
