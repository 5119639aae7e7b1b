//! A chassis goes over from Open vSwitch to the switch and back, by the commands of docs/ovn.md, while hosts exchange pings.
use std::time::{Duration, Instant};

use peers::{Netns, Ovn, OvsDatabase, OvsService};

use crate::ovsdb::{arguments, network};
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

const PAGE: &str = include_str!("../../../../../../docs/ovn.md");
/// How long a change may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The commands of the page that go over, and those that go back.
fn commands() -> [Vec<&'static str>; 2] {
    let fence = "<!-- test: run by crates/tautline/tests/switch/ovsdb/ovn/switched.rs -->\n```sh\n";
    let blocks = PAGE.split(fence).skip(1).map(|block| block.split("```").next().unwrap().lines().collect());
    blocks.collect::<Vec<_>>().try_into().unwrap()
}

/// A chassis whose database stays while its switch changes, with two hosts on its bridge.
struct Chassis {
    network: Netns,
    database: OvsDatabase,
    hosts: [Netns; 2],
}

impl Chassis {
    fn vsctl(&self, words: &str) -> String {
        self.database.vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap()
    }

    /// Binds a logical port to a host. Only the first host may begin connections.
    fn bind(&self, ovn: &Ovn, station: usize) {
        let (port, host) = (format!("vif{station}"), &self.hosts[station - 1]);
        let addresses = format!("02:00:00:00:00:0{station} 10.0.0.{station}");
        ovn.nbctl(&["lsp-add", "sw0", &port, "--", "lsp-set-addresses", &port, &addresses]).unwrap();
        self.network.join(&port, host, "e0").unwrap();
        self.network.ip(&format!("link set {port} up")).unwrap();
        host.ip(&format!("link set e0 address 02:00:00:00:00:0{station}")).unwrap();
        host.run("ethtool -K e0 tx off").unwrap().expect_success();
        host.configure("e0", &format!("10.0.0.{station}/24")).unwrap();
        self.vsctl(&format!(
            "--no-wait add-port br-int {port} -- set Interface {port} external_ids:iface-id={port}"
        ));
        ovn.nbctl(&["wait-until", "Logical_Switch_Port", &port, "up=true"]).unwrap();
    }
}

/// The times of the answers in the output of `ping -D`, in seconds.
fn answers(said: &str) -> Vec<f64> {
    // [1796000000.123456] 64 bytes from 10.0.0.2: ...
    let time = |line: &str| line.strip_prefix('[')?.split_once("] 64 bytes")?.0.parse().ok();
    said.lines().filter_map(time).collect()
}

/// The longest time between two answers since there were `known`, once pings are answered again.
#[track_caller]
fn gap(said: impl Fn() -> String, known: usize) -> f64 {
    let found = wait_for("answers after the change", || {
        let all = answers(&said());
        let new = &all[known - 1..];
        // Fifty answers in a row behind the longest pause.
        let pauses: Vec<f64> = new.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longest = pauses.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1))?;
        (pauses.len() >= longest.0 + 50).then_some(longest.1)
    });
    assert!(found < LIMIT.as_secs_f64(), "{found} s");
    found
}

#[test]
fn a_chassis_is_switched_over_and_back_by_the_commands_of_the_page() {
    let network = network();
    let hosts = [network.sibling().unwrap(), network.sibling().unwrap()];
    let chassis = Chassis { network, database: OvsDatabase::new().unwrap(), hosts };
    let openvswitch = OvsService::start(&chassis.network, &chassis.database).unwrap();
    let ovn = Ovn::start(&chassis.database).unwrap();
    wait_for("the bridge of OVN", || chassis.vsctl("list-br").contains("br-int").then_some(()));
    ovn.nbctl(&["ls-add", "sw0"]).unwrap();
    let rules = [("from-lport", "inport == \"vif1\" && ip4", "allow-related"), ("to-lport", "ip4", "drop")];
    for (direction, of, verdict) in rules {
        ovn.nbctl(&["acl-add", "sw0", direction, "1000", of, verdict]).unwrap();
    }
    ovn.nbctl(&["acl-add", "sw0", "to-lport", "1001", "outport == \"vif2\" && icmp4", "allow-related"])
        .unwrap();
    [1, 2].iter().for_each(|station| chassis.bind(&ovn, *station));
    ovn.nbctl(&["--wait=hv", "sync"]).unwrap();
    let pings = chassis.hosts[0].start("ping -D -i 0.02 -W 1 10.0.0.2").unwrap();
    wait_for("answers by Open vSwitch", || (answers(&pings.said()).len() > 50).then_some(()));
    // The rules hold: the other host may not begin.
    let is_refused = || assert!(!chassis.hosts[1].run("ping -c 2 -i 0.1 -W 1 10.0.0.1").unwrap().success());
    is_refused();

    let [over, back] = commands();
    let sockets = Sockets::new();
    let server = format!("unix:{}", chassis.database.socket().display());
    assert!(over[0] == "ovs-appctl exit" && over[1].starts_with("tautline switch --control "), "{over:?}");
    let known = answers(&pings.said()).len();
    chassis.database.appctl(&["exit"]).unwrap();
    openvswitch.ended(LIMIT).unwrap();
    let begun = Instant::now();
    let switch = SwitchProcess::start_in(&chassis.network, &arguments(&server, &sockets));
    let there = gap(|| pings.said(), known);
    println!("over: no answer for {there:.2} s, {:.2} s after the start", begun.elapsed().as_secs_f64());
    assert!(chassis.database.appctl(&["version"]).unwrap().contains("Tautline"));
    assert_eq!(chassis.vsctl("--bare --columns=error find Interface name=vif1").trim(), "");
    is_refused();

    assert!(back[0] == "ovs-appctl exit" && back[1].starts_with("ovs-vswitchd --pidfile "), "{back:?}");
    let known = answers(&pings.said()).len();
    chassis.database.appctl(&["exit"]).unwrap();
    switch.ended();
    let _openvswitch = OvsService::start(&chassis.network, &chassis.database).unwrap();
    let again = gap(|| pings.said(), known);
    println!("back: no answer for {again:.2} s");
    assert!(chassis.database.appctl(&["version"]).unwrap().contains("(Open vSwitch)"));
    is_refused();
}
