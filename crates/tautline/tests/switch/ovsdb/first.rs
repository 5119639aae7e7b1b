//! Bridges and ports of `ovs-vsctl`, and what it is told of them.
use std::time::Duration;

use super::{BRIDGE, Scene};
use crate::switch_process::guest::{Guest, layouts};
use crate::switch_process::{dropped, wait_for};

#[test]
fn ovs_vsctl_adds_ports_that_pass_frames_and_removes_them() {
    let scene = Scene::new();
    let mut ends = scene.add_ends();
    ends.exchange(2000.0, Duration::from_millis(300));
    let hellos = ends.hellos();
    let lost = ends.account(|| dropped(&scene.switch.snapshot()) - hellos);
    assert_eq!(lost, 0);
    // The counters are written every five seconds.
    let sent = ends.sent()[0] + hellos / 2;
    wait_for("the columns of the ports", || {
        let columns =
            scene.columns("one", "link_state admin_state statistics:rx_packets statistics:tx_dropped");
        (columns == format!("up\nup\n{sent}\n0\n")).then_some(())
    });
    for (port, mode) in [("one", "server"), ("two", "client")] {
        let columns = scene.columns(port, "status:mode status:status link_resets mtu mac_in_use ifindex");
        assert_eq!(columns, format!("{mode}\nconnected\n1\n[]\n[]\n[]\n"), "{port}");
        let features = scene.columns(port, "status:features");
        let features = features.trim().trim_matches('"').strip_prefix("0x").unwrap();
        assert_eq!(u64::from_str_radix(features, 16).unwrap() >> 32 & 1, 1, "VERSION_1 in {features}");
    }
    let socket = scene.database.socket().with_file_name("one");
    assert_eq!(scene.columns("one", "status:socket"), format!("\"{}\"\n", socket.display()));
    scene.vsctl("set Interface one mtu_request=9000");
    assert_eq!(scene.columns("one", "mtu"), "9000\n");
    let types = scene.vsctl("--no-wait get Open_vSwitch . iface_types datapath_types");
    assert!(types.contains("dpdkvhostuserclient") && types.contains("netdev"), "{types}");
    // A row of the datapath, as ovn-controller makes it, gets what the datapath is able to do.
    let row = "--id=@d create Datapath datapath_version=x -- set Open_vSwitch . datapaths:netdev=@d";
    scene.vsctl(&format!("--no-wait -- {row}"));
    wait_for("the datapath's capabilities", || {
        let text = scene.vsctl("--bare --columns=capabilities list Datapath");
        text.contains("ct_flush=true").then_some(())
    });
    assert_eq!(scene.columns(BRIDGE, "ofport"), "65534\n");
    assert_eq!(scene.columns("one", "ofport error"), "1\n[]\n");
    assert_eq!(scene.columns("two", "ofport error"), "2\n[]\n");

    drop(ends);
    wait_for("the columns of a port without its peer", || {
        let columns = scene.columns("two", "link_state admin_state link_resets status");
        (columns == "down\nup\n2\n{mode=client, status=disconnected}\n").then_some(())
    });

    scene.vsctl("del-port one");
    let one = scene.database.socket().with_file_name("one");
    assert!(!scene.listens(&one) && !one.exists());
    // The other port is as it was; a port of the same name is another port.
    assert_eq!(scene.columns("two", "ofport"), "2\n");
    scene.add_server("three");
    assert_eq!(scene.columns("three", "ofport"), "1\n");
    scene.vsctl(&format!("del-br {BRIDGE}"));
    let ports = scene.switch.snapshot()["ports"].as_array().unwrap().len();
    assert_eq!(ports, 0);
    scene.switch.end();
}

/// What cannot be has no number and an error in words; the others are as if it were not there.
#[test]
fn what_cannot_be_is_said_in_the_row() {
    let scene = Scene::new();
    let one = scene.add_server("one");
    let add = |port: &str, interface: &str, error: &str| {
        scene.vsctl(&format!("add-port {BRIDGE} {port} -- {interface}"));
        let columns = scene.columns(port, "ofport error");
        assert!(columns.starts_with("-1\n") && columns.contains(error), "{port}: {columns}");
    };
    let set = |port: &str, columns: &str| format!("set Interface {port} {columns}");
    add("g0", &set("g0", "type=gtpu options:remote_ip=192.0.2.1"), "no interfaces of type gtpu");
    add("x0", &set("x0", "type=erspan options:remote_ip=192.0.2.1"), "no interfaces of type erspan");
    add("d0", &set("d0", "type=dpdk options:dpdk-devargs=0000:00:01.0"), "no interfaces of type dpdk");
    add("c0", &set("c0", "type=dpdkvhostuserclient"), "options:vhost-server-path=PATH");
    let missing = "type=dpdkvhostuserclient options:vhost-server-path=/";
    add("c1", &set("c1", &format!("{missing}{}", "x".repeat(108))), "109 bytes");
    add("s0", &set("s0", "mtu_request=1500"), "name one that ip link shows");
    let qos = "-- --id=@q create QoS type=linux-htb -- set Port d1 qos=@q";
    add("d1", &set("d1", &format!("type=dpdkvhostuser {qos}")), "ovs-vsctl clear port d1 qos");
    add("m0", &set("m0", "type=dpdkvhostuser mtu_request=70000"), "mtu_request");
    scene.vsctl("add-br br2");
    assert!(scene.columns("br2", "error").contains("ovs-vsctl set bridge br2 datapath_type=netdev"));

    // What is put right is there.
    scene.vsctl("clear Port d1 qos");
    assert_eq!(scene.columns("d1", "ofport error"), "3\n[]\n");
    Guest::running(&one, layouts()[0]);
    scene.switch.end();
}

/// Ports of the command line and of `tautline ctl` are not those of the database, and the other way round.
#[test]
fn ports_of_others_are_left_alone() {
    let scene = Scene::new();
    let one = scene.add_server("one");
    let control = scene.sockets.path("control");
    let ctl = |words: &[&str]| crate::common::Run::new(&["ctl"]).arg(&control).args(words).finish();
    let own = scene.sockets.path("own");
    let added = ctl(&["add", &format!("own=vhost-user:{}", own.display())]);
    assert_eq!(added.code, Some(0), "{added}");
    scene.vsctl(&format!("add-port {BRIDGE} own -- set Interface own type=dpdkvhostuser"));
    assert!(scene.columns("own", "ofport error").contains("'own'"), "{}", scene.columns("own", "error"));
    let ports = "--id=@own get Port own -- --id=@one get Port one";
    let mirror = "--id=@m create Mirror name=m select_src_port=@own output_port=@one";
    scene.vsctl(&format!("{ports} -- {mirror} -- set Bridge {BRIDGE} mirrors=@m"));
    assert_eq!(scene.switch.snapshot()["ports"].as_array().unwrap().len(), 3, "a mirror is a port too");
    scene.vsctl(&format!("clear Bridge {BRIDGE} mirrors -- del-port own"));
    assert!(scene.listens(&own));

    let removed = ctl(&["remove", "one"]);
    assert!(removed.code == Some(1) && removed.stderr.contains("belongs to the database"), "{removed}");
    let file = scene.sockets.path("switch.toml");
    let kept = scene.sockets.path("kept");
    let text = format!("[ports.kept]\nkind = \"vhost-user\"\ntarget = \"{}\"\n", kept.display());
    std::fs::write(&file, text).unwrap();
    let applied = ctl(&["apply", &file.display().to_string()]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert!(scene.listens(&kept) && !scene.listens(&own) && scene.listens(&one));
    scene.switch.end();
}
