//! Conversion from rows of the database to ports of a switch.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use control::{BOND_OPTIONS, BridgeDescription, NETWORK_OPTION, NUMBER_OPTION, OptionValue, PortDescription};
use ovsdb::{Atom, Cache, Datum, Row, Uuid};

use crate::bridges;
use crate::mirrors::{Mirrors, mirrors};
use crate::rows::{integer, is_empty, option, rows, text};
use crate::tunnels;

/// The ports, bridges and mirrors that the database requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The row of the switch itself and the number of its configuration; `None` while the database has none.
    pub root: Option<(Uuid, i64)>,
    /// The rows of the datapath in user space, which programs make to read what it is able to do.
    pub datapaths: Vec<Uuid>,
    /// The bridges that the switch has, each a network of its ports, by name.
    pub bridges: Vec<String>,
    /// These bridges for the switch, by name.
    pub described: BTreeMap<String, BridgeDescription>,
    /// The rows of these bridges, by name.
    pub bridge_rows: BTreeMap<String, Uuid>,
    /// The controllers of these bridges.
    pub controllers: Vec<Controller>,
    /// The ports, by name.
    pub ports: BTreeMap<String, PortDescription>,
    /// All interfaces of bridges.
    pub interfaces: Vec<Interface>,
    /// The rows of ports with several interfaces, by name.
    pub bonds: BTreeMap<String, Uuid>,
    /// The mirrors between these ports.
    pub mirrors: Mirrors,
}

/// A controller of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// The controller's row.
    pub row: Uuid,
    /// The bridge.
    pub bridge: String,
    /// The controller's target.
    pub target: String,
}

/// An interface, and how the switch treats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's row.
    pub row: Uuid,
    /// The bridge that has the interface.
    pub bridge: String,
    /// The interface's name.
    pub name: String,
    /// The interface's type in the database.
    pub kind: String,
    /// The number that the interface requests (`ofport_request`).
    pub asked: Option<u16>,
    /// The number that a switch has given to the interface before (`ofport`).
    pub former: Option<u16>,
    /// How the switch treats the interface.
    pub place: Place,
}

/// How the switch treats an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The interface is the switch's port of the same name.
    Port,
    /// The interface is the bridge's own, the switch's port of the same name.
    Local,
    /// The switch cannot use the interface, for this reason.
    Refused(String),
}

/// The OpenFlow number of a bridge's own interface (`OFPP_LOCAL` of version 1.0).
pub(crate) const LOCAL: u16 = 0xfffe;
/// Bytes of Ethernet header and one tag, which an MTU does not count.
pub(crate) const HEADER_BYTES: i64 = 18;
/// The kind of a port whose peer is a front-end.
pub(crate) const VHOST_USER: &str = "vhost-user";
/// The kind of a port to another bridge.
const PATCH: &str = "patch";
/// The kind of a port that is an interface of the host.
pub(crate) const TAP: &str = "tap";
/// The kind of such a port that ends tunnels.
pub(crate) const UNDERLAY: &str = "underlay";
/// The MTU that an interface may have (VIRTIO 1.3, section 5.1.4.1).
const MTU: RangeInclusive<i64> = 68..=65535;
/// The VLANs that a column may name.
const VLANS: RangeInclusive<i64> = 0..=4095;
/// The ways in which a port may take part in VLANs (`vlan_mode`).
const VLAN_MODES: [&str; 5] = ["access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"];
/// The ways in which the interfaces of a bond may share frames (`bond_mode`), the default first.
const BOND_MODES: [&str; 2] = ["active-backup", "balance-slb"];
/// Bytes of the longest path of a socket (unix(7)).
const PATH_BYTES: usize = 107;
/// The most bridges: each has a table of addresses.
const MOST_BRIDGES: usize = 32;
/// Bytes of the longest name of an interface.
const NAME_BYTES: usize = 64;

/// Reads the requests of the database. `folder` is the folder for sockets of `dpdkvhostuser`.
pub fn wanted(cache: &Cache, folder: &Path) -> Wanted {
    let mut wanted = Wanted::default();
    let Some((root, switch)) = cache.rows("Open_vSwitch").next() else { return wanted };
    wanted.root = Some((root, integer(switch, "next_cfg").unwrap_or(0)));
    if let Some(Datum::Map(datapaths)) = switch.get("datapaths") {
        let own = datapaths.iter().filter(|(kind, _)| matches!(kind, Atom::String(kind) if kind == "netdev"));
        wanted.datapaths.extend(own.filter_map(|(_, row)| match row {
            Atom::Uuid(row) => Some(*row),
            _ => None,
        }));
    }
    let mut bridges: Vec<(Uuid, &Row)> = rows(cache, switch, "bridges", "Bridge").collect();
    bridges.sort_by_key(|(_, row)| text(row, "name").to_owned());
    for (id, bridge) in bridges {
        let name = text(bridge, "name");
        let is_served = text(bridge, "datapath_type") == "netdev" && wanted.bridges.len() < MOST_BRIDGES;
        if is_served {
            wanted.bridges.push(name.to_owned());
            wanted.described.insert(name.to_owned(), bridges::bridge(id, bridge, cache, folder));
            wanted.bridge_rows.insert(name.to_owned(), id);
            let controllers = bridges::controllers(bridge, cache);
            wanted.controllers.extend(controllers.map(|(row, controller)| Controller {
                row,
                bridge: name.to_owned(),
                target: text(controller, "target").to_owned(),
            }));
        }
        let refused = refused_bridge(bridge, is_served);
        for (port_row, port) in rows(cache, bridge, "ports", "Port") {
            if is_bond(port) {
                wanted.bonds.insert(text(port, "name").to_owned(), port_row);
            }
            let options = match refused.clone().or_else(|| refused_port(port, cache)) {
                Some(why) => Err(why),
                None => vlans(port).and_then(|options| bond(port, in_network(options, name))),
            };
            for (row, interface) in rows(cache, port, "interfaces", "Interface") {
                let place = match &options {
                    Err(why) => Place::Refused(why.clone()),
                    Ok(options) => {
                        let seat = Seat { bridge, options, folder };
                        seat.place(interface, &mut wanted.ports).unwrap_or_else(Place::Refused)
                    }
                };
                // A switch that was started again gives the number that the one before it gave.
                let [asked, former] = ["ofport_request", "ofport"]
                    .map(|column| integer(interface, column).and_then(|number| number.try_into().ok()));
                let [own, kind] = ["name", "type"].map(|column| text(interface, column).to_owned());
                wanted.interfaces.push(Interface {
                    row,
                    bridge: name.to_owned(),
                    name: own,
                    kind,
                    asked,
                    former,
                    place,
                });
            }
        }
        if is_served {
            let own = OptionValue::Text(bridges::network(name));
            let is_own = |port: &PortDescription| port.options.get(NETWORK_OPTION) == Some(&own);
            let read = mirrors(cache, bridge, |port| wanted.ports.get(port).is_some_and(is_own));
            wanted.mirrors.extend(read);
        }
    }
    wanted
}

/// The reason why none of a port's interfaces can be served.
fn refused_bridge(bridge: &Row, is_served: bool) -> Option<String> {
    let name = text(bridge, "name");
    if text(bridge, "datapath_type") != "netdev" {
        return Some(format!(
            "bridge {name} is of the kernel's datapath: ovs-vsctl set bridge {name} datapath_type=netdev"
        ));
    }
    (!is_served).then(|| format!("the switch has {MOST_BRIDGES} bridges, the most that there can be"))
}

/// With the option that puts a port into the network of a bridge.
fn in_network(mut options: BTreeMap<String, OptionValue>, bridge: &str) -> BTreeMap<String, OptionValue> {
    options.insert(NETWORK_OPTION.to_owned(), OptionValue::Text(bridges::network(bridge)));
    options
}

/// Why none of a port's interfaces can be. A QoS of type `linux-noop` asks for nothing: ovn-controller gives it to each port
/// by which tunnels leave.
fn refused_port(port: &Row, cache: &Cache) -> Option<String> {
    let name = text(port, "name");
    let is_noop = rows(cache, port, "qos", "QoS").any(|(_, qos)| text(qos, "type") == "linux-noop");
    let asks = !is_empty(port, "qos") && !is_noop;
    asks.then(|| {
        format!("port {name} asks for qos, which the switch does not have: ovs-vsctl clear port {name} qos")
    })
}

fn is_bond(port: &Row) -> bool {
    port.get("interfaces").is_some_and(|interfaces| interfaces.uuids().count() > 1)
}

/// With the options of a bond, if the port has several interfaces.
fn bond(
    port: &Row,
    mut options: BTreeMap<String, OptionValue>,
) -> Result<BTreeMap<String, OptionValue>, String> {
    if !is_bond(port) {
        return Ok(options);
    }
    let (name, lacp) = (text(port, "name"), text(port, "lacp"));
    if !matches!(lacp, "" | "off") {
        return Err(format!(
            "bond {name} asks for LACP, which the switch does not have: ovs-vsctl set port {name} lacp=off"
        ));
    }
    let mode = match text(port, "bond_mode") {
        "" => BOND_MODES[0],
        mode if BOND_MODES.contains(&mode) => mode,
        _ => {
            let modes = BOND_MODES.join(" or ");
            return Err(format!("bond_mode of {name} needs LACP or is unknown: write {modes}"));
        }
    };
    let [of_name, of_mode, of_interval] = BOND_OPTIONS.map(str::to_owned);
    options.insert(of_name, OptionValue::Text(name.to_owned()));
    options.insert(of_mode, OptionValue::Text(mode.to_owned()));
    let interval = port.get("other_config").and_then(|config| config.get(&of_interval));
    // Open vSwitch ignores a value that is no number.
    let interval = interval.and_then(|ms| ms.parse::<u32>().ok());
    options.extend(interval.map(|ms| (of_interval, OptionValue::Number(ms.into()))));
    Ok(options)
}

/// The VLAN columns of a port as options of a port of the switch, which ignores options without a meaning for the mode,
/// as ovs-vswitchd does. Unknown values in `other_config` are as if they were not there.
fn vlans(port: &Row) -> Result<BTreeMap<String, OptionValue>, String> {
    let mut options = BTreeMap::new();
    let mut add = |key: &str, text: String| _ = options.insert(key.to_owned(), OptionValue::Text(text));
    for column in ["tag", "trunks", "cvlans"] {
        let vlan = |vlan: i64| match VLANS.contains(&vlan) {
            true => Ok(vlan.to_string()),
            false => Err(format!("{column} has {vlan}: write {} to {}", VLANS.start(), VLANS.end())),
        };
        let vlans = port.get(column).into_iter().flat_map(Datum::integers).map(vlan);
        let vlans = vlans.collect::<Result<Vec<_>, _>>()?;
        if !vlans.is_empty() {
            add(column, vlans.join("+"));
        }
    }
    match text(port, "vlan_mode") {
        "" => {}
        mode if VLAN_MODES.contains(&mode) => add("vlan_mode", mode.to_owned()),
        _ => return Err(format!("vlan_mode is unknown: write {}", VLAN_MODES.join(", "))),
    }
    let other = |key| port.get("other_config").and_then(|config| config.get(key));
    if other("qinq-ethtype") == Some("802.1q") {
        add("qinq-ethtype", "802.1q".to_owned());
    }
    match other("priority-tags") {
        Some("if-nonzero" | "true") => add("priority-tags", "if-nonzero".to_owned()),
        Some("always") => add("priority-tags", "always".to_owned()),
        _ => {}
    }
    Ok(options)
}

/// The bridge, port and folder of an interface.
struct Seat<'a> {
    bridge: &'a Row,
    /// The options of the port that has the interface.
    options: &'a BTreeMap<String, OptionValue>,
    folder: &'a Path,
}

impl Seat<'_> {
    /// Finds the place of an interface, or the reason why it has none. A port is added to `ports`.
    fn place(&self, interface: &Row, ports: &mut BTreeMap<String, PortDescription>) -> Result<Place, String> {
        let name = text(interface, "name");
        if name.contains(char::is_control) {
            return Err("its name has control characters: give it one without".to_owned());
        }
        if name.len() > NAME_BYTES {
            return Err(format!("its name has {} bytes: give it one of at most {NAME_BYTES}", name.len()));
        }
        let mut port = limited(interface, self.described(interface)?)?;
        if ports.contains_key(name) {
            return Err(format!("another interface has the name {name}"));
        }
        port.options.extend(self.options.clone());
        let is_local = self.is_local(interface);
        if is_local {
            port.options.insert(NUMBER_OPTION.to_owned(), OptionValue::Number(LOCAL.into()));
        }
        ports.insert(name.to_owned(), port);
        Ok(if is_local { Place::Local } else { Place::Port })
    }

    /// Whether an interface is the bridge's own.
    fn is_local(&self, interface: &Row) -> bool {
        text(interface, "type") == "internal" && text(interface, "name") == text(self.bridge, "name")
    }

    /// The port of an interface, without the options that all types have.
    fn described(&self, interface: &Row) -> Result<PortDescription, String> {
        let name = text(interface, "name");
        match text(interface, "type") {
            "dpdkvhostuser" if name.contains('/') || matches!(name, "." | "..") => {
                Err("its name is that of a socket too: give it one without '/', other than '.' and '..'"
                    .to_owned())
            }
            "dpdkvhostuser" => socket(&self.folder.join(name).display().to_string(), true),
            "dpdkvhostuserclient" => match option(interface, "vhost-server-path") {
                Some(path) => socket(path, false),
                None => Err(format!(
                    "give the path of QEMU's socket: ovs-vsctl set interface {name} \
                     options:vhost-server-path=PATH"
                )),
            },
            "tap" => Ok(described(TAP, name)),
            "internal" => Ok(self.internal(interface, name)),
            "geneve" | "vxlan" | "gre" => tunnels::tunnel(interface),
            "afxdp" | "afxdp-nonpmd" => Ok(described("af-xdp", name)),
            PATCH => match option(interface, "peer") {
                Some(peer) if peer != name => Ok(described(PATCH, &cable(name, peer))),
                _ => Err(format!(
                    "give the name of the patch port at the other end: ovs-vsctl set interface {name} \
                     options:peer=NAME"
                )),
            },
            // OpenStack's agents add veths without a type.
            "" | "system" => {
                let mut port = described("af-xdp", name);
                port.options.insert("driver".to_owned(), OptionValue::Text("veth".to_owned()));
                Ok(port)
            }
            other => Err(format!(
                "the switch has no interfaces of type {other}; it has dpdkvhostuser, dpdkvhostuserclient, internal, tap, \
                 patch, afxdp, geneve, vxlan and gre"
            )),
        }
    }

    /// A TAP that the switch makes, with the address that the row asks for, or the bridge for its own interface. The
    /// host's administrator sets it up.
    fn internal(&self, interface: &Row, name: &str) -> PortDescription {
        // Tunnels end at the addresses of a bridge's own interface.
        let kind = if self.is_local(interface) { UNDERLAY } else { TAP };
        let mut port = described(kind, name);
        let of_bridge = || {
            let config = self.bridge.get("other_config").filter(|_| self.is_local(interface));
            config.and_then(|config| config.get("hwaddr"))
        };
        let mac = interface.get("mac").and_then(Datum::text).or_else(of_bridge);
        port.options.extend(mac.map(|mac| ("mac".to_owned(), OptionValue::Text(mac.to_owned()))));
        port
    }
}

/// A port at this socket.
fn socket(path: &str, listens: bool) -> Result<PortDescription, String> {
    if path.len() > PATH_BYTES {
        let (bytes, most) = (path.len(), PATH_BYTES);
        return Err(format!("the path of its socket has {bytes} bytes: give it one of at most {most}"));
    }
    let mut port = described(VHOST_USER, path);
    port.options.insert("server".to_owned(), OptionValue::Switch(listens));
    Ok(port)
}

/// The name of the cable between two patch ports, the same for both.
fn cable(name: &str, peer: &str) -> String {
    let (one, other) = if name < peer { (name, peer) } else { (peer, name) };
    format!("{one}={other}")
}

/// The limits that an interface's columns say.
fn limited(interface: &Row, mut port: PortDescription) -> Result<PortDescription, String> {
    if let Some(mtu) = integer(interface, "mtu_request") {
        let bytes =
            Some(mtu).filter(|mtu| MTU.contains(mtu)).and_then(|mtu| u32::try_from(mtu + HEADER_BYTES).ok());
        let (least, most) = (MTU.start(), MTU.end());
        let bytes = bytes.ok_or_else(|| format!("mtu_request is {mtu}: write {least} to {most} bytes"))?;
        port.max_frame = Some(bytes);
    }
    for (limit, unit, of_burst) in [("policing", "kbit", "kbit"), ("policing_kpkts", "kpps", "000")] {
        let number = |what: &str| {
            let column = format!("ingress_{limit}_{what}");
            match integer(interface, &column).unwrap_or(0) {
                number if number < 0 => Err(format!("{column} is {number}: write 0 or more")),
                number => Ok(Some(number).filter(|number| *number > 0)),
            }
        };
        let (rate, burst) = (number("rate")?, number("burst")?);
        let burst = burst.map(|burst| format!("/{burst}{of_burst}")).unwrap_or_default();
        port.police.extend(rate.map(|rate| format!("{rate}{unit}{burst}")));
    }
    Ok(port)
}

fn described(kind: &str, target: &str) -> PortDescription {
    PortDescription { kind: kind.to_owned(), target: target.to_owned(), ..PortDescription::default() }
}
