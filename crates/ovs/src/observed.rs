//! What the switch reports about its ports, in terms of ovs-vswitchd's columns.

use std::collections::BTreeMap;

use control::{OptionValue, PortDescription};
use ovsdb::{Atom, Datum};
use serde_json::Value;

use crate::wanted::{HEADER_BYTES, TAP, UNDERLAY, VHOST_USER};

/// A port of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Whether the port's peer is connected.
    pub is_up: bool,
    /// How often the connection state has changed.
    pub link_changes: i64,
    /// The features agreed with the port's peer, as a number.
    pub features: Option<String>,
    /// The bond whose active port it is.
    pub active_of: Option<String>,
    /// The host's interface, if the port is one.
    pub interface: Option<HostInterface>,
    /// The host's interface by which the frames of a tunnel leave.
    pub egress: Option<String>,
    /// The state of the session that checks the path to the other end of a tunnel: the column `bfd_status`.
    pub bfd: BTreeMap<String, String>,
    /// The port's counters since it was added, by the names of ovs-vswitchd.conf.db(5).
    pub statistics: BTreeMap<&'static str, u64>,
}

/// An interface of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInterface {
    /// The interface's index.
    pub index: i64,
    /// The length of the longest IP packet, in bytes.
    pub mtu: i64,
    /// The interface's Ethernet address.
    pub mac: String,
    /// Whether the administrator has set the interface up.
    pub is_up: bool,
}

impl HostInterface {
    fn of(interface: &Value) -> Option<Self> {
        let number = |field: &str| interface[field].as_i64();
        let (index, mtu) = (number("index")?, number("mtu")?);
        let (mac, is_up) = (interface["mac"].as_str()?.to_owned(), interface["is_up"].as_bool()?);
        Some(HostInterface { index, mtu, mac, is_up })
    }
}

impl Observed {
    /// The ports by name, from the switch's answer to [`control::Request::Ports`].
    pub fn all(answer: &Value) -> BTreeMap<String, Self> {
        let ports = answer["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| Some((port["name"].as_str()?.to_owned(), Observed::of(port)))).collect()
    }

    fn of(port: &Value) -> Self {
        let mut observed = Observed {
            is_up: port["link"]["is_up"] == true,
            link_changes: port["link"]["changes"].as_i64().unwrap_or(0),
            features: port["feature_bits"].as_str().map(str::to_owned),
            active_of: Some(&port["bond"])
                .filter(|bond| bond["is_active"] == true)
                .and_then(|bond| bond["name"].as_str().map(str::to_owned)),
            interface: HostInterface::of(&port["interface"]),
            egress: port["egress"].as_str().map(str::to_owned),
            bfd: texts(&port["bfd"]),
            ..Observed::default()
        };
        for queue in port["queues"].as_array().into_iter().flatten() {
            // The switch receives the frames that come from the guest.
            let names = match queue["from_guest"].as_bool() {
                Some(true) => ["rx_packets", "rx_bytes", "rx_dropped"],
                _ => ["tx_packets", "tx_bytes", "tx_dropped"],
            };
            let drops = queue["drops"].as_object().into_iter().flat_map(|drops| drops.values());
            let dropped = drops.filter_map(Value::as_u64).sum();
            let counts = [queue["frames"].as_u64(), queue["bytes"].as_u64(), Some(dropped)];
            for (name, count) in names.into_iter().zip(counts) {
                *observed.statistics.entry(name).or_default() += count.unwrap_or(0);
            }
        }
        observed
    }

    /// The column `link_state`.
    pub fn link_state(&self) -> Datum {
        state(self.is_up)
    }

    /// The column `admin_state`. A port that is not an interface of the host is always up.
    pub fn admin_state(&self) -> Datum {
        state(self.interface.as_ref().is_none_or(|interface| interface.is_up))
    }

    /// The column `mtu` of a port with this description: the MTU of the host's interface, or the requested MTU.
    pub fn mtu(&self, port: &PortDescription) -> Datum {
        let asked = port.max_frame.map(|bytes| i64::from(bytes) - HEADER_BYTES);
        let mtu = self.interface.as_ref().map(|interface| interface.mtu).or(asked);
        mtu.map_or(Datum::empty(), Datum::from)
    }

    /// The column `ifindex`; empty if the port is not an interface of the host.
    pub fn index(&self) -> Datum {
        self.interface.as_ref().map_or(Datum::empty(), |interface| Datum::from(interface.index))
    }

    /// The column `mac_in_use`; empty if the port is not an interface of the host.
    pub fn mac(&self) -> Datum {
        self.interface.as_ref().map_or(Datum::empty(), |interface| Datum::from(interface.mac.as_str()))
    }

    /// The column `status` of a port with this description.
    pub fn status(&self, port: &PortDescription) -> Datum {
        let mut status = BTreeMap::new();
        match port.kind.as_str() {
            VHOST_USER => {
                let listens = port.options.get("server") == Some(&OptionValue::Switch(true));
                status.insert("mode", if listens { "server" } else { "client" });
                status.insert("status", if self.is_up { "connected" } else { "disconnected" });
                if self.is_up {
                    status.insert("socket", &port.target);
                    status.extend(self.features.as_deref().map(|bits| ("features", bits)));
                }
            }
            "geneve" | "vxlan" | "gre" => {
                status.extend(self.egress.as_deref().map(|egress| ("tunnel_egress_iface", egress)));
            }
            TAP | UNDERLAY if self.interface.is_some() => _ = status.insert("driver_name", "tun"),
            _ => {}
        }
        Datum::texts(status)
    }

    /// The column `statistics`.
    pub fn statistics(&self) -> Datum {
        let pair = |(name, count): (&&str, &u64)| {
            (Atom::String((*name).to_owned()), Atom::Integer(i64::try_from(*count).unwrap_or(i64::MAX)))
        };
        Datum::Map(self.statistics.iter().map(pair).collect())
    }
}

fn texts(object: &Value) -> BTreeMap<String, String> {
    let pairs = object.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn state(is_up: bool) -> Datum {
    Datum::from(if is_up { "up" } else { "down" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counters_are_summed_over_queues_and_named_from_the_switch() {
        let queue = |from_guest, frames| {
            json!({"from_guest": from_guest, "frames": frames, "bytes": 60 * frames,
                "drops": {"too long": 1, "policed": 2}})
        };
        let queues = [queue(true, 5), queue(true, 2), queue(false, 1)];
        let up = json!({"name": "a", "link": {"is_up": true, "changes": 1}, "queues": queues});
        let answer = json!({"ports": [up, {"name": "b"}, 7]});
        let all = Observed::all(&answer);
        let statistics: Vec<(&str, u64)> =
            all["a"].statistics.iter().map(|(name, count)| (*name, *count)).collect();
        let expected = [("rx_bytes", 420), ("rx_dropped", 6), ("rx_packets", 7)];
        assert_eq!(statistics[..3], expected);
        assert_eq!(statistics[3..], [("tx_bytes", 60), ("tx_dropped", 3), ("tx_packets", 1)]);
        assert!(all["a"].is_up && !all["b"].is_up && all.len() == 2);
        assert_eq!(Observed::all(&json!({"ports": 3})).len(), 0);
    }

    #[test]
    fn status_says_what_is_known_and_no_more() {
        let of = |kind: &str, port: Value| {
            let options = [("server".to_owned(), OptionValue::Switch(true))].into();
            let port_of_kind = PortDescription {
                kind: kind.to_owned(),
                target: "/s".to_owned(),
                options,
                ..Default::default()
            };
            let observed = Observed::of(&port);
            let status = observed.status(&port_of_kind);
            let word = |key: &&str| Some(format!("{key}={}", status.get(key)?));
            let words: Vec<String> =
                ["driver_name", "features", "mode", "socket", "status"].iter().filter_map(word).collect();
            (
                words.join(" "),
                [observed.index(), observed.mac()],
                observed.mtu(&port_of_kind),
                observed.admin_state(),
            )
        };
        let none = [Datum::empty(), Datum::empty()];
        let up = json!({"link": {"is_up": true, "changes": 1}, "feature_bits": "0x1"});
        let (status, host, mtu, admin) = of(VHOST_USER, up);
        assert_eq!(status, "features=0x1 mode=server socket=/s status=connected");
        assert_eq!((host, mtu, admin), (none.clone(), Datum::empty(), Datum::from("up")));
        assert_eq!(of(VHOST_USER, json!({"feature_bits": "0x1"})).0, "mode=server status=disconnected");
        assert_eq!((of(TAP, json!({})).0.as_str(), of(TAP, json!({})).1), ("", none));
        let interface = json!({"index": 7, "mtu": 1400, "mac": "02:00:00:00:00:01", "is_up": false});
        let (status, host, mtu, admin) = of(TAP, json!({"interface": interface}));
        assert_eq!(status, "driver_name=tun");
        assert_eq!(host, [Datum::from(7_i64), Datum::from("02:00:00:00:00:01")]);
        assert_eq!((mtu, admin), (Datum::from(1400_i64), Datum::from("down")));
    }
}
