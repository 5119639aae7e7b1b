//! Open vSwitch with DPDK between two drivers of testpmd: by addresses, and port to port.

use std::time::Duration;

use peers::guest::Port;
use peers::pages::{Grown, held_kib};
use peers::testpmd::{Forward, Vdev};
use peers::{Guest, OvsDpdk, Pages, Testpmd, ovs};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn two_drivers_talk_through_the_switch() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let switch = OvsDpdk::new().unwrap();
    switch.add_port("a", &sockets[0]).unwrap();
    switch.add_port("b", &sockets[1]).unwrap();
    // The drivers listen; a driver comes up when the switch has connected.
    let driver =
        |socket: usize, mac: &str| Vdev::virtio_user(&sockets[socket]).other_role().argument("mac", mac);
    let ports = [driver(0, "02:00:00:00:aa:01"), driver(1, "02:00:00:00:aa:02").packed(true)];
    let mut drivers = Testpmd::with_ports(ports).unwrap();
    for port in ["a", "b"] {
        switch.wait_for_link(port).unwrap();
    }

    // By address: a frame to where no one is goes everywhere, and the sender's address is learned.
    drivers.set_forward(Forward::Mac).unwrap();
    drivers.start_with_bursts(1).unwrap();
    switch.wait_for_stats("a", SOON, |stats| stats.rx_packets >= 32 && stats.tx_packets >= 32).unwrap();
    let known = switch.addresses().unwrap();
    assert!(known.contains("02:00:00:00:aa:01") || known.contains("02:00:00:00:aa:02"), "{known}");
    drivers.stop_forwarding().unwrap();

    // Port to port, whatever the addresses.
    switch.connect("a", "b").unwrap();
    drivers.set_forward(Forward::Io).unwrap();
    let before = drivers.stats(1).unwrap();
    drivers.start_with_bursts(1).unwrap();
    let after = drivers.wait_for_stats(1, SOON, |stats| stats.rx_packets > before.rx_packets + 1000).unwrap();
    assert_eq!(after.rx_errors, 0);
    let stats = switch.stats("b").unwrap();
    assert!(stats.tx_packets >= 1000 && stats.tx_bytes >= 64_000, "{stats:?}");
    let pmd = switch.pmd_stats().unwrap();
    assert!(pmd.rx_packets > 0 && pmd.busy_cycles > 0, "{pmd:?}");

    // Nothing of it is left.
    let id = switch.id();
    drop(switch);
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}

/// A build that was installed somewhere by `make install`: other places than a package's.
#[test]
fn another_build_is_what_runs() {
    let (program, said) = ovs::version(None).unwrap();
    assert!(said.starts_with("Open vSwitch ") && said.contains(" with DPDK "), "{said}");
    let top = program.ancestors().find(|folder| folder.join("usr/sbin/ovsdb-server").is_file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("sbin/ovs-vswitchd");
    for name in ["sbin", "bin", "share"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let link =
        |from: &str, to: &str| std::os::unix::fs::symlink(top.join(from), folder.path().join(to)).unwrap();
    std::os::unix::fs::symlink(&program, &other).unwrap();
    link("usr/sbin/ovsdb-server", "sbin/ovsdb-server");
    link("usr/share/openvswitch", "share/openvswitch");
    for name in ["ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"] {
        link(&format!("usr/bin/{name}"), &format!("bin/{name}"));
    }
    let named = Some(folder.path().to_owned());
    assert_eq!(ovs::version(named.as_deref()).unwrap(), (other.clone(), said));
    let switch = ovs::Settings::default().folder(named).start().unwrap();
    let words = std::fs::read(format!("/proc/{}/cmdline", switch.id())).unwrap();
    assert!(words.starts_with(other.as_os_str().as_encoded_bytes()), "{}", String::from_utf8_lossy(&words));
    // What is not there is named.
    std::fs::remove_file(folder.path().join("bin/ovs-ofctl")).unwrap();
    let error = ovs::version(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("ovs-ofctl") && error.contains("name the folder"), "{error}");
}

/// The guest's ports listen; Open vSwitch connects. With offloads as QEMU and the switch agree on them.
#[test]
fn a_guest_talks_to_itself_through_the_switch() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let switch = OvsDpdk::new().unwrap();
    switch.add_port("a", &sockets[0]).unwrap();
    switch.add_port("b", &sockets[1]).unwrap();
    let guest = Guest::with_ports(sockets.iter().map(|socket| Port::new(socket).server())).unwrap();
    guest.must(
        "ip address add 10.3.0.1/24 dev eth0 && ip link set eth0 up
         ip netns add far && ip link set eth1 netns far
         ip -n far address add 10.3.0.2/24 dev eth1 && ip -n far link set eth1 up",
    );
    guest.must("ping -c 3 -i 0.2 -W 10 10.3.0.2");
    let known = switch.addresses().unwrap();
    let address = guest.must("cat /sys/class/net/eth0/address");
    assert!(known.contains(address.trim()), "{address} in {known}");
    assert!(switch.stats("b").unwrap().tx_packets >= 3);
}

#[test]
fn the_switch_runs_on_huge_pages() {
    let _grown = Grown::by(384).unwrap();
    let switch = ovs::Settings::default().pages(Pages::Huge).start().unwrap();
    assert!(held_kib(switch.id()) > 0);
    assert_eq!(switch.addresses().unwrap().lines().count(), 1, "its heading alone");
}
