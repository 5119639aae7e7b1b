//! Nova's way: os-vif's own plug-in `ovs` adds ports for a guest in both modes of vhost-user.
use std::path::{Path, PathBuf};
use std::process::Command;

use peers::Guest;
use peers::guest::Port;

use super::Scene;
use crate::common::cache;
use crate::switch_process::wait_for;

const BRIDGE: &str = "br-int";

/// An interface as Nova describes it.
pub struct Vif {
    pub id: String,
    pub address: String,
    pub path: PathBuf,
    /// Which QEMU is.
    pub mode: &'static str,
}

impl Vif {
    /// The name of the port, which os-vif makes of the identity.
    pub fn name(&self) -> String {
        format!("vhu{}", &self.id[..11])
    }

    /// Runs os-vif with this action, `plug` or `unplug`.
    #[track_caller]
    pub fn run(&self, action: &str, scene: &Scene) {
        let python = cache("os-vif").join("bin/python3");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/switch/ovsdb/osvif.py");
        let output = Command::new(&python)
            .arg(script)
            .arg(action)
            .arg(scene.database.socket())
            .args([BRIDGE, &self.id, &self.address])
            .arg(&self.path)
            .arg(self.mode)
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}; scripts/setup.sh test makes it", python.display()));
        assert!(output.status.success(), "{action}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Each card of the guest gets its address by DHCP from the bridge's own interface.
#[test]
fn os_vif_plugs_a_guest_in_both_modes() {
    let scene = Scene::new();
    let client = Vif {
        id: "00000001-0000-4000-8000-000000000000".into(),
        address: "fa:16:3e:00:00:01".into(),
        path: scene.database.socket().with_file_name("vhu00000001-00"),
        mode: "client",
    };
    let server = Vif {
        id: "00000002-0000-4000-8000-000000000000".into(),
        address: "fa:16:3e:00:00:02".into(),
        path: scene.sockets.path("vhu00000002-00"),
        mode: "server",
    };
    let vifs = [&client, &server];
    vifs.iter().for_each(|vif| vif.run("plug", &scene));
    for (vif, kind) in vifs.iter().zip(["dpdkvhostuser", "dpdkvhostuserclient"]) {
        let columns = scene.columns(&vif.name(), "type error external_ids:attached-mac mtu_request");
        assert_eq!(columns, format!("{kind}\n[]\n\"{}\"\n1500\n", vif.address));
    }
    assert!(scene.listens(&client.path));

    scene.network.configure(BRIDGE, "10.9.0.1/24").unwrap();
    let leases = scene.sockets.path("leases");
    let settings = format!(
        "interface {BRIDGE}\nstart 10.9.0.10\nend 10.9.0.20\nopt subnet 255.255.255.0\nmax_leases 11\n\
         lease_file {leases}\npidfile {leases}.pid\nstatic_lease {} 10.9.0.101\nstatic_lease {} 10.9.0.102\n",
        client.address,
        server.address,
        leases = leases.display()
    );
    std::fs::write(&leases, "").unwrap();
    let file = scene.sockets.path("udhcpd.conf");
    std::fs::write(&file, settings).unwrap();
    let mut command = scene.network.command("busybox");
    let mut daemon = linux::Child::spawn(command.args(["udhcpd", "-f"]).arg(&file)).unwrap();

    let card = |vif: &Vif| Port::new(&vif.path).mac(&vif.address);
    let guest = Guest::with_ports([card(&client).reconnect(), card(&server).server()]).unwrap();
    guest.must(
        "printf '#!/bin/sh\\nip address add $ip/$mask dev $interface\\n' >/tmp/lease && chmod 755 /tmp/lease",
    );
    for (at, last) in [(0, 101), (1, 102)] {
        guest.must(&format!(
            "set -e
             ip netns add n{at} && ip link set eth{at} netns n{at} && ip -n n{at} link set eth{at} up
             ip netns exec n{at} busybox udhcpc -i eth{at} -n -q -t 20 -T 1 -s /tmp/lease
             ip -n n{at} address show dev eth{at} | grep -F 10.9.0.{last}/
             ip netns exec n{at} ping -c 3 -i 0.1 10.9.0.1"
        ));
    }
    assert!(daemon.try_wait().unwrap().is_none());
    daemon.kill().unwrap();
    // The column is written every five seconds.
    for vif in vifs {
        wait_for("the link", || (scene.columns(&vif.name(), "link_state") == "up\n").then_some(()));
    }

    vifs.iter().for_each(|vif| vif.run("unplug", &scene));
    let left = scene.vsctl(&format!("list-ports {BRIDGE}"));
    assert_eq!(left, "");
    wait_for("the end of the socket", || (!client.path.exists()).then_some(()));
    drop(guest);
    scene.switch.end();
}
