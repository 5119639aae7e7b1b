//! A stock Linux guest on the switch, started as a user starts it. Nothing here asserts a speed.

mod arm;
mod migration;
mod pairs;
mod switch;
mod tunnels;
mod vlans;

use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use peers::guest::Port;
use peers::netns::TapQueues;
use peers::requirements::is_root;
use peers::{Guest, Netns, bytes_received};

use pairs::{ETHERNET_BYTES, End, Lab, Pair, Plan, Way};
use switch::Switch;

/// What every transfer moves at least, bytes.
const ENOUGH: u64 = 1_000_000;

/// So many of the CPUs that this process may use, or all, as a list.
fn first_cpus(count: usize) -> String {
    let mut usable = linux::cpus::usable().unwrap();
    usable.truncate(count);
    linux::cpus::list(&usable)
}

/// Layout, offloads, mergeable buffers and queue pairs, each with each: the ends of 8 wires are all 16
/// combinations. What one end is, the other is not, but for the offloads, which have a test of their own.
#[test]
fn every_combination() {
    let mut pairs = Vec::new();
    for offloads in [true, false] {
        for mergeable in [true, false] {
            for queue_pairs in [1, 2] {
                let near = End { packed: false, offloads, mergeable, queue_pairs, mtu: 1500 };
                let far = End { packed: true, mergeable: !mergeable, queue_pairs: 3 - queue_pairs, ..near };
                pairs.push(Pair { near, far });
            }
        }
    }
    let plan = Plan::new(pairs.clone());
    let mut arguments = plan.wired();
    arguments.push(format!("--cpus={}", first_cpus(2)));
    let switch = Switch::start(&arguments);
    let lab = plan.boot(|port| port);
    for (index, Pair { near, far }) in pairs.iter().enumerate() {
        lab.check_features(index);
        lab.ping(index, "");
        for way in [Way::ToFar, Way::ToNear] {
            // The switch spreads flows over the receiver's queues.
            let bytes = lab.iperf3(&format!("10.{index}.0.2"), way, "--bytes 3M --parallel 8 --window 32K");
            assert!(bytes > ENOUGH, "pair {index}, {way:?}: {bytes} bytes");
            lab.transfer_whole(index, way);
        }
        lab.check_no_errors(index);
        // The guest sends from the queue of the CPU.
        let (ends, addresses) = ([near, far], [2, 1]);
        for (end, address) in ends.iter().zip(addresses).filter(|(end, _)| end.queue_pairs > 1) {
            for cpu in [1, 2] {
                let interface = 2 * index + usize::from(end.packed);
                lab.must_at(interface, &format!("taskset {cpu} ping -c 1 -W 10 10.{index}.0.{address}"));
            }
        }
    }
    let counters = switch.end();
    counters.check(&[]);
    for (index, Pair { near, far }) in pairs.iter().enumerate() {
        for (name, end) in [(format!("n{index}"), near), (format!("f{index}"), far)] {
            let port = counters.port(&name);
            assert_eq!(port.queues.len(), 2 * usize::from(end.queue_pairs), "{port:#?}");
            assert!(port.description.contains(if end.packed { "packed" } else { "split" }), "{port:?}");
            let mean = port.mean_bytes(true);
            println!("{name}: {end}: mean frame {mean:.0} bytes");
            let whole = (ETHERNET_BYTES + u64::from(end.mtu)) as f64;
            assert_eq!(end.offloads, mean > whole, "{port:#?}");
        }
    }
}

/// Sends one way, and gives the mean length of frames as the sender sent and the receiver received them.
fn mean_frames(lab: &Lab, index: usize, address: &str, way: Way) -> [u64; 2] {
    let (sender, receiver) = match way {
        Way::ToFar => (2 * index, 2 * index + 1),
        Way::ToNear => (2 * index + 1, 2 * index),
    };
    let count = || [lab.received_and_sent(sender)[1], lab.received_and_sent(receiver)[0]];
    let before = count();
    let bytes = lab.iperf3(address, way, "--bytes 4M --window 256K");
    assert!(bytes > ENOUGH, "pair {index}, {way:?}: {bytes} bytes");
    let after = count();
    [0, 1].map(|side| {
        let (before, after) = (before[side], after[side]);
        pairs::Count { packets: after.packets - before.packets, bytes: after.bytes - before.bytes }
            .mean_bytes()
    })
}

/// What one end sends and the other does not take is cut and summed by the switch, also in a VLAN.
#[test]
fn the_switch_finishes_what_the_receiver_does_not_take() {
    let all = End::PLAIN;
    let none = End { offloads: false, ..End::PLAIN };
    let small = End { mergeable: false, packed: true, ..none };
    let ends = [(all, none), (End { packed: true, ..all }, small)];
    let plan = Plan::new(ends.map(|(near, far)| Pair { near, far }));
    let switch = Switch::start(&plan.wired());
    let lab = plan.boot(|port| port);
    for index in lab.indices() {
        lab.check_features(index);
        lab.ping(index, "");
        lab.transfer_whole(index, Way::ToFar);
        lab.transfer_whole(index, Way::ToNear);
        // Below the interfaces themselves, and in a VLAN of theirs.
        lab.guest.must(&format!(
            "ip link add link eth{near} name v{index} type vlan id 5 && ip link set v{index} up
             ip address add 10.{index}.5.1/24 dev v{index}
             ip -n far{index} link add link eth{far} name v{index} type vlan id 5
             ip -n far{index} link set v{index} up
             ip -n far{index} address add 10.{index}.5.2/24 dev v{index}
             ping -c 3 -i 0.05 -W 10 10.{index}.5.2",
            near = 2 * index,
            far = 2 * index + 1,
        ));
        for (address, tag) in [(format!("10.{index}.0.2"), 0), (format!("10.{index}.5.2"), 4)] {
            let whole = u64::from(all.mtu) + ETHERNET_BYTES + tag;
            let [sent, received] = mean_frames(&lab, index, &address, Way::ToFar);
            println!("{address}, to far: mean frame {sent} bytes sent, {received} received");
            assert!(sent > 2 * whole, "pair {index}: TCP was not left to the switch to cut: {sent}");
            assert!((whole / 2..=whole).contains(&received), "pair {index}: {received} bytes");
            let [sent, received] = mean_frames(&lab, index, &address, Way::ToNear);
            println!("{address}, to near: mean frame {sent} bytes sent, {received} received");
            assert!(sent <= whole && received <= whole, "pair {index}: {sent}, {received} bytes");
        }
        // Datagrams that IP cuts.
        lab.ping(index, "-s 8000");
        for way in [Way::ToFar, Way::ToNear] {
            let options = "--udp --length 8000 --bitrate 20M --bytes 1M";
            let bytes = lab.iperf3(&format!("10.{index}.0.2"), way, options);
            // UDP may lose some where the machine is busy.
            assert!(bytes > 100_000, "pair {index}, {way:?}: {bytes} bytes of UDP");
        }
        lab.check_no_errors(index);
    }
    switch.end().check(&[]);
}

#[test]
fn jumbo_frames() {
    let all = End { mtu: 9000, ..End::PLAIN };
    let none = End { offloads: false, ..all };
    let small = End { mergeable: false, packed: true, ..none };
    let ends = [(all, all), (all, none), (small, small), (End { mergeable: false, ..all }, small)];
    let plan = Plan::new(ends.map(|(near, far)| Pair { near, far }));
    let switch = Switch::start(&plan.wired());
    let lab = plan.boot(|port| port);
    for (index, (near, far)) in ends.into_iter().enumerate() {
        lab.check_features(index);
        lab.ping(index, "-s 8900 -M do");
        let whole = u64::from(all.mtu) + ETHERNET_BYTES;
        for way in [Way::ToFar, Way::ToNear] {
            let [sent, received] = mean_frames(&lab, index, &format!("10.{index}.0.2"), way);
            println!("pair {index}, {way:?}: mean frame {sent} bytes sent, {received} received");
            let receiver = if way == Way::ToFar { far } else { near };
            assert!(received > 2000, "pair {index}, {way:?}: {received} bytes are no jumbo frames");
            assert!(receiver.offloads || received <= whole, "pair {index}, {way:?}: {received} bytes");
            lab.transfer_whole(index, way);
        }
        lab.check_no_errors(index);
    }
    switch.end().check(&[]);
}

/// A guest and the kernel of a network namespace: segments stay whole both ways. A second card of the guest's says a
/// larger MTU than its port has, and stays out.
#[test]
fn a_guest_and_the_kernel() {
    let namespace = if is_root() { Netns::new() } else { Netns::unprivileged() }.unwrap();
    namespace.tap("tap0", TapQueues::One).unwrap();
    namespace.configure("tap0", "10.9.0.1/24").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("guest");
    // The switch lives in the namespace, so its owner makes the socket.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let wide = folder.path().join("wide");
    let ports = [
        "--port=kernel=tap:tap0".to_owned(),
        format!("--port=guest=vhost-user:{}", socket.display()),
        format!("--port=wide=vhost-user:{},mtu=1500", wide.display()),
    ];
    let switch = Switch::start_in(&namespace, &ports);
    let cards = [Port::new(&socket).reconnect(), Port::new(&wide).reconnect().host_mtu(9000)];
    let guest = Guest::with_ports(cards).unwrap();
    guest.must("ip address add 10.9.0.2/24 dev eth0 && ip link set eth0 up");
    namespace.run("ping -c 3 -i 0.2 -W 10 10.9.0.2").unwrap().expect_success();
    let server = namespace.start("iperf3 --server --forceflush").unwrap();
    server.wait_for("listening", Duration::from_secs(30)).unwrap();
    for way in ["", "--reverse"] {
        let report = guest.must(&format!("iperf3 --client 10.9.0.1 --bytes 8M --window 256K --json {way}"));
        let bytes = bytes_received(&report).unwrap_or_else(|| panic!("{report}"));
        assert!(bytes > ENOUGH, "{way}: {bytes} bytes");
    }
    let said = "an MTU of 9000 is above the 1500 of this port; give its card host_mtu=1500 at the most";
    assert!(switch.said().contains(said), "{}", switch.said());
    let mut counters = switch.end();
    let of_wide = counters.ports.pop().unwrap();
    assert!(of_wide.name == "wide" && of_wide.queues.iter().all(|queue| queue.frames == 0), "{of_wide:#?}");
    // The kernel sends as soon as the interface is up, which is before the guest is.
    counters.check(&["receiver not connected"]);
    for name in ["guest", "kernel"] {
        let port = counters.port(name);
        let means = [true, false].map(|from_guest| port.mean_bytes(from_guest));
        println!("{name}: mean frame {means:.0?} bytes");
        // Each direction carries acknowledgements too.
        assert!(means.iter().all(|mean| *mean > 1514.0), "{port:#?}");
    }
}

/// The switch costs nothing where nothing comes, goes on at once, and may be killed and started again, with rings of
/// both layouts.
#[test]
fn idle_and_started_again() {
    let plan = Plan::new([Pair { near: End::PLAIN, far: End { packed: true, ..End::PLAIN } }]);
    let switch = Switch::start(&plan.learning());
    let lab = plan.boot(Port::reconnect);
    lab.ping(0, "");
    // What IPv6 has to say at first does not count as quiet.
    lab.guest.must("sysctl -w net.ipv6.conf.all.disable_ipv6=1");
    lab.guest.must("ip netns exec far0 sysctl -w net.ipv6.conf.all.disable_ipv6=1");
    let (before, since) = (switch.cpu_time(), Instant::now());
    sleep(Duration::from_secs(3));
    let share = (switch.cpu_time() - before).as_secs_f64() / since.elapsed().as_secs_f64();
    println!("idle: {:.3} % of a CPU", 100.0 * share);
    assert!(share < 0.01, "an idle switch uses {:.2} % of a CPU", 100.0 * share);
    lab.guest.must("ping -c 1 -W 10 10.0.0.2");

    switch.crash();
    let switch = Switch::start(&plan.learning());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !lab.guest.run("ping -c 1 -W 1 10.0.0.2").unwrap().success() {
        assert!(Instant::now() < deadline, "no answer through the switch that was started again");
    }
    lab.transfer_whole(0, Way::ToFar);
    lab.transfer_whole(0, Way::ToNear);
    lab.check_no_errors(0);
    // The guest's ports come back one after the other.
    switch.end().check(&["receiver not connected"]);
}
