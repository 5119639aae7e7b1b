//! The `virtio-user` port against Open vSwitch with DPDK, which connects to it (`dpdkvhostuserclient`).
mod common_driver;

use common_driver::attached::Attached;
use common_driver::passing::pass;
use peers::OvsDpdk;
use port::Port;
use port::virtio_user::VirtioUserOptions;

#[test]
fn two_ports_through_open_vswitch() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let switch = OvsDpdk::new().unwrap();
    for (name, socket) in ["a", "b"].iter().zip(&sockets) {
        switch.add_port(name, socket).unwrap();
    }
    switch.connect("a", "b").unwrap();
    for (packed, in_order) in [(true, true), (false, false)] {
        let [mut left, mut right] = sockets.each_ref().map(|socket| {
            let options =
                VirtioUserOptions { server: true, packed, in_order, ..VirtioUserOptions::new(socket) };
            Attached::start(options)
        });
        left.until_connected(1);
        right.until_connected(1);
        println!("{}", right.port.describe());
        pass(&mut left, Some(&mut right), 5000, 1514);
        pass(&mut right, Some(&mut left), 5000, 1514);
        left.end();
        right.end();
    }
}
