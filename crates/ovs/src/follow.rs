//! What of the database is monitored.

use std::time::Duration;

use ovsdb::Follow;

/// The lock that ovs-vswitchd takes, so that only one such program is active.
pub const LOCK: &str = "ovs_vswitchd";
/// After this time without a message, the database server is asked whether it is there.
pub(crate) const PROBE: Duration = Duration::from_secs(5);

/// Tables, and their columns that are monitored.
const COLUMNS: [(&str, &[&str]); 10] = [
    (
        "Open_vSwitch",
        &[
            "bridges",
            "next_cfg",
            "cur_cfg",
            "other_config",
            "iface_types",
            "datapath_types",
            "datapaths",
            "ssl",
        ],
    ),
    ("SSL", &["private_key", "certificate", "ca_cert"]),
    ("Datapath", &["capabilities", "ct_zones", "ct_zone_default_limit"]),
    ("CT_Zone", &["limit"]),
    ("QoS", &["type"]),
    (
        "Bridge",
        &[
            "name",
            "ports",
            "datapath_type",
            "datapath_id",
            "fail_mode",
            "mirrors",
            "other_config",
            "controller",
        ],
    ),
    (
        "Controller",
        &[
            "target",
            "inactivity_probe",
            "max_backoff",
            "controller_rate_limit",
            "controller_burst_limit",
            "is_connected",
            "role",
            "status",
        ],
    ),
    (
        "Mirror",
        &[
            "name",
            "select_all",
            "select_src_port",
            "select_dst_port",
            "select_vlan",
            "output_port",
            "output_vlan",
            "snaplen",
            "filter",
            "statistics",
        ],
    ),
    (
        "Port",
        &[
            "name",
            "interfaces",
            "tag",
            "trunks",
            "vlan_mode",
            "cvlans",
            "other_config",
            "qos",
            "bond_mode",
            "bond_active_slave",
            "lacp",
        ],
    ),
    (
        "Interface",
        &[
            "name",
            "type",
            "options",
            "mtu_request",
            "ingress_policing_rate",
            "ingress_policing_burst",
            "ingress_policing_kpkts_rate",
            "ingress_policing_kpkts_burst",
            "ofport_request",
            "ofport",
            "error",
            "admin_state",
            "link_state",
            "link_resets",
            "mtu",
            "mac",
            "ifindex",
            "mac_in_use",
            "status",
            "statistics",
            "bfd",
            "bfd_status",
        ],
    ),
];

/// The columns that are monitored.
pub fn follow() -> Follow {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Follow {
        database: "Open_vSwitch".to_owned(),
        tables: COLUMNS.into_iter().map(|(table, all)| (table.to_owned(), names(all))).collect(),
        lock: Some(LOCK.to_owned()),
        steals: false,
        probe_interval: PROBE,
    }
}
