//! An arm64 guest on the switch: Debian's kernel for arm64, on an emulated CPU, with one card of each ring layout. The
//! other end is the kernel of a network namespace.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use peers::guest::Port;
use peers::nested::{ArmMachine, ArmSettings};
use peers::netns::TapQueues;
use peers::requirements::is_root;
use peers::{Guest, Netns};

use super::switch::Switch;

const MTU: u16 = 9000;
/// The cards: their ports' names, and whether their rings are packed.
const CARDS: [(&str, bool); 2] = [("split", false), ("packed", true)];

/// The guest has 10.9.N.2, the kernel 10.9.N.1.
fn boot(folder: &Path) -> ArmMachine {
    let cards =
        CARDS.map(|(name, packed)| Port::new(&folder.join(name)).reconnect().packed(packed).host_mtu(MTU));
    let guest = cards.into_iter().fold(ArmSettings::default(), ArmSettings::port).start().unwrap();
    guest.must(
        "set -e
         for interface in all default eth0 eth1; do
             echo 1 >/proc/sys/net/ipv4/conf/$interface/arp_ignore
             echo 1 >/proc/sys/net/ipv6/conf/$interface/disable_ipv6
         done
         for number in 0 1; do
             ip address add 10.9.$number.2/24 dev eth$number && ip link set eth$number up
         done
         mkdir /tmp/www && head -c 3000000 /dev/urandom >/tmp/www/file && httpd -p 80 -h /tmp/www",
    );
    guest
}

/// The driver has the layout, the MTU and the offloads that the card offers (VIRTIO 1.3, 5.1.3 and 6).
fn check_features(guest: &Guest, number: usize, packed: bool) {
    let folder = format!("/sys/class/net/eth{number}");
    let said = guest.must(&format!("cat {folder}/device/features {folder}/mtu"));
    let (bits, mtu) = said.trim().split_once('\n').unwrap();
    let has = |bit: usize| bits.as_bytes().get(bit) == Some(&b'1');
    // VERSION_1; RING_PACKED; MTU; CSUM, GUEST_CSUM, GUEST_TSO4, HOST_TSO4.
    assert_eq!((has(32), has(34), has(3), [0, 1, 7, 11].map(has)), (true, packed, true, [true; 4]), "{said}");
    assert_eq!(mtu, MTU.to_string());
}

/// TCP's payload arrives as it was sent, both ways, and a frame of the whole MTU is answered.
fn exchange(namespace: &Netns, guest: &Guest, number: usize, file: &Path) {
    let whole = format!("ping -c 2 -i 0.1 -W 10 -M do -s {} 10.9.{number}.2", MTU - 28);
    namespace.run(&whole).unwrap().expect_success();
    let of_guest = guest.must("md5sum </tmp/www/file");
    let fetch = format!("busybox wget -q -O - http://10.9.{number}.2/file | md5sum");
    assert_eq!(namespace.run(&fetch).unwrap().expect_success(), of_guest, "from 10.9.{number}.2");
    let of_host = namespace.run(&format!("md5sum <{}", file.display())).unwrap().expect_success();
    let fetched = guest.must(&format!("wget -q -O - http://10.9.{number}.1/file | md5sum"));
    assert_eq!(fetched, of_host, "from 10.9.{number}.1");
}

#[test]
fn an_arm64_guest_with_jumbo_frames_outlives_the_switch() {
    let namespace = if is_root() { Netns::new() } else { Netns::unprivileged() }.unwrap();
    namespace.tap("tap0", TapQueues::One).unwrap();
    namespace.configure("tap0", "10.9.0.1/24").unwrap();
    for line in ["ip address add 10.9.1.1/24 dev tap0", &format!("ip link set tap0 mtu {MTU}")] {
        namespace.run(line).unwrap().expect_success();
    }
    let folder = tempfile::tempdir().unwrap();
    // The switch lives in the namespace, so its owner makes the sockets.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let file = folder.path().join("file");
    let payload: Vec<u8> =
        (0..3_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&file, payload).unwrap();
    let server = format!("busybox httpd -f -p 80 -h {}", folder.path().display());
    let _server = namespace.start(&server).unwrap();
    let mut ports = vec!["--port=kernel=tap:tap0".to_owned()];
    for (name, _) in CARDS {
        ports.push(format!("--port={name}=vhost-user:{}", folder.path().join(name).display()));
    }
    let start = Instant::now();
    let switch = Switch::start_in(&namespace, &ports);
    let guest = boot(folder.path());
    println!("up after {:?}", start.elapsed());
    for (number, (_, packed)) in CARDS.into_iter().enumerate() {
        check_features(&guest, number, packed);
        exchange(&namespace, &guest, number, &file);
    }
    println!("exchanged after {:?}", start.elapsed());
    switch.crash();
    let switch = Switch::start_in(&namespace, &ports);
    for number in 0..CARDS.len() {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !namespace.run(&format!("ping -c 1 -W 1 10.9.{number}.2")).unwrap().success() {
            assert!(
                Instant::now() < deadline,
                "no answer of 10.9.{number}.2 through the switch that was started again"
            );
        }
        exchange(&namespace, &guest, number, &file);
    }
    println!("exchanged again after {:?}", start.elapsed());
    let counters = switch.end();
    counters.check(&["receiver not connected"]);
    for (name, packed) in CARDS {
        let port = counters.port(name);
        assert!(port.description.contains(if packed { "packed" } else { "split" }), "{port:?}");
        let means = [true, false].map(|from_guest| port.mean_bytes(from_guest));
        println!("{name}: mean frame {means:.0?} bytes");
        // Each direction carries acknowledgements too.
        assert!(means.iter().all(|mean| *mean > 2000.0), "{port:#?}");
    }
}
