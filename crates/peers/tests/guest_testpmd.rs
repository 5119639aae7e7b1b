//! One guest with two ports on one testpmd that forwards between them: the harness with both real ends.

use std::time::{Duration, Instant};

use peers::guest::{Port, Settings};
use peers::testpmd::Vdev;
use peers::{Guest, Testpmd, bytes_received};

/// The second interface goes to a network namespace of the guest, so that packets take the way outside.
fn configure(guest: &Guest) {
    guest.must(
        "ip address add 10.2.0.1/24 dev eth0 && ip link set eth0 up
         ip netns add far && ip link set eth1 netns far
         ip -n far address add 10.2.0.2/24 dev eth1 && ip -n far link set eth1 up",
    );
}

fn ping(guest: &Guest) {
    guest.must("ping -c 3 -i 0.2 -W 10 10.2.0.2");
}

/// Both directions; the payload received in each, bytes.
fn iperf3(guest: &Guest) -> [u64; 2] {
    guest.must("ip netns exec far iperf3 --server --daemon --pidfile /tmp/iperf3");
    ["", "--reverse"].map(|direction| {
        let report = guest.must(&format!("iperf3 --client 10.2.0.2 --time 2 --json {direction}"));
        bytes_received(&report).unwrap_or_else(|| panic!("{report}"))
    })
}

#[test]
fn a_guest_talks_to_itself_through_testpmd() {
    let start = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let mut testpmd = Testpmd::with_ports(sockets.iter().map(|path| Vdev::vhost(path))).unwrap();
    testpmd.start_forwarding().unwrap();
    // One plain port, and one as far from it as can be. testpmd passes the header's offloads on to no one,
    // so the guest finishes its packets.
    let plain = Port::new(&sockets[0]).offloads(false);
    let other = Port::new(&sockets[1]).offloads(false).packed(true).mergeable(false);
    let guest = Guest::with_ports([plain, other.queue_sizes(1024, 256).mac("02:00:00:00:00:77")]).unwrap();
    println!("up after {:?}", start.elapsed());
    configure(&guest);
    let features = |namespace: &str, interface: &str| {
        let text = guest.must(&format!("{namespace} cat /sys/class/net/{interface}/device/features"));
        text.trim().chars().map(|bit| bit == '1').collect::<Vec<_>>()
    };
    // VIRTIO 1.3: 34 is RING_PACKED, 15 MRG_RXBUF, 0 CSUM.
    let (plain, other) = (features("", "eth0"), features("ip netns exec far", "eth1"));
    assert_eq!([plain[34], plain[15], plain[0]], [false, true, false]);
    assert_eq!([other[34], other[15], other[0]], [true, false, false]);
    let address = guest.must("ip netns exec far cat /sys/class/net/eth1/address");
    assert_eq!(address.trim(), "02:00:00:00:00:77");
    ping(&guest);
    let bytes = iperf3(&guest);
    println!("iperf3 moved {bytes:?} bytes");
    assert!(bytes.iter().all(|bytes| *bytes > 1_000_000), "{bytes:?}");
    let stats = testpmd.stats(1).unwrap();
    assert!(stats.rx_bytes > bytes[1] && stats.tx_bytes > bytes[0], "{stats:?} {bytes:?}");
    println!("done after {:?}", start.elapsed());
}

#[test]
fn queue_pairs_mtu_and_reconnect() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a");
    let start = || {
        let settings = peers::testpmd::Settings::default().port(Vdev::vhost(&socket).queue_pairs(2));
        let mut testpmd = settings.queue_pairs(2).start().unwrap();
        testpmd.set_forward(peers::testpmd::Forward::RxOnly).unwrap();
        testpmd.start_forwarding().unwrap();
        testpmd
    };
    let testpmd = start();
    let port = Port::new(&socket).reconnect().queue_pairs(2).host_mtu(9000);
    let guest = Settings::default().size(2, 256).port(port).start().unwrap();
    assert_eq!(guest.must("cat /sys/class/net/eth0/mtu").trim(), "9000");
    assert_eq!(guest.must("ls -d /sys/class/net/eth0/queues/rx-*").lines().count(), 2);
    assert!(guest.must("ethtool -l eth0").contains("Combined:\t2"));
    guest.must("ip address add 10.2.0.1/24 dev eth0 && ip link set eth0 up");
    // Killed, and another in its place: QEMU connects again, and the guest's packets arrive.
    testpmd.kill();
    std::fs::remove_file(&socket).unwrap();
    let mut testpmd = start();
    testpmd.wait_for_link(0).unwrap();
    let _ = guest.begin("while :; do ping -c 1 -W 1 10.2.0.2; done", Duration::from_secs(60)).unwrap();
    testpmd.wait_for_stats(0, Duration::from_secs(30), |stats| stats.rx_packets > 0).unwrap();
}
