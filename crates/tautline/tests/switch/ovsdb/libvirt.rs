//! A domain of libvirt with an interface of the type `vhostuser` on a port of `ovs-vsctl`.
use super::{BRIDGE, Scene};
use crate::common::libvirt::Libvirt;
use crate::switch_process::wait_for;

/// The domain has no disk: its firmware asks for an address over the card, so that the switch learns the card's own.
#[test]
fn libvirt_starts_a_domain_on_a_port() {
    let scene = Scene::new();
    let libvirt = Libvirt::start();
    let path = libvirt.folder().join("vhu1").display().to_string();
    let interface = format!("set Interface vhu1 type=dpdkvhostuserclient options:vhost-server-path={path}");
    scene.vsctl(&format!("add-port {BRIDGE} vhu1 -- {interface}"));
    let mac = "52:54:00:00:00:41";
    libvirt.create(
        "one",
        "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking><vcpu>1</vcpu>",
        &format!(
            "<interface type='vhostuser'><mac address='{mac}'/><source type='unix' path='{path}' mode='server'/>
             <model type='virtio'/><boot order='1'/></interface>"
        ),
        &[],
    );
    wait_for("the card's address", || {
        let table = scene.appctl(&format!("fdb/show {BRIDGE}"));
        table.lines().any(|row| row.starts_with(&format!("    1     0  {mac}"))).then_some(())
    });
    assert_eq!(scene.columns("vhu1", "ofport error"), "1\n[]\n");
    assert!(libvirt.virsh(&["destroy", "one"]).status.success());
    wait_for("the end of the card", || {
        let columns = scene.columns("vhu1", "link_state status:status");
        (columns == "down\ndisconnected\n").then_some(())
    });
    scene.switch.end();
}
