//! Programs of Open vSwitch and OVN of later releases than the installed ones.
use std::path::Path;
use std::process::Command;

use peers::chosen::{OPENVSWITCH, OVN};

use crate::common::cache;

/// The tests that are run again, and how many there are.
const AGAIN: [&str; 6] =
    ["ovsdb::first", "ovsdb::vlans", "ovsdb::mirrors", "ovsdb::policing", "ovsdb::bonds", "ovsdb::patches"];
const TESTS: &str = "12 passed";
/// The tests with OVN that are run again, and how many there are: flows and connections, routing and balancing, a tunnel
/// to another chassis. `make test-matrix` runs all of them.
const OVN_AGAIN: [&str; 3] = ["ovn_binds_ports", "ovn_answers_arp", "ovn_joins"];
const OVN_TESTS: &str = "3 passed";

/// What a command prints.
pub(super) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{}: {error}; scripts/setup.sh test unpacks it", command.get_program().display())
    });
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Asserts that a program is of this release or of a later one.
fn assert_release(program: &Path, least: (u32, u32)) {
    let version = run(Command::new(program).arg("--version"));
    let release = version.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap();
    let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    assert!((parts.next(), parts.next()) >= (Some(least.0), Some(least.1)), "{version}");
}

/// Bridges, ports, VLANs, mirrors, policing, bonds and patch ports by the `ovs-vsctl` and `ovsdb-server` of Debian 13.
#[test]
fn a_later_ovs_vsctl_does_the_same() {
    let root = cache("openvswitch-3.5");
    assert_release(&root.join("usr/bin/ovs-vsctl"), (3, 5));
    let mut again = Command::new(std::env::current_exe().unwrap());
    let said = run(again.args(AGAIN).args(["--test-threads", "2"]).env(OPENVSWITCH, &root));
    assert!(said.contains(TESTS), "{said}");
}

/// A part of the tests with OVN, by the OVN of Debian unstable.
#[test]
fn a_later_ovn_does_the_same() {
    let root = cache("ovn-sid");
    assert_release(&root.join("usr/bin/ovn-controller"), (26, 3));
    let mut again = Command::new(std::env::current_exe().unwrap());
    let said = run(again.args(OVN_AGAIN).args(["--test-threads", "2"]).env(OVN, &root));
    assert!(said.contains(OVN_TESTS), "{said}");
}
