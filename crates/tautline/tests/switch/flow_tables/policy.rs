//! Connections that `--policy` allows.
use rustix::process::Signal;

use super::*;
use crate::common::signal;

fn framed(hosts: [u8; 2], datagram: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, hosts[1], 2, 0, 0, 0, 0, hosts[0]], &kind[..], datagram].concat()
}

fn ends(hosts: [u8; 2], ports: [u16; 2]) -> datagrams::Ends {
    let [from, to] = hosts.map(|host| format!("10.0.0.{host}"));
    datagrams::Ends::new(&from, &to, ports)
}

fn segment(hosts: [u8; 2], ports: [u16; 2], flags: u8) -> Vec<u8> {
    let numbers = if flags & datagrams::ACK != 0 { (1, 2) } else { (1, 0) };
    let segment = datagrams::Tcp::new(flags, numbers.0, numbers.1);
    // As Linux writes them: MSS, SACK, time, window scale.
    let options = vec![2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
    framed(hosts, &datagrams::Tcp { options, ..segment }.datagram(ends(hosts, ports)))
}

/// An ICMP error from the receiver of a segment.
fn unreachable(hosts: [u8; 2], about: &[u8]) -> Vec<u8> {
    framed(hosts, &datagrams::icmp(ends(hosts, [0; 2]), 3, 1, [0; 4], &about[14..42]))
}

/// Whether a frame comes from one port to another one; it comes to no third one.
fn passes(guests: &mut [Guest], frame: Vec<u8>, from: u8, to: u8) -> bool {
    let ports = guests.len() as u8;
    let sender = &mut guests[usize::from(from) - 1];
    sender.send(&frame);
    sender.wait_for_used(TRANSMIT, 1);
    // An ARP request that all others get comes behind it.
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, from, 8, 6]);
    arp.resize(60, 0);
    arp[14..20].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
    arp[22..28].copy_from_slice(&[2, 0, 0, 0, 0, from]);
    sender.send(&arp);
    sender.wait_for_used(TRANSMIT, 1);
    let others = (1..=ports).filter(|port| *port != from);
    let got: Vec<(u8, usize)> = others
        .map(|port| (port, until(&mut guests[usize::from(port) - 1], &arp)))
        .map(|(port, frames)| (port, frames.iter().filter(|got| **got == frame).count()))
        .collect();
    assert!(got.iter().all(|(port, count)| *port == to || *count == 0), "{got:?}");
    got.iter().any(|(port, count)| *port == to && *count == 1)
}

fn page_block(marker: &str) -> &'static str {
    let page = include_str!("../../../../../docs/policy.md");
    let marker =
        format!("<!-- test: run by crates/tautline/tests/switch/flow_tables/policy.rs{marker} -->\n```sh\n");
    page.split(marker.as_str()).nth(1).and_then(|rest| rest.split("```").next()).unwrap()
}

#[test]
fn only_the_connections_of_the_page_and_their_answers_pass() {
    let sockets = Sockets::new();
    let (file, command) = page_block("").split_once("\nEND\n").unwrap();
    let policy = file.split_once("<<'END'\n").unwrap().1;
    fs::write(sockets.path("policy.toml"), policy).unwrap();
    let command = command.trim_end().trim_end_matches(" &").replace("\\\n", "");
    let command = command.replace("/tmp", &sockets.path("").display().to_string());
    let arguments: Vec<_> =
        command.strip_prefix("tautline switch ").unwrap().split_whitespace().map(str::to_owned).collect();
    let mut scene = Scene::of(sockets, &arguments, &["web.sock", "database.sock", "router.sock"]);
    let (web, database, router) = (1, 2, 3);
    let (syn, answer) = (datagrams::SYN, datagrams::SYN | datagrams::ACK);
    let mut passes = |frame: Vec<u8>, from: u8, to: u8| passes(&mut scene.guests, frame, from, to);
    assert!(passes(segment([3, 1], [1000, 443], syn), router, web));
    assert!(passes(segment([1, 3], [443, 1000], answer), web, router), "an answer");
    assert!(!passes(segment([3, 1], [1001, 22], syn), router, web), "no rule");
    assert!(!passes(segment([3, 2], [1002, 5432], syn), router, database), "from outside of the set");
    assert!(passes(segment([1, 2], [1003, 5432], syn), web, database));
    assert!(passes(segment([2, 1], [5432, 1003], answer), database, web), "an answer");
    assert!(!passes(segment([2, 3], [1004, 443], syn), database, router), "begins no connections");
    assert!(!passes(segment([2, 1], [1005, 443], answer), database, web), "an answer to nothing");
    // Errors about connections pass, and others do not.
    let about = segment([2, 1], [5432, 1003], answer);
    assert!(passes(unreachable([1, 2], &about), web, database), "about a connection");
    let about = segment([2, 1], [5432, 1009], answer);
    assert!(!passes(unreachable([1, 2], &about), web, database), "about no connection");
    let ends = |from, to, ports| datagrams::Ends::new(from, to, ports);
    let (host, guest) = ("fd00::3", "fd00::1");
    let options = vec![2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
    let six = datagrams::Tcp { options, ..datagrams::Tcp::new(syn, 1, 0) };
    assert!(passes(framed([3, 1], &six.datagram(ends(host, guest, [1000, 443]))), router, web));
    let six = datagrams::Tcp { flags: answer, acknowledgement: 2, ..six };
    assert!(passes(framed([1, 3], &six.datagram(ends(guest, host, [443, 1000]))), web, router));
    for (port, known) in [(1000, true), (1001, false)] {
        let about = six.datagram(ends(guest, host, [443, port]));
        let error = datagrams::unreachable(ends(host, guest, [0; 2]), &about, 500);
        assert_eq!(passes(framed([3, 1], &error), router, web), known);
    }
    // Nothing is flooded to ports with rules.
    assert!(!passes(segment([3, 7], [1006, 443], syn), router, web), "an unknown address");
    assert!(passes(segment([1, 7], [1007, 443], syn), web, router), "an unknown address");
    let mut other = segment([3, 1], [1008, 443], syn);
    other[12..14].copy_from_slice(&[0x99, 0x99]);
    assert!(!passes(other.clone(), router, web), "no IP");
    other[5] = 7;
    assert!(!passes(other, router, web), "no IP, and an unknown address");
    let advertised = |from: u8| {
        let ends = datagrams::Ends::new("fe80::9", "fe80::3", [0; 2]);
        let mut datagram = datagrams::icmp(ends, 134, 0, [64, 0, 0, 0], &[0; 8]);
        datagram[7] = 255;
        framed([from, if from == 3 { 1 } else { 3 }], &datagram)
    };
    assert!(!passes(advertised(web), web, router), "no router");
    assert!(passes(advertised(router), router, web), "a router");
    // The addresses of `web` are bound, and those of `router` are not.
    let from = |text: &str, port: u16| {
        let segment = datagrams::Tcp { options: vec![2, 4, 5, 0xb4], ..datagrams::Tcp::new(syn, 1, 0) };
        let to = if text.contains(':') { "fd00::3" } else { "10.0.0.3" };
        segment.datagram(datagrams::Ends::new(text, to, [port, 443]))
    };
    for (address, passed) in [
        ("10.0.0.1", true),
        ("10.0.0.2", false),
        ("fd00::1", true),
        ("fd00::2", false),
        ("fe80::ff:fe00:1", true),
    ] {
        assert_eq!(passes(framed([1, 3], &from(address, 1020)), web, router), passed, "{address}");
    }
    let answer_of = |address: u8| {
        let mut arp =
            [&[2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2][..], &[2, 0, 0, 0, 0, 1]]
                .concat();
        arp.extend([10, 0, 0, address]);
        arp.resize(60, 0);
        arp
    };
    assert!(passes(answer_of(1), web, router), "its own address");
    assert!(!passes(answer_of(2), web, router), "the address of another host");
    let advertisement = |address: &str, link: u8| {
        let ends = datagrams::Ends::new("fd00::1", "fd00::3", [0; 2]);
        let target: std::net::Ipv6Addr = address.parse().unwrap();
        let option = [2, 1, 2, 0, 0, 0, 0, link];
        let mut datagram =
            datagrams::icmp(ends, 136, 0, [0x60, 0, 0, 0], &[&target.octets()[..], &option].concat());
        datagram[7] = 255;
        framed([1, 3], &datagram)
    };
    assert!(passes(advertisement("fd00::1", 1), web, router), "its own address");
    assert!(!passes(advertisement("fd00::2", 1), web, router), "the address of another host");
    assert!(!passes(advertisement("fd00::1", 2), web, router), "the Ethernet address of another host");
    scene.switch.end();
}

#[test]
fn connections_that_are_still_allowed_survive_another_policy() {
    let sockets = Sockets::new();
    let file = sockets.path("policy.toml");
    let write = |ports: &str| {
        let text =
            format!("[groups.g]\nports = [\"one\"]\nin = [{{ protocol = \"tcp\", ports = \"{ports}\" }}]\n");
        fs::write(&file, text).unwrap();
    };
    write("80,443");
    let mut arguments = Vec::new();
    for (number, name) in (1..).zip(["one", "two"]) {
        arguments.extend(sockets.port(name, "vhost-user", ""));
        arguments.extend(["--allow".to_owned(), format!("{name}=02:00:00:00:00:0{number}")]);
    }
    arguments.extend(["--policy".to_owned(), file.display().to_string()]);
    let Scene { switch, mut guests, _sockets: _kept, .. } = Scene::of(sockets, &arguments, &["one", "two"]);
    let reload = |expected: &str, count: usize| {
        signal(switch.id(), Signal::HUP);
        let has = || switch.logged().iter().filter(|line| line.contains(expected)).count() == count;
        wait_for(expected, || has().then_some(()));
    };
    let (syn, ack) = (datagrams::SYN, datagrams::ACK);
    let exchange = |guests: &mut [Guest], port: u16| {
        let asked = passes(guests, segment([2, 1], [port + 1000, port], ack), 2, 1);
        [asked, passes(guests, segment([1, 2], [port, port + 1000], ack), 1, 2)]
    };
    for port in [80, 443] {
        assert!(passes(&mut guests, segment([2, 1], [port + 1000, port], syn), 2, 1));
        assert!(passes(&mut guests, segment([1, 2], [port, port + 1000], syn | ack), 1, 2));
        assert_eq!(exchange(&mut guests, port), [true, true]);
    }
    write("443,8080");
    reload("the policy was read again", 1);
    assert_eq!(exchange(&mut guests, 443), [true, true], "still allowed");
    assert_eq!(exchange(&mut guests, 80), [false, false], "not allowed any more");
    assert!(passes(&mut guests, segment([2, 1], [1000, 8080], syn), 2, 1), "allowed now");
    assert!(!passes(&mut guests, segment([2, 1], [1001, 80], syn), 2, 1), "not allowed any more");
    fs::write(&file, "[groups.g]\nports = [\"three\"]\n").unwrap();
    reload("no such port", 1);
    assert_eq!(exchange(&mut guests, 443), [true, true], "a wrong policy changes nothing");
    write("80,443");
    reload("the policy was read again", 2);
    assert_eq!(exchange(&mut guests, 80), [true, true], "allowed again");
    switch.end();
}

#[test]
fn a_wrong_policy_is_refused_with_its_line() {
    let sockets = Sockets::new();
    let file = sockets.path("policy.toml").display().to_string();
    fs::write(&file, "[groups.g]\nports = [\"one\"]\nin = [{ with = \"10.0.0.300\" }]\n").unwrap();
    let [option, port] = sockets.port("one", "vhost-user", "");
    let allow = ["--allow", "one=02:00:00:00:00:01"];
    let refused = |port: &str, more: &[&str], said: &str| {
        let run = Run::new(&[&["switch", &option, port, "--policy", &file], more].concat()).finish();
        let said = format!("--policy {file}: {said}");
        assert!(run.code == Some(2) && run.to_string().contains(&said), "{run}");
    };
    refused(&port, &allow, "line 3: '10.0.0.300' is no address and no set; write 10.0.0.0/24");
    refused(&port, &[], "line 2: port 'one': it has no addresses; add --allow one=MAC");
    refused(&format!("{port},network=blue"), &allow, "port one: leave out its network and bond");
    let wire = ["--port", "a=tap:a", "--port", "b=tap:b", "--wire", "a=b"];
    refused(&port, &[&allow[..], &wire].concat(), "flows and wires pass by a policy; leave them out");
}
