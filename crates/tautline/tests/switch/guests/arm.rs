//! An arm64 guest on the switch: Debian's kernel for arm64, on an emulated CPU, with one card of each ring layout. The
//! other end is the kernel of a network namespace.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use peers::guest::{Movable, Port};
use peers::nested::ArmSettings;
use peers::netns::{Background, TapQueues};
use peers::requirements::is_root;
use peers::{Guest, Netns};

use super::switch::Switch;

const MTU: u16 = 9000;
/// The cards: their ports' names, and whether their rings are packed.
const CARDS: [(&str, bool); 2] = [("split", false), ("packed", true)];

/// What is added to the name of a card's port for the port to which the card moves.
const MOVED: &str = "-moved";
/// The guest's file comes from here in small pieces until the guest has moved, and then the rest of it.
const SLOWLY: &str = r#"#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
piece=0
until [ -e /tmp/moved ] || [ $piece = 2900 ]; do
    dd if=/tmp/www/file bs=1000 skip=$piece count=1 2>/dev/null
    piece=$((piece + 1))
    usleep 20000
done
dd if=/tmp/www/file bs=1000 skip=$piece 2>/dev/null
"#;

/// The cards on the ports whose names have this addition.
fn cards(folder: &Path, addition: &str) -> [Port; 2] {
    CARDS.map(|(name, packed)| {
        Port::new(&folder.join(format!("{name}{addition}"))).reconnect().packed(packed).host_mtu(MTU)
    })
}

/// The guest has 10.9.N.2, the kernel 10.9.N.1.
fn boot(folder: &Path) -> Movable {
    let settings = cards(folder, "").into_iter().fold(ArmSettings::default(), ArmSettings::port);
    let movable = settings.start_movable().unwrap();
    movable.guest.must(
        "set -e
         for interface in all default eth0 eth1; do
             echo 1 >/proc/sys/net/ipv4/conf/$interface/arp_ignore
             echo 1 >/proc/sys/net/ipv6/conf/$interface/disable_ipv6
         done
         for number in 0 1; do
             ip address add 10.9.$number.2/24 dev eth$number && ip link set eth$number up
         done
         mkdir -p /tmp/www/cgi-bin && head -c 3000000 /dev/urandom >/tmp/www/file && httpd -p 80 -h /tmp/www",
    );
    movable.guest.must(&format!(
        "cat >/tmp/www/cgi-bin/slowly <<'end' && chmod +x /tmp/www/cgi-bin/slowly\n{SLOWLY}end"
    ));
    movable
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

/// The guest moves to another QEMU, whose cards are on other ports of the switch, while the kernel fetches a file.
fn migrate(namespace: &Netns, movable: &mut Movable, folder: &Path) {
    let fetched = folder.join("fetched");
    let fetch = format!("busybox wget -q -O {} http://10.9.0.2/cgi-bin/slowly", fetched.display());
    let mut fetch = namespace.start(&fetch).unwrap();
    let bytes = || std::fs::metadata(&fetched).map_or(0, |file| file.len());
    let deadline = Instant::now() + Duration::from_secs(60);
    while bytes() == 0 {
        assert!(Instant::now() < deadline && fetch.runs(), "nothing was fetched: {}", fetch.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = bytes();
    let migration = movable.migrate(&cards(folder, MOVED)).unwrap();
    let moved = bytes();
    assert!(fetch.runs(), "the fetch did not outlive the migration: {moved} bytes, {}", fetch.said());
    movable.guest.must("touch /tmp/moved");
    let ended = fetch.end(Duration::from_secs(120));
    assert!(
        ended.as_ref().is_ok_and(|code| *code == 0),
        "{ended:?} after {} bytes: {}",
        bytes(),
        fetch.said()
    );
    println!(
        "migrated: QEMU's downtime {:?} of {:?} in {} passes; of the file {before} bytes before and {moved} after",
        migration.downtime, migration.total, migration.passes
    );
    let of_guest = movable.guest.must("md5sum </tmp/www/file");
    let sum = namespace.run(&format!("md5sum <{}", fetched.display())).unwrap().expect_success();
    assert_eq!(sum, of_guest, "fetched while the guest migrated");
}

/// The numbers of the answers to a ping, in the order in which they came.
fn answers(pings: &Background) -> Vec<u32> {
    let said = pings.said();
    assert!(!said.contains("DUP!"), "an answer came twice: {said}");
    let number = |line: &str| line.split("icmp_seq=").nth(1)?.split_whitespace().next()?.parse().ok();
    said.lines().filter(|line| line.contains("bytes from")).filter_map(number).collect()
}

/// The switch is killed while both cards have traffic, and started again. Only what was under way at the kill, and what
/// was sent until the cards were back, is lost.
fn kill(namespace: &Netns, switch: Switch, ports: &[String]) -> Switch {
    let both = CARDS.map(|(name, _)| name).into_iter().enumerate();
    let mut pings: Vec<_> = both
        .map(|(number, name)| (name, namespace.start(&format!("ping -i 0.02 10.9.{number}.2")).unwrap()))
        .collect();
    let mut until = |what: &str, wanted: &[usize; 2]| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while pings.iter().zip(wanted).any(|((_, pings), wanted)| answers(pings).len() < *wanted) {
            for (name, pings) in &mut pings {
                assert!(pings.runs() && Instant::now() < deadline, "{name}, {what}: {}", pings.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        [0, 1].map(|card| answers(&pings[card].1))
    };
    until("before the kill", &[20; 2]);
    switch.crash();
    let before = until("at the kill", &[0; 2]);
    let switch = Switch::start_in(namespace, ports);
    let after = until("after the kill", &[0, 1].map(|card: usize| before[card].len() + 50));
    for ((name, packed), (before, after)) in CARDS.into_iter().zip(before.iter().zip(&after)) {
        let last = *after.iter().max().unwrap();
        let lost: Vec<u32> = (1..=last).filter(|number| !after.contains(number)).collect();
        println!("{name}: killed after {} answers; {} of {last} lost: {lost:?}", before.len(), lost.len());
        let (under_way, back) = (before.len() as u32 - 10, after[after.len() - 20]);
        assert!(
            lost.iter().all(|lost| (under_way..back).contains(lost)),
            "packed {packed}: {lost:?} are lost, killed after {before:?}, then {after:?}"
        );
    }
    switch
}

#[test]
fn an_arm64_guest_with_jumbo_frames_outlives_the_switch_and_migrates() {
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
    for name in CARDS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("{name}{MOVED}")]) {
        let socket = folder.path().join(&name);
        ports.push(format!("--port={name}=vhost-user:{}", socket.display()));
    }
    let start = Instant::now();
    let switch = Switch::start_in(&namespace, &ports);
    let mut movable = boot(folder.path());
    println!("up after {:?}", start.elapsed());
    for (number, (_, packed)) in CARDS.into_iter().enumerate() {
        check_features(&movable.guest, number, packed);
        exchange(&namespace, &movable.guest, number, &file);
    }
    println!("exchanged after {:?}", start.elapsed());
    let switch = kill(&namespace, switch, &ports);
    for number in 0..CARDS.len() {
        exchange(&namespace, &movable.guest, number, &file);
    }
    println!("exchanged again after {:?}", start.elapsed());
    migrate(&namespace, &mut movable, folder.path());
    for (number, (_, packed)) in CARDS.into_iter().enumerate() {
        check_features(&movable.guest, number, packed);
        exchange(&namespace, &movable.guest, number, &file);
    }
    println!("migrated and exchanged after {:?}", start.elapsed());
    let counters = switch.end();
    counters.check(&["receiver not connected"]);
    let all = CARDS
        .iter()
        .flat_map(|(name, packed)| [((*name).to_owned(), packed), (format!("{name}{MOVED}"), packed)]);
    for (name, &packed) in all {
        let port = counters.port(&name);
        assert!(port.description.contains(if packed { "packed" } else { "split" }), "{port:?}");
        let means = [true, false].map(|from_guest| port.mean_bytes(from_guest));
        println!("{name}: mean frame {means:.0?} bytes");
        // Each direction carries acknowledgements too.
        assert!(means.iter().all(|mean| *mean > 2000.0), "{port:#?}");
    }
}
