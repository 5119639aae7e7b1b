//! The columns that ovs-vswitchd writes for `ovs-vsctl` and other programs.

use std::collections::BTreeMap;

use control::{ControllerState, PortDescription};
use ovsdb::{Atom, Cache, Datum, Row, Transaction, Uuid};

use crate::bridges;
use crate::mirrors::mirror_of;
use crate::wanted::Controller;
use crate::{LOCK, Numbers, Observed, Place, Wanted};

/// The number of the interface that stands for a bridge (OpenFlow's `OFPP_LOCAL` of version 1.0).
const LOCAL: i64 = 65534;
/// The number of an interface that cannot be.
const REFUSED: i64 = -1;
/// The types of interface that Open_vSwitch.iface_types names.
const TYPES: [&str; 9] =
    ["afxdp", "dpdkvhostuser", "dpdkvhostuserclient", "geneve", "gre", "internal", "patch", "tap", "vxlan"];

/// What Datapath.capabilities says of the flows of a bridge. A key that is left out stands for what it does not do.
pub(crate) const CAPABILITIES: [(&str, &str); 17] = [
    ("check_pkt_len", "true"),
    ("clone", "true"),
    ("ct_clear", "true"),
    ("ct_flush", "true"),
    ("ct_label", "true"),
    ("ct_mark", "true"),
    ("ct_orig_tuple", "true"),
    ("ct_orig_tuple6", "true"),
    ("ct_state", "true"),
    ("ct_state_nat", "true"),
    ("ct_zone", "true"),
    ("masked_set_action", "true"),
    ("max_vlan_headers", "2"),
    ("nd_ext", "true"),
    ("recirc", "true"),
    ("tnl_push_pop", "true"),
    ("trunc", "true"),
];

/// The connections with controllers, by bridge and target.
pub type ControllerStates = BTreeMap<String, BTreeMap<String, ControllerState>>;

/// One transaction with the columns that differ from the database; empty if none does. `failed` has the ports that the
/// switch does not have, each with the reason. `observed` has the present ports. A column that the server's schema
/// lacks is left out.
pub fn report(
    cache: &Cache,
    wanted: &Wanted,
    failed: &BTreeMap<String, String>,
    numbers: &Numbers,
    observed: &BTreeMap<String, Observed>,
    states: &ControllerStates,
) -> Transaction {
    let mut transaction = Transaction::new();
    let mut changes = Vec::new();
    for interface in &wanted.interfaces {
        let error = match &interface.place {
            Place::Refused(why) => Some(why),
            Place::Port | Place::Local => failed.get(&interface.name),
        };
        let number = match (&interface.place, error) {
            // OpenFlow has this number for each bridge, whether the host has its interface or not.
            (Place::Local, _) => Some(LOCAL),
            (_, Some(_)) => Some(REFUSED),
            (_, None) => Some(numbers.of(&interface.name).map_or(REFUSED, i64::from)),
        };
        let description = wanted.ports.get(&interface.name);
        let port = observed.get(&interface.name).filter(|_| error.is_none());
        let port = port.zip(description);
        let of = |column: fn(&Observed, &PortDescription) -> Datum| {
            port.map_or(Datum::empty(), |(observed, port)| column(observed, port))
        };
        let map = |column: fn(&Observed, &PortDescription) -> Datum| {
            port.map_or(Datum::Map(BTreeMap::new()), |(observed, port)| column(observed, port))
        };
        let columns = [
            ("ofport", number.map_or(Datum::empty(), Datum::from)),
            ("error", error.map_or(Datum::empty(), |why| Datum::from(why.as_str()))),
            ("admin_state", of(|observed, _| observed.admin_state())),
            ("link_state", of(|observed, _| observed.link_state())),
            ("link_resets", of(|observed, _| Datum::from(observed.link_changes))),
            ("mtu", of(Observed::mtu)),
            ("ifindex", of(|observed, _| observed.index())),
            ("mac_in_use", of(|observed, _| observed.mac())),
            ("status", map(Observed::status)),
            ("statistics", map(|observed, _| observed.statistics())),
            ("bfd_status", map(|observed, _| Datum::texts(observed.bfd.clone()))),
        ];
        changes.push(("Interface", interface.row, columns.to_vec()));
    }
    for (name, row) in &wanted.bridge_rows {
        let identity = wanted.described.get(name).map_or(Datum::empty(), bridges::identity);
        changes.push(("Bridge", *row, vec![("datapath_id", identity)]));
    }
    for Controller { row, bridge, target } in &wanted.controllers {
        let state = states.get(bridge).and_then(|states| states.get(target));
        changes.push((
            "Controller",
            *row,
            state.map_or(Vec::new(), |state| bridges::connection(state).to_vec()),
        ));
    }
    for (bond, row) in &wanted.bonds {
        let active = observed.values().find(|port| port.active_of.as_ref() == Some(bond));
        let mac = active.map_or(Datum::empty(), Observed::mac);
        changes.push(("Port", *row, vec![("bond_active_slave", mac)]));
    }
    for row in &wanted.datapaths {
        changes.push(("Datapath", *row, vec![("capabilities", Datum::texts(CAPABILITIES))]));
    }
    for row in &wanted.mirrors.rows {
        changes.push(("Mirror", *row, vec![("statistics", copied(*row, wanted, observed))]));
    }
    if let Some((root, configuration)) = wanted.root {
        let set =
            |names: &[&str]| Datum::Set(names.iter().map(|name| Atom::String((*name).to_owned())).collect());
        let columns = [
            ("cur_cfg", Datum::from(configuration)),
            ("iface_types", set(&TYPES)),
            ("datapath_types", set(&["netdev"])),
        ];
        changes.push(("Open_vSwitch", root, columns.to_vec()));
    }
    for (table, row, columns) in changes {
        let Some(there) = cache.row(table, row) else { continue };
        let differs = |(column, value): &(&str, Datum)| there.get(*column).is_some_and(|old| old != value);
        let columns: Row =
            columns.into_iter().filter(differs).map(|(column, value)| (column.to_owned(), value)).collect();
        if !columns.is_empty() {
            if transaction.is_empty() {
                transaction.assert_lock(LOCK);
            }
            transaction.update(table, row, &columns);
        }
    }
    transaction
}

/// The column `statistics` of a mirror: the copies that its ports have passed on.
fn copied(row: Uuid, wanted: &Wanted, observed: &BTreeMap<String, Observed>) -> Datum {
    let own = wanted.mirrors.by_port.iter().filter(|(_, mirror)| mirror.row == row);
    let ports: Vec<&Observed> = own.filter_map(|(from, _)| observed.get(&mirror_of(from))).collect();
    let sum = |name: &str| -> i64 {
        let counts = ports.iter().filter_map(|port| port.statistics.get(name));
        counts.fold(0_u64, |sum, count| sum.saturating_add(*count)).try_into().unwrap_or(i64::MAX)
    };
    let pair = |name: &str, sum| (Atom::String(name.to_owned()), Atom::Integer(sum));
    Datum::Map([pair("tx_packets", sum("rx_packets")), pair("tx_bytes", sum("rx_bytes"))].into())
}
