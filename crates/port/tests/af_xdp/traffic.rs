//! Two kernels talking through two veths, and through a veth and a TAP.
use std::io::{BufRead, BufReader};

use frame::Side;
use port::Port;
use port::tap::{Tap, TapOptions};
use port::testing::TestContext;

use crate::namespace::{Background, Namespace};
use crate::relay::Relay;
use crate::veth::{join, open};

/// Two namespaces, 10.0.0.1 on a veth and 10.0.0.2 on whatever the test chose, and one of the ports between them.
struct Joined {
    _relay: Relay,
    ports: Vec<Box<dyn Port>>,
    left: Namespace,
    right: Namespace,
    _between: Namespace,
}

fn veths(options: &str, queues: u32) -> Joined {
    let [left, right, between] = [(); 3].map(|()| Namespace::new());
    let mut opened = Vec::new();
    for (name, kernel, last) in [("p1", &left, 1), ("p2", &right, 2)] {
        join(&between, name, kernel, queues);
        kernel.sh(&format!(
            "ip address add 10.0.0.{last}/24 dev e0 && ip address add fd00::{last}/64 dev e0 nodad"
        ));
        opened.push(open(&between, &format!("{name}{options}")));
    }
    let (two, two_context) = opened.pop().unwrap();
    let (one, one_context) = opened.pop().unwrap();
    let relay = Relay::between(one_context, two_context);
    Joined { _relay: relay, ports: vec![Box::new(one), Box::new(two)], left, right, _between: between }
}

/// A TAP whose kernel leaves checksums and segments to the receiver of its frames.
fn veth_and_tap() -> Joined {
    let [left, right, between] = [(); 3].map(|()| Namespace::new());
    join(&between, "p1", &left, 1);
    left.sh("ip address add 10.0.0.1/24 dev e0 && ip address add fd00::1/64 dev e0 nodad");
    let (one, one_context) = open(&between, "p1");
    let (two, two_context) = right.run(|| {
        let options =
            TapOptions { address: Some("10.0.0.2/24".parse().unwrap()), up: true, ..TapOptions::new("e0") };
        let (mut tap, mut context) = (Tap::new(options), TestContext::new());
        tap.start(&mut context).unwrap();
        (tap, context)
    });
    right.sh("ip address add fd00::2/64 dev e0 nodad");
    let relay = Relay::between(one_context, two_context);
    Joined { _relay: relay, ports: vec![Box::new(one), Box::new(two)], left, right, _between: between }
}

impl Joined {
    /// A server in the right namespace that takes one client, and the client's bytes received.
    fn iperf3(&self, arguments: &str) -> u64 {
        let _server = self.serve();
        let report = self.left.sh(&format!("timeout 60 iperf3 --json --time 1 {arguments}"));
        let sum = report.split("\"sum_received\"").nth(1).unwrap_or_else(|| panic!("{report}"));
        let bytes = sum.split("\"bytes\":").nth(1).unwrap().trim_start();
        bytes.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    }

    fn serve(&self) -> Background {
        let mut server = self.right.start("iperf3", &["--server", "--one-off", "--forceflush"]);
        let out = BufReader::new(server.0.stdout.take().unwrap());
        let mut lines = out.lines();
        assert!(lines.any(|line| line.unwrap().contains("Server listening")), "iperf3 does not serve");
        // The rest is read so that the server can write it.
        std::thread::spawn(move || lines.for_each(drop));
        server
    }

    fn frames(&self, port: usize, pair: u16, side: Side) -> u64 {
        self.ports[port].counters(pair, side).unwrap().frames()
    }

    /// Frames that either kernel found damaged.
    fn checksum_errors(&self) -> u64 {
        let all = [&self.left, &self.right].map(|kernel| {
            let counters =
                kernel.sh("nstat -asz TcpInCsumErrors UdpInCsumErrors IcmpInCsumErrors Ip6InHdrErrors");
            let values = counters.lines().filter(|line| !line.starts_with('#'));
            values.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum::<u64>()
        });
        all.iter().sum()
    }
}

#[test]
fn ping_goes_through_at_all_sizes_in_both_modes() {
    for mode in ["generic", "native", "best-effort"] {
        let joined = veths(&format!(",xdp-mode={mode}"), 1);
        joined.left.sh("ping -c 5 -i 0.05 -W 10 10.0.0.2");
        joined.left.sh("ping -c 5 -i 0.05 -W 10 fd00::2");
        // Fragments.
        joined.left.sh("ping -c 2 -i 0.2 -W 10 -s 20000 10.0.0.2");
        assert_eq!(joined.checksum_errors(), 0, "{mode}");
    }
}

#[test]
fn tcp_and_udp_go_through_both_ways_also_by_busy_polling() {
    for options in ["", ",busy-poll=on"] {
        let joined = veths(options, 1);
        for arguments in ["--client 10.0.0.2", "--client 10.0.0.2 --reverse", "--client fd00::2"] {
            let bytes = joined.iperf3(arguments);
            assert!(bytes > 1_000_000, "{options}: {arguments}: {bytes} bytes");
        }
        assert!(joined.iperf3("--client 10.0.0.2 --udp --bitrate 20M") > 100_000);
        assert_eq!(joined.checksum_errors(), 0);
        // What the one port took, the other sent.
        let [from, to] = [joined.frames(0, 0, Side::FromGuest), joined.frames(1, 0, Side::ToGuest)];
        let dropped = joined.ports[1].counters(0, Side::ToGuest).unwrap().counts().dropped();
        assert!(
            from >= to + dropped && from - to - dropped <= 64,
            "{from} taken, {to} sent, {dropped} dropped"
        );
    }
}

#[test]
fn what_a_guest_left_to_do_is_done() {
    let joined = veth_and_tap();
    for client in ["--client 10.0.0.2", "--client fd00::2"] {
        for reverse in ["", " --reverse"] {
            let bytes = joined.iperf3(&format!("{client}{reverse}"));
            assert!(bytes > 1_000_000, "{client}{reverse}: {bytes} bytes");
        }
    }
    assert!(joined.ports[1].describe().contains("TSO"), "{}", joined.ports[1].describe());
    assert_eq!(joined.checksum_errors(), 0);
}

#[test]
fn several_queues_carry_several_flows() {
    let joined = veths(",queue-pairs=2", 2);
    assert!(joined.iperf3("--client 10.0.0.2 --parallel 32") > 1_000_000);
    // The kernel spreads flows over queues by a hash: all on one of two is no chance.
    let [one, two] = [0, 1].map(|pair| joined.frames(0, pair, Side::FromGuest));
    assert!(one > 0 && two > 0, "queue pairs took {one} and {two} frames");
    assert_eq!(joined.checksum_errors(), 0);
}
