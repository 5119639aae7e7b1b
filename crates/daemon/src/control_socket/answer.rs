//! Answers to requests.
use control::protocol::{Add, Applied, Outcome, Request, SCHEMA};
use control::{Direction, PortDescription};
use frame::Side;
use serde_json::{Value, json};
use switch::{Snapshot, StationReport, View};
use virtio::net::MacAddress;

use super::known_ports::KnownPorts;
use crate::{ports, selection};

/// The highest VLAN (IEEE 802.1Q §9.6).
const MOST_VLAN: u16 = 4095;

/// The most stations in an answer.
const MOST_STATIONS: usize = 32 << 10;

/// The number of connections in an answer, about.
const CONNECTIONS_AT_ONCE: usize = 1000;

/// Carries out a request that needs no record in the control socket, and returns its answer.
pub fn answer(request: Request, ports: &mut KnownPorts, switch: &mut View<'_>) -> Outcome {
    match request {
        Request::Ports => Outcome::Ok(with_schema(json!({"ports": switch.snapshot().ports}))),
        Request::Stats => Outcome::Ok(with_schema(json!(switch.snapshot()))),
        Request::Drops => Outcome::Ok(with_schema(json!({"drops": drops(&switch.snapshot())}))),
        Request::Rings => Outcome::Ok(with_schema(json!({"rings": switch.rings()}))),
        Request::Stations => stations(switch),
        Request::ForgetStations { network } => {
            switch.forget_stations(network.as_deref());
            done(Ok(()))
        }
        Request::HoldStation { port, vlan, address } => match station(vlan, &address) {
            Ok(address) => done(switch.hold_station(&port, vlan, address)),
            Err(why) => Outcome::Error(why),
        },
        Request::ReleaseStation { network, vlan, address } => match station(vlan, &address) {
            Ok(address) => {
                switch.release_station(&network, vlan, address);
                done(Ok(()))
            }
            Err(why) => Outcome::Error(why),
        },
        Request::Add(add) => match described(add).and_then(|(name, port)| ports.add(&name, port, switch)) {
            Ok(()) => done(Ok(())),
            Err(why) => Outcome::Error(why),
        },
        Request::Apply { ports: wanted, wires } => match ports.apply(wanted, wires, switch) {
            Ok(changes) => Outcome::Ok(with_schema(json!(Applied { changes }))),
            Err(why) => Outcome::Error(why),
        },
        Request::Change { owner, ports: changes } => {
            let changes = ports.change(owner, changes, switch);
            Outcome::Ok(with_schema(json!(Applied { changes })))
        }
        Request::FlushConnections(filter) => {
            let flush = |which| switch.flush_connections(&[which]);
            selection::of_filter(&filter).map(flush).map_or_else(Outcome::Error, |()| done(Ok(())))
        }
        Request::Connections { zone, from } => {
            Outcome::Ok(with_schema(json!(switch.connections(zone, from, CONNECTIONS_AT_ONCE))))
        }
        Request::ConnectionLimits { default, zones, shown } => {
            if default.is_some() || !zones.is_empty() {
                switch.limit_zones(default.map(|limit| Some(limit).filter(|limit| *limit > 0)), &zones);
            }
            Outcome::Ok(with_schema(json!(switch.zone_limits(&shown))))
        }
        Request::Tunnels { to } => Outcome::Ok(with_schema(json!(tunnel_ports::report(to)))),
        Request::Mirror { from, to, only } => {
            let side = |direction| match direction {
                Direction::FromGuest => Side::FromGuest,
                Direction::ToGuest => Side::ToGuest,
            };
            done(switch.mirror(&from, &to, only.map(side)))
        }
        Request::Remove { .. }
        | Request::Capture { .. }
        | Request::EndCapture
        | Request::Subscribe
        | Request::Bridges { .. }
        | Request::Controllers
        | Request::FlowsDump { .. }
        | Request::FlowsChange { .. }
        | Request::FlowsTrace { .. }
        | Request::TakeOver { .. } => Outcome::Error("not here".to_owned()),
    }
}

/// The address of a station that may be in this VLAN.
fn station(vlan: u16, address: &str) -> Result<MacAddress, String> {
    let address: MacAddress = address.parse().map_err(|error| format!("{error}"))?;
    if vlan > MOST_VLAN || address.is_group() || address.to_u64() == 0 {
        return Err(format!("write a VLAN from 0 (no tag) to {MOST_VLAN}, and an address of one station"));
    }
    Ok(address)
}

/// The answer to a request that changes the switch and returns nothing.
pub fn done(result: Result<(), switch::ChangeError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Ok(with_schema(json!({}))),
        Err(error) => Outcome::Error(error.to_string()),
    }
}

/// The answer to a request about flows.
pub fn of_flows(answered: Result<Value, String>) -> Outcome {
    answered.map_or_else(Outcome::Error, |answer| Outcome::Ok(with_schema(answer)))
}

fn described(add: Add) -> Result<(String, PortDescription), String> {
    match add {
        Add::Described { name, port } => Ok((name, port)),
        Add::Text { port: text, allow, max_frame, flood_limit, police } => {
            let (name, port) = ports::described(&text).map_err(|why| format!("port {text}: {why}"))?;
            Ok((name, PortDescription { allow, max_frame, flood_limit, police, ..port }))
        }
    }
}

/// Adds the field `schema` to an answer, which is a document of its own.
pub fn with_schema(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("schema".to_owned(), SCHEMA.into());
    }
    answer
}

/// The stations, unless there are too many for an answer: ports wait while it is made.
fn stations(switch: &View<'_>) -> Outcome {
    let stations: Vec<StationReport> = switch.stations().take(MOST_STATIONS + 1).collect();
    if stations.len() > MOST_STATIONS {
        return Outcome::Error(format!(
            "more than {MOST_STATIONS} stations are known, the most in one answer; 'stats' counts them"
        ));
    }
    Outcome::Ok(with_schema(json!({"stations": stations})))
}

/// The drops, largest counts first.
fn drops(snapshot: &Snapshot) -> Vec<Value> {
    let queues = snapshot.ports.iter().flat_map(|port| port.queues.iter().map(move |queue| (port, queue)));
    let mut drops: Vec<(u64, Value)> = queues
        .flat_map(|(port, queue)| {
            queue.drops.iter().map(move |(reason, frames)| {
                let drop = json!({
                    "port": port.name, "pair": queue.pair, "from_guest": queue.from_guest,
                    "reason": reason, "frames": frames, "detail": queue.detail(reason),
                });
                (*frames, drop)
            })
        })
        .collect();
    drops.sort_by_key(|(frames, _)| std::cmp::Reverse(*frames));
    drops.into_iter().map(|(_, drop)| drop).collect()
}
