//! Open vSwitch's programs of a later release than the installed one.
use std::process::Command;

use peers::chosen::OPENVSWITCH;

use crate::common::cache;

/// The tests that are run again, and how many there are.
const AGAIN: [&str; 6] =
    ["ovsdb::first", "ovsdb::vlans", "ovsdb::mirrors", "ovsdb::policing", "ovsdb::bonds", "ovsdb::patches"];
const TESTS: &str = "11 passed";

/// Bridges, ports, VLANs, mirrors, policing, bonds and patch ports by the `ovs-vsctl` and `ovsdb-server` of Debian 13.
#[test]
fn a_later_ovs_vsctl_does_the_same() {
    let root = cache("openvswitch-3.5");
    let program = root.join("usr/bin/ovs-vsctl");
    let run = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|error| {
            panic!("{}: {error}; scripts/setup.sh test unpacks it", program.display())
        });
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    let version = run(Command::new(&program).arg("--version"));
    let release = version.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap();
    let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    assert!((parts.next(), parts.next()) >= (Some(3), Some(5)), "{version}");
    let mut again = Command::new(std::env::current_exe().unwrap());
    let said = run(again.args(AGAIN).args(["--test-threads", "2"]).env(OPENVSWITCH, &root));
    assert!(said.contains(TESTS), "{said}");
}
