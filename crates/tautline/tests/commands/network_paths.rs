//! The agent's network work over every path that the kernel has: payload intact, and sent = received + lost.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use environment::network::{End, FAR_ADDRESS, Layer, Path};
use environment::{Agent, Running};
use workload::network::{Class, Counts, Flow, NearOutcome, Side};
use workload::protocol::{Reply, Request};

const LIMIT: Duration = Duration::from_secs(30);

fn agent() -> Agent {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_tautline"));
    Agent { binary, arguments: vec!["agent".into()], files: vec![] }
}

/// An end with its agent, greeted.
struct Asked(Running);

impl Asked {
    fn start(path: &Path, end: End) -> Self {
        let mut running = path.start(end, &agent()).unwrap_or_else(|failure| panic!("{failure}"));
        let line = running
            .channel()
            .receive(LIMIT)
            .unwrap_or_else(|error| panic!("{error}: {}", running.last_output()));
        Reply::parse(&line).and_then(Reply::greeting).unwrap();
        Asked(running)
    }

    fn ask(&mut self, request: &Request) -> Reply {
        self.0.channel().send(request.to_line().trim_end(), LIMIT).unwrap();
        Reply::parse(&self.0.channel().receive(LIMIT).unwrap()).unwrap()
    }
}

fn flow(near: &mut Asked, far: &mut Asked, flow: &Flow) -> (NearOutcome, Counts) {
    let cpus = linux::cpus::usable().unwrap();
    let open = Request::OpenFarEnd {
        flow: flow.clone(),
        address: FAR_ADDRESS.into(),
        cpus: cpus.clone(),
        beside: false,
    };
    let port = match far.ask(&open) {
        Reply::FarEnd { port } => port,
        other => panic!("{other:?}"),
    };
    let peer = SocketAddr::new(FAR_ADDRESS.into(), port);
    let outcome = match near.ask(&Request::RunNearEnd { flow: flow.clone(), peer, cpus, beside: None }) {
        Reply::NearEnd(outcome) => outcome,
        other => panic!("{other:?}"),
    };
    match far.ask(&Request::CloseFarEnd) {
        Reply::FarEndClosed(counts) => (outcome, counts),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_class_over_every_path_both_ways() {
    use Layer::*;
    for layers in [
        vec![Veth],
        vec![Veth, Bridge],
        vec![Veth, Bridge, Nftables],
        vec![Veth, Bridge, Nftables, ConnectionTracking],
        vec![Veth, Bridge, Nftables, ConnectionTracking, Vxlan],
        vec![Veth, Macvlan],
        vec![Switch],
        vec![Loopback],
    ] {
        let path = Path::build(&layers, &agent()).unwrap_or_else(|failure| panic!("{layers:?}: {failure}"));
        let (mut near, mut far) = (Asked::start(&path, End::Near), Asked::start(&path, End::Far));
        for class in Class::ALL {
            for sender in [Side::Near, Side::Far] {
                if sender == Side::Far && !class.is_stream() {
                    continue;
                }
                for per_second in [None, Some(500.0)] {
                    let asked = Flow {
                        class,
                        sender,
                        message_bytes: 1024,
                        connections: 4,
                        per_second,
                        duration: Duration::from_millis(60),
                        verify: true,
                    };
                    let (near, far) = flow(&mut near, &mut far, &asked);
                    let (sent, received) = match sender {
                        Side::Near => (&near.counts, &far),
                        Side::Far => (&far, &near.counts),
                    };
                    let what =
                        format!("{layers:?} {class:?} from {sender:?} at {per_second:?}: {near:?} {far:?}");
                    assert!(sent.sent > 0, "{what}");
                    assert_eq!((near.counts.corrupt, far.corrupt), (0, 0), "{what}");
                    let lost = sent.sent.checked_sub(received.received).unwrap_or_else(|| panic!("{what}"));
                    // Only an unpaced stream of datagrams may overrun its receiver.
                    if class != Class::UdpStream || per_second.is_some() {
                        assert_eq!(lost, 0, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_far_end_that_is_killed_is_an_error_at_the_near_end_and_nothing_is_left() {
    let path = Path::build(&[Layer::Veth], &agent()).unwrap();
    let (mut near, mut far) = (Asked::start(&path, End::Near), Asked::start(&path, End::Far));
    let asked = Flow {
        class: Class::TcpRr,
        sender: Side::Near,
        message_bytes: 64,
        connections: 1,
        per_second: None,
        duration: Duration::from_secs(2),
        verify: false,
    };
    let cpus = linux::cpus::usable().unwrap();
    let open = Request::OpenFarEnd {
        flow: asked.clone(),
        address: FAR_ADDRESS.into(),
        cpus: cpus.clone(),
        beside: false,
    };
    let Reply::FarEnd { port } = far.ask(&open) else { panic!("no far end") };
    let peer = SocketAddr::new(FAR_ADDRESS.into(), port);
    let line = Request::RunNearEnd { flow: asked, peer, cpus, beside: None }.to_line();
    near.0.channel().send(line.trim_end(), LIMIT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(far.0.process_id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    match Reply::parse(&near.0.channel().receive(LIMIT).unwrap()).unwrap() {
        Reply::Failed(failure) => assert!(failure.to_string().contains("TCP"), "{failure}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_path_that_is_slowed_is_found_slower_by_as_much() {
    let path = Path::build(&[Layer::Veth], &agent()).unwrap();
    let (mut near, mut far) = (Asked::start(&path, End::Near), Asked::start(&path, End::Far));
    let asked = Flow {
        class: Class::TcpStream,
        sender: Side::Near,
        message_bytes: 1472,
        connections: 1,
        per_second: None,
        duration: Duration::from_secs(1),
        verify: false,
    };
    let mut mbps = || flow(&mut near, &mut far, &asked).1.received_per_second() * 8.0 / 1e6;
    let free = mbps();
    let words = "qdisc add dev eth0 root tbf rate 40mbit burst 32kb latency 50ms";
    let mut tc = path.near.command("tc").unwrap();
    assert!(tc.args(words.split(' ')).status().unwrap().success());
    // Headers take a twentieth of the 40; what the bucket held at the start adds a little.
    let slowed = mbps();
    assert!((32.0..=41.0).contains(&slowed), "{slowed} Mb/s of 40, {free} before");
    assert!(free > 2.0 * slowed, "{free} {slowed}");
}
