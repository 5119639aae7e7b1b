//! Two kernels talking through two TAPs.
use std::io::{BufRead, BufReader};

use frame::{Counts, Side};
use port::Port;
use port::tap::Tap;

use crate::frames::open;
use crate::namespace::{Background, Namespace};
use crate::relay::Relay;

/// Two namespaces, 10.0.0.1 and 10.0.0.2, joined through a TAP in each.
struct Joined {
    relay: Relay,
    taps: [Tap; 2],
    left: Namespace,
    right: Namespace,
}

fn join(options: &str) -> Joined {
    join_different(options, options)
}

fn join_different(options_left: &str, options_right: &str) -> Joined {
    let (left, right) = (Namespace::new(), Namespace::new());
    let (tap_left, board_left) = open(&left, &format!("t0,address=10.0.0.1/24{options_left}"));
    let (tap_right, board_right) = open(&right, &format!("t0,address=10.0.0.2/24{options_right}"));
    for (namespace, last) in [(&left, 1), (&right, 2)] {
        namespace.sh(&format!("ip address add fd00::{last}/64 dev t0 nodad"));
    }
    Joined { relay: Relay::between(board_left, board_right), taps: [tap_left, tap_right], left, right }
}

impl Joined {
    /// A server in the right namespace that takes one client.
    fn serve(&self) -> Background {
        let mut server = self.right.start("iperf3", &["--server", "--one-off", "--forceflush"]);
        let out = BufReader::new(server.0.stdout.take().unwrap());
        let mut lines = out.lines();
        assert!(lines.any(|line| line.unwrap().contains("Server listening")), "iperf3 does not serve");
        // The rest is read so that the server can write it.
        std::thread::spawn(move || lines.for_each(drop));
        server
    }

    /// The client's report in JSON.
    fn iperf3(&self, arguments: &str) -> String {
        let _server = self.serve();
        self.left.sh(&format!("timeout 60 iperf3 --json --time 1 {arguments}"))
    }

    /// Frames and bytes that each kernel was given.
    fn given(&self) -> [(u64, u64); 2] {
        [0, 1].map(|which| {
            let counts = counts(&self.taps[which], Side::ToGuest);
            (counts.iter().map(|c| c.frames).sum(), counts.iter().map(|c| c.bytes).sum())
        })
    }

    /// All drops, of both ports and both ways.
    fn dropped(&self) -> u64 {
        let sides = [Side::ToGuest, Side::FromGuest];
        let all = self.taps.iter().flat_map(|tap| sides.map(|side| counts(tap, side)));
        all.flatten().map(|counts| counts.dropped()).sum()
    }
}

fn counts(tap: &Tap, side: Side) -> Vec<Counts> {
    (0..tap.queue_pairs()).map(|pair| tap.counters(pair, side).unwrap().counts()).collect()
}

/// What iperf3 says that the receiver got, in bytes.
fn received(report: &str) -> u64 {
    let sum = report.split("\"sum_received\"").nth(1).unwrap_or_else(|| panic!("{report}"));
    let bytes = sum.split("\"bytes\":").nth(1).unwrap().trim_start();
    bytes.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn ping_goes_through_at_all_sizes() {
    let joined = join("");
    joined.left.sh("ping -c 3 -i 0.2 -W 10 10.0.0.2");
    joined.left.sh("ping -c 3 -i 0.2 -W 10 fd00::2");
    // Fragments.
    joined.left.sh("ping -c 2 -i 0.2 -W 10 -s 65000 10.0.0.2");
    let described = joined.taps[0].describe();
    assert!(described.contains("t0") && described.contains("TSO"), "{described}");
}

#[test]
fn tcp_goes_through_uncut_both_ways_with_either_ip() {
    let joined = join("");
    for arguments in ["--client 10.0.0.2", "--client 10.0.0.2 --reverse", "--client fd00::2"] {
        let before = joined.given();
        let bytes = received(&joined.iperf3(arguments));
        let after = joined.given();
        assert!(bytes > 1_000_000, "{arguments}: {bytes} bytes");
        // One way is data, the other acknowledgements. Cut segments have 1514 bytes at most.
        let mean = |which: usize| (after[which].1 - before[which].1) / (after[which].0 - before[which].0);
        let mean = mean(0).max(mean(1));
        assert!(mean > 3000, "{arguments}: frames of {mean} bytes on average are not TSO");
    }
    assert_eq!(joined.dropped(), 0, "drops");
}

#[test]
fn tcp_goes_through_without_offloads_and_with_jumbo_frames() {
    for options in ["", ",mtu=9000"] {
        let joined = join(options);
        for namespace in [&joined.left, &joined.right] {
            namespace.sh("ethtool -K t0 tx off tso off gso off");
        }
        assert!(received(&joined.iperf3("--client 10.0.0.2")) > 1_000_000);
        assert_eq!(joined.dropped(), 0, "drops");
    }
}

/// The kernel at the one end leaves checksums and segments to do, that at the other takes neither.
#[test]
fn tcp_is_cut_and_summed_for_an_end_that_takes_no_offloads() {
    let joined = join_different("", ",offloads=off");
    for client in ["--client 10.0.0.2", "--client fd00::2"] {
        let before = joined.given();
        let bytes = received(&joined.iperf3(client));
        let after = joined.given();
        assert!(bytes > 1_000_000, "{client}: {bytes} bytes");
        let right = (after[1].0 - before[1].0, after[1].1 - before[1].1);
        assert!(right.1 > bytes && right.1 <= right.0 * 1514, "{client}: {right:?} frames and bytes");
        assert!(received(&joined.iperf3(&format!("{client} --reverse"))) > 1_000_000);
    }
    assert_eq!(joined.dropped(), 0, "drops");
    let errors = joined.right.sh("nstat -asz TcpInCsumErrors Ip6InHdrErrors UdpInCsumErrors");
    let errors = errors.lines().filter(|line| !line.starts_with('#'));
    let errors: Vec<&str> = errors.map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(errors, ["0"; 3]);
}

#[test]
fn udp_goes_through_with_its_checksum_left_to_do() {
    let joined = join("");
    let report = joined.iperf3("--client 10.0.0.2 --udp --bitrate 20M");
    // A busy machine may lose some in a full socket; none may be wrong.
    assert!(received(&report) > 100_000, "{report}");
    let counters = joined.right.sh("cat /proc/net/snmp");
    let udp: Vec<&str> = counters.lines().filter(|line| line.starts_with("Udp:")).collect();
    let mut fields = udp[0].split(' ').zip(udp[1].split(' '));
    assert_eq!(fields.find(|(name, _)| *name == "InCsumErrors"), Some(("InCsumErrors", "0")), "{udp:?}");
    assert_eq!(joined.dropped(), 0, "drops");
}

#[test]
fn several_queues_carry_several_flows() {
    let joined = join(",queue-pairs=2");
    let bytes = received(&joined.iperf3("--client 10.0.0.2 --parallel 32"));
    assert!(bytes > 1_000_000);
    // The kernel spreads flows over queues by a hash: all on one of two is no chance.
    let frames = |pair| joined.taps[0].counters(pair, Side::FromGuest).unwrap().counts().frames;
    assert!(frames(0) > 0 && frames(1) > 0, "queue pairs took {} and {} frames", frames(0), frames(1));
    drop(joined.relay);
    assert!(
        joined.left.try_sh("ip link show t0").status.code() != Some(0),
        "the TAP outlives its descriptors"
    );
}
