//! A stock guest moves from one QEMU to another, between two ports of one switch, while it is pinged and a TCP stream
//! goes both ways.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use peers::guest::{Movable, Port, Settings};
use peers::netns::TapQueues;
use peers::requirements::is_root;
use peers::{Netns, bytes_received};

use super::switch::Switch;

/// For how long the traffic flows before the guest moves.
const MOVED_AFTER: Duration = Duration::from_secs(1);
/// Between two pings.
const INTERVAL: Duration = Duration::from_millis(10);
/// What the switch and the guest's kernel may take beyond QEMU's own downtime: the new port's rings, the
/// announcement, the first answer. An emulated guest on a busy machine takes some tenths of a second.
const BEYOND_DOWNTIME: Duration = Duration::from_secs(2);
/// Pings that the guest answers too late to tell from lost ones, before and after the blackout.
const AT_THE_EDGES: u64 = 2;

#[test]
fn a_guest_with_split_rings_migrates() {
    migrates(false);
}

#[test]
fn a_guest_with_packed_rings_migrates() {
    migrates(true);
}

/// A tenth of what is asked for, as with all rounds of a stock guest, or one.
fn rounds() -> usize {
    std::env::var("TAUTLINE_RECOVERY_ROUNDS")
        .map_or(1, |rounds| rounds.parse::<usize>().unwrap().div_ceil(10))
}

fn migrates(packed: bool) {
    let namespace = if is_root() { Netns::new() } else { Netns::unprivileged() }.unwrap();
    namespace.tap("tap0", TapQueues::One).unwrap();
    namespace.configure("tap0", "10.9.0.1/24").unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The switch lives in the namespace, so its owner makes the sockets.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let places = ["left", "right"].map(|name| folder.path().join(name));
    let control = folder.path().join("control");
    let mut arguments = vec!["--port=kernel=tap:tap0".to_owned(), format!("--control={}", control.display())];
    arguments.extend(
        ["left", "right"]
            .iter()
            .zip(&places)
            .map(|(name, place)| format!("--port={name}=vhost-user:{}", place.display())),
    );
    let switch = Switch::start_in(&namespace, &arguments);
    // The guest sums what it receives itself: a page that was not copied again shows.
    let port = |place: usize| Port::new(&places[place]).reconnect().packed(packed).offloads(false);
    let mut movable = Movable::start(Settings::default().port(port(0))).unwrap();
    movable.guest.must(
        "ip address add 10.9.0.2/24 dev eth0 && ip link set eth0 up && iperf3 --server --daemon --pidfile /tmp/pid
         until grep -q ':1451 ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done",
    );
    namespace.run("ping -c 3 -i 0.2 -W 10 10.9.0.2").unwrap().expect_success();
    let mut gaps = Vec::new();
    for round in 1..=rounds() {
        let interval = INTERVAL.as_secs_f64();
        let ping = namespace.start(&format!("ping -D -i {interval} 10.9.0.2")).unwrap();
        let stream = "iperf3 --client 10.9.0.2 --bidir --bitrate 20M --time 4 --interval 0.5 --json";
        let mut stream = namespace.start(stream).unwrap();
        std::thread::sleep(MOVED_AFTER);
        let migration = movable.migrate(&[port(round % 2)]).unwrap();
        println!(
            "packed {packed}, {round}: QEMU's downtime {:?} of {:?} in {} passes",
            migration.downtime, migration.total, migration.passes
        );
        let standing = || standing(&namespace, &movable, &control, &ping.said(), &switch.said());
        let ended = stream.end(Duration::from_secs(60));
        assert!(ended.as_ref().is_ok_and(|code| *code == 0), "{ended:?}: {}\n{}", stream.said(), standing());
        // What it wrote last may come after its end.
        stream.wait_for("\n}", Duration::from_secs(10)).unwrap();
        let said = stream.said();
        assert!(bytes_received(&said).is_some_and(|bytes| bytes > super::ENOUGH), "{said}\n{}", standing());
        let answers = answers(&ping.said());
        let gaps_between = |pair: &[(Duration, u32)]| pair[1].0.saturating_sub(pair[0].0);
        let gap = answers.windows(2).map(gaps_between).max().unwrap();
        // As others use the machine: the longest gap before anything moved.
        let before = answers.iter().take_while(|(time, _)| *time < answers[0].0 + MOVED_AFTER);
        let usual: Vec<(Duration, u32)> = before.copied().collect();
        let usual = usual.windows(2).map(gaps_between).max().unwrap_or_default();
        let lost = answers.windows(2).map(|pair| u64::from(pair[1].1 - pair[0].1 - 1)).sum::<u64>();
        println!(
            "packed {packed}, {round}: no answer for {gap:?}, {lost} of {} pings lost",
            answers.last().unwrap().1,
        );
        let most = migration.downtime + usual + BEYOND_DOWNTIME;
        assert!(gap < most, "no answer for {gap:?}, {most:?} at most\n{}", standing());
        // Frames are lost only while no host answers.
        let sent_in_gap = gap.as_millis() as u64 / INTERVAL.as_millis() as u64;
        let most = sent_in_gap + AT_THE_EDGES;
        assert!(lost <= most, "{lost} pings lost, {most} at most\n{}", standing());
        gaps.push(gap);
        assert_eq!(wrong_sums(&movable.guest.must("cat /proc/net/snmp")), 0, "segments with a wrong sum");
    }
    gaps.sort_unstable();
    println!(
        "packed {packed}: no answer for {:?} (median of {}, emulated)",
        gaps[gaps.len() / 2],
        gaps.len()
    );
    switch.end();
}

/// What there is to say of a stream that stands: the last pings, both ends' sockets, the guest's interrupts, the rings.
fn standing(namespace: &Netns, movable: &Movable, control: &Path, pings: &str, switch: &str) -> String {
    let last_pings: Vec<&str> = pings.lines().rev().take(5).collect();
    let rings = format!("{} ctl {} rings", env!("CARGO_BIN_EXE_tautline"), control.display());
    let [sockets, rings] = ["ss -tinp", &rings].map(|line| format!("{:?}", namespace.run(line)));
    let guest = movable.guest.run("cat /proc/net/tcp /proc/interrupts; ip -s link");
    let console = movable.guest.console();
    format!("{last_pings:#?}\n{sockets}\n{rings}\n{guest:?}\nQEMU: {console}\nswitch: {switch}")
        .replace("\\n", "\n")
}

/// When each answer came, and to which ping, in its order.
fn answers(said: &str) -> Vec<(Duration, u32)> {
    let answer = |line: &str| {
        let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
        let number = rest.split_once("icmp_seq=")?.1.split(' ').next()?;
        Some((Duration::from_secs_f64(time.parse().ok()?), number.parse().ok()?))
    };
    // The last line may be there in part.
    let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let found: Vec<(Duration, u32)> = whole.lines().filter_map(answer).collect();
    assert!(found.windows(2).all(|pair| pair[1].1 > pair[0].1), "an answer came twice or late: {said}");
    found
}

/// TCP segments whose sum was wrong, as Linux counts them: a line of names, and one of numbers.
fn wrong_sums(snmp: &str) -> u64 {
    let lines: Vec<Vec<&str>> =
        snmp.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split(' ').collect()).collect();
    let place = lines[0].iter().position(|name| *name == "InCsumErrors").unwrap();
    lines[1][place].parse().unwrap()
}
