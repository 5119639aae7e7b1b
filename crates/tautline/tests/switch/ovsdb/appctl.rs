//! `ovs-appctl` asks the switch, and clients that ask badly.
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::vlans::{Stations, frame};
use super::{BRIDGE, Scene};
use crate::switch_process::{Sockets, SwitchProcess, dropped, wait_for};

impl Scene {
    fn folder(&self) -> PathBuf {
        self.database.socket().parent().unwrap().to_owned()
    }

    /// The socket to which the pidfile leads.
    fn unixctl(&self) -> PathBuf {
        let process = std::fs::read_to_string(self.folder().join("ovs-vswitchd.pid")).unwrap();
        self.folder().join(format!("ovs-vswitchd.{}.ctl", process.trim()))
    }

    /// What `ovs-appctl` prints when it fails.
    fn refused(&self, words: &str) -> String {
        self.database.appctl(&words.split(' ').collect::<Vec<_>>()).unwrap_err().to_string()
    }
}

#[test]
fn ovs_appctl_shows_ports_counters_and_events() {
    let scene = Scene::new();
    let mut ends = scene.add_ends();
    ends.exchange(2000.0, Duration::from_millis(200));
    let hellos = ends.hellos();
    assert_eq!(ends.account(|| dropped(&scene.switch.snapshot()) - hellos), 0);
    assert!(scene.appctl("version").starts_with("ovs-vswitchd (Tautline) "));
    let commands = scene.appctl("list-commands");
    for name in ["exit", "dpctl/show", "coverage/show", "vlog/reopen"] {
        assert!(commands.contains(&format!("  {name:<23} ")), "{commands}");
    }
    let wanted = format!(
        "netdev@ovs-netdev:\n  lookups: hit:{} missed:0 lost:0\n  flows: 0\n  port 65534: {BRIDGE} (internal)\n  \
         port 1: one (dpdkvhostuser)\n  port 2: two (dpdkvhostuserclient)\n",
        ends.sent().iter().sum::<u64>() + hellos
    );
    assert_eq!(scene.appctl("dpctl/show"), wanted);
    let counted = scene.appctl("dpctl/show -s netdev@ovs-netdev");
    let from_one = ends.sent()[0] + hellos / 2;
    assert!(
        counted.contains(&format!("port 1: one (dpdkvhostuser)\n    RX packets:{from_one} ")),
        "{counted}"
    );
    let bridges = scene.appctl("dpif/show");
    assert!(
        bridges.contains(&format!("  {BRIDGE}:\n    {BRIDGE} 65534/65534: (internal)\n    one 1/1: ")),
        "{bridges}"
    );
    assert_eq!(scene.appctl("ofproto/list"), format!("{BRIDGE}\n"));
    let table = scene.appctl(&format!("fdb/stats-show {BRIDGE}"));
    assert!(table.contains("Current/maximum MAC entries in the table: 2/4096\n"), "{table}");
    let received = scene.appctl("coverage/read-counter netdev_received");
    let events = scene.appctl("coverage/show");
    assert!(
        events.contains(&format!("  total: {received}")) && events.contains("mac_learning_learned "),
        "{events}"
    );
    assert_eq!(scene.appctl("memory/show"), "mac-entries:2 ports:3 workers:1\n");
    assert_eq!(scene.appctl("vlog/reopen"), "");
    // Commands about parts that the switch does not have.
    for words in [
        "dpctl/dump-flows -m --names netdev@ovs-netdev type=ovs",
        "dpif/dump-flows br0",
        "cfm/show",
        "bfd/show",
    ] {
        assert_eq!(scene.appctl(words), "", "{words}");
    }
    assert!(scene.refused("dpctl/dump-flows system@ovs-system").contains("netdev@ovs-netdev"));
    assert!(scene.refused("dpif/dump-flows other").contains("no such bridge"));
    assert!(scene.appctl("upcall/show").contains("  flows         : (current 0) "));
    let features = scene.appctl(&format!("dpif/show-dp-features {BRIDGE}"));
    assert!(features.contains("CT state NAT: Yes\n"), "{features}");
    let work = scene.appctl("dpif-netdev/pmd-stats-show");
    assert!(work.starts_with("pmd thread numa_id 0 core_id 0:\n  packets received: "), "{work}");
    let queues = scene.appctl("dpif-netdev/pmd-rxq-show");
    assert!(queues.contains("pmd thread numa_id 0 core_id 0:\n  isolated : false\n  port: br0 "), "{queues}");
    assert!(queues.contains("\n  port: one               queue-id:  0 (enabled)   pmd usage: "), "{queues}");
    let work = scene.appctl("dpif-netdev/pmd-perf-show");
    let frames = format!("  Rx packets:         {:>12}  (", ends.sent().iter().sum::<u64>() + hellos);
    assert!(work.contains(&frames) && work.contains("  - busy iterations: "), "{frames}{work}");
    for (words, said) in [
        ("fdb/stats-show other", "no such bridge"),
        ("coverage/read-counter x", "no such counter"),
        ("fdb/stats-show", "requires at least 1 arguments"),
        ("version 1", "takes at most 0 arguments"),
        ("ofproto/tnl-push-pop on", "not a valid command"),
        ("vlog/set dbg", "journalctl"),
    ] {
        let error = scene.refused(words);
        assert!(error.contains(said), "{words}: {error}");
    }
    scene.switch.end();
}

/// A station that is known gets its frames alone; one that was flushed is flooded to until it speaks again.
#[test]
fn ovs_appctl_shows_and_flushes_addresses() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b", "c"]);
    let [a, b, c] = [0, 1, 2];
    scene.vsctl("set Port a tag=10 -- set Port b tag=10");
    let of_vlan: &[(u16, u16)] = &[(0x8100, 10)];
    stations.send(a, &[], &[(b, &[]), (c, of_vlan)]);
    stations.send(b, &[], &[(a, &[]), (c, of_vlan)]);
    stations.send(c, of_vlan, &[(a, &[]), (b, &[])]);
    let shown = || {
        let said = scene.appctl(&format!("fdb/show {BRIDGE}"));
        let (head, rows) = said.split_once('\n').unwrap();
        assert_eq!(head, " port  VLAN  MAC                Age");
        let row = |row: &str| {
            let (station, age) = row.rsplit_once(' ').unwrap();
            assert!(age.parse::<u32>().unwrap() < 60, "{row}");
            station.trim_end().to_owned()
        };
        let mut rows: Vec<String> = rows.lines().map(row).collect();
        rows.sort_unstable();
        rows
    };
    let all = [1, 2, 3].map(|port| format!("    {port}    10  02:00:00:00:00:0{}", port - 1));
    assert_eq!(shown(), all);

    let mut to_b = frame(a as u8, &[]);
    to_b[..6].copy_from_slice(&[2, 0, 0, 0, 0, b as u8]);
    stations.0[a].send(&to_b);
    assert_eq!(stations.0[b].receive(), to_b);
    assert_eq!(scene.appctl(&format!("fdb/flush {BRIDGE}")), "table successfully flushed\n");
    assert_eq!(shown().len(), 0);
    // Another frame than the one before, which went to its station alone.
    *to_b.last_mut().unwrap() ^= 1;
    stations.0[a].send(&to_b);
    assert_eq!(stations.0[b].receive(), to_b);
    assert_eq!(stations.0[c].receive(), [&to_b[..12], &[0x81, 0, 0, 10], &to_b[12..]].concat());
    assert_eq!(shown(), all[..1]);
    assert_eq!(scene.appctl("fdb/flush"), "table successfully flushed\n");
    assert_eq!(shown().len(), 0);
    for words in ["fdb/show other", "fdb/flush other", "fdb/add other a 10 02:00:00:00:00:77"] {
        assert!(scene.refused(words).contains("no such bridge"), "{words}");
    }

    // A station that is held is where it was put, whatever frames say, and stays after a flush.
    let held = "02:00:00:00:00:77";
    scene.appctl(&format!("fdb/add {BRIDGE} b 10 {held}"));
    let row = format!("    2    10  {held}  static");
    let has_it = || scene.appctl(&format!("fdb/show {BRIDGE}")).lines().any(|line| line == row);
    assert!(has_it(), "{}", scene.appctl(&format!("fdb/show {BRIDGE}")));
    scene.appctl("fdb/flush");
    assert!(has_it());
    assert!(
        scene.appctl(&format!("fdb/stats-show {BRIDGE}")).contains("static MAC entries in the table : 1\n")
    );
    let mut to_held = to_b.clone();
    to_held[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
    stations.0[a].send(&to_held);
    assert_eq!(stations.0[b].receive(), to_held);
    let mut claim = frame(c as u8, of_vlan);
    claim[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x77]);
    stations.0[c].send(&claim);
    stations.send(c, of_vlan, &[(a, &[]), (b, &[])]);
    scene.appctl(&format!("fdb/del {BRIDGE} 10 {held}"));
    assert!(!scene.appctl(&format!("fdb/show {BRIDGE}")).contains(held));
    for (words, said) in
        [("x 10 02:00:00:00:00:77", "no such port"), ("a 10 ff:ff:ff:ff:ff:ff", "one station")]
    {
        assert!(scene.refused(&format!("fdb/add {BRIDGE} {words}")).contains(said), "{words}");
    }
    scene.switch.end();
}

/// Clients that say nothing, the beginning of something, or what is no request; and one that takes no answer.
#[test]
fn clients_that_ask_badly_hold_up_no_other() {
    let scene = Scene::new();
    scene.add_server("one");
    let path = scene.unixctl();
    let connect = || UnixStream::connect(&path).unwrap();
    let silent: Vec<UnixStream> = (0..64).map(|_| connect()).collect();
    assert!(scene.appctl("version").contains("Tautline"));
    for bytes in [
        "{\"id\":1,\"method\":\"ver",
        "[]",
        "\0\u{1}",
        "{\"id\":null,\"result\":1}",
        "{\"id\":[[[[[[[[[1",
        "{} {}",
    ] {
        let mut client = connect();
        client.write_all(bytes.as_bytes()).unwrap();
        assert!(scene.appctl("version").contains("Tautline"), "{bytes}");
    }
    // Arguments that are no strings are refused, and the next request of the client is answered.
    let mut client = connect();
    client.write_all(b"{\"id\":1,\"method\":\"version\",\"params\":[1]}{\"id\":2,\"method\":\"version\",\"params\":[]}").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut said = String::new();
    while !said.contains("\"id\":2") {
        let mut bytes = [0; 512];
        let count = client.read(&mut bytes).unwrap();
        assert!(count > 0, "{said}");
        said += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    assert!(said.contains("are strings") && said.contains("Tautline"), "{said}");
    // A request longer than any, and requests whose answers are not taken.
    let mut long = connect();
    let _ = long.write_all("{\"id\":1,\"method\":\"".as_bytes());
    long.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    let chunk = [b'x'; 4096];
    assert!((0..64).any(|_| long.write_all(&chunk).is_err()), "256 KiB of one request were taken");
    let mut deaf = connect();
    deaf.set_nonblocking(true).unwrap();
    let request = "{\"id\":1,\"method\":\"list-commands\",\"params\":[]}".repeat(100);
    let deadline = Instant::now() + Duration::from_secs(5);
    while deaf.write(request.as_bytes()).is_ok() {
        assert!(Instant::now() < deadline, "requests are taken without end");
    }
    assert!(scene.appctl("version").contains("Tautline"));
    drop((silent, deaf, long));
    scene.switch.end();
}

/// `exit` ends the switch in order, with nothing left; what a killed switch has left is replaced.
#[test]
fn exit_leaves_nothing_and_what_a_kill_leaves_is_replaced() {
    let mut scene = Scene::new();
    scene.add_server("one");
    let own = |scene: &Scene| -> Vec<String> {
        let entries = std::fs::read_dir(scene.folder()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("ovs-vswitchd.")).collect();
        names.sort_unstable();
        names
    };
    let names = |process: u32| [format!("ovs-vswitchd.{process}.ctl"), "ovs-vswitchd.pid".to_owned()];
    assert_eq!(own(&scene), names(scene.switch.id()));
    // A second switch leaves the first its files.
    let second = scene.start(&Sockets::new());
    wait_for("what is in the way", || {
        second.logged().iter().any(|line| line.contains("is held by process")).then_some(())
    });
    second.end();
    assert_eq!(own(&scene), names(scene.switch.id()));

    let idle = std::mem::replace(&mut scene.switch, SwitchProcess::begin(&["--help".to_owned()]));
    let left = names(idle.id());
    idle.kill();
    assert_eq!(own(&scene), left);
    scene.switch = scene.start(&scene.sockets);
    assert_eq!(own(&scene), names(scene.switch.id()));
    assert!(scene.appctl("version").contains("Tautline"));
    assert_eq!(scene.appctl("exit --cleanup"), "");
    scene.switch.ended();
    assert!(scene.database.socket().exists());
}
