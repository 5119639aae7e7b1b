//! OVN controls a bridge of the switch: a real ovn-controller, which makes `br-int` and fills its tables.
use peers::Ovn;

use super::Scene;
use crate::switch_process::wait_for;

/// Logical ports are bound and installed, and `--wait=hv` says that the switch has their flows.
#[test]
fn ovn_binds_ports_and_waits_for_their_flows() {
    let scene = Scene::new();
    let ovn = Ovn::start(&scene.database).unwrap();
    let nbctl = |words: &str| ovn.nbctl(&words.split(' ').collect::<Vec<_>>()).unwrap();
    wait_for("the bridge of OVN", || scene.vsctl("list-br").contains("br-int").then_some(()));
    nbctl("ls-add sw0");
    for port in ["vif1", "vif2"] {
        nbctl(&format!("lsp-add sw0 {port} -- lsp-set-addresses {port} unknown"));
        let interface = format!("set Interface {port} type=dpdkvhostuser external_ids:iface-id={port}");
        scene.vsctl(&format!("add-port br-int {port} -- {interface}"));
    }
    // Returns once the controller of each chassis has had its flows confirmed by a barrier.
    nbctl("--wait=hv sync");
    for port in ["vif1", "vif2"] {
        wait_for("ovn-installed", || {
            scene.columns(port, "external_ids").contains("ovn-installed=\"true\"").then_some(())
        });
    }
    let flows = || scene.ofctl("-O OpenFlow15 dump-flows br-int").lines().count();
    let before = flows();
    assert!(before > 100, "{before} flows");
    nbctl("acl-add sw0 to-lport 1000 ip4.src==10.0.0.9 drop");
    nbctl("--wait=hv sync");
    assert!(flows() > before, "{before} flows, and no more with an ACL");
    assert!(scene.ofctl("-O OpenFlow15 dump-flows br-int nw_src=10.0.0.9,ip").contains("actions=drop"));
    nbctl("--wait=hv lsp-del vif2");
    assert!(flows() < before + 10);
    drop(ovn);
    scene.switch.end();
}
