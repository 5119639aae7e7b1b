//! Connections that `--policy` allows.
use super::*;

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
    let mut passes = |frame: Vec<u8>, from: u8, to: u8| {
        let sender = &mut scene.guests[usize::from(from) - 1];
        sender.send(&frame);
        sender.wait_for_used(TRANSMIT, 1);
        // An ARP request that all others get comes behind it.
        let mut arp = vec![0xff; 6];
        arp.extend([2, 0, 0, 0, 0, from, 8, 6]);
        arp.resize(60, 0);
        arp[14..20].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        sender.send(&arp);
        sender.wait_for_used(TRANSMIT, 1);
        let others = (1..=3).filter(|port| *port != from);
        let got: Vec<(u8, usize)> = others
            .map(|port| (port, until(&mut scene.guests[usize::from(port) - 1], &arp)))
            .map(|(port, frames)| (port, frames.iter().filter(|got| **got == frame).count()))
            .collect();
        assert!(got.iter().all(|(port, count)| *port == to || *count == 0), "{got:?}");
        got.iter().any(|(port, count)| *port == to && *count == 1)
    };
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
    scene.switch.end();
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
