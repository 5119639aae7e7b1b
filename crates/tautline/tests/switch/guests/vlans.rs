//! Three guests: two in VLAN 10, one of which has a second card in VLAN 20, and the third with both VLANs on a trunk.

use peers::Guest;
use peers::guest::Port;

use super::Switch;

/// What the third guest has of others in VLAN 20: kinds of ICMP that came, and stations that it knows.
fn heard(guest: &Guest) -> String {
    guest.must(
        "ip netns exec n20 sh -c 'grep ^IcmpMsg /proc/net/snmp; ip neigh show | cut -d \" \" -f 1 | sort'",
    )
}

/// Nothing but their VLANs keeps the stations apart. The second guest has a packed ring and takes no offloads: the switch
/// cuts and sums for it what the others leave to be done, before and behind the tags of the trunk.
#[test]
fn guests_talk_within_their_vlan_and_not_beyond() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name);
    let port =
        |name: &str, vlans: &str| format!("--port={name}=vhost-user:{},{vlans}", socket(name).display());
    let switch = Switch::start(&[
        port("a", "tag=10"),
        port("b", "tag=10"),
        port("c", "trunks=10+20"),
        port("d", "tag=20"),
    ]);
    let card = |name: &str| Port::new(&socket(name)).mac(&format!("52:54:00:00:00:0{name}"));
    let cards = [vec![card("a"), card("d")], vec![card("b").packed(true).offloads(false)], vec![card("c")]];
    let addresses = [
        "ip address add 10.9.0.1/24 dev eth0 && ip link set eth0 up
         ip netns add n20 && ip link set eth1 netns n20 && ip -n n20 link set eth1 up
         ip -n n20 address add 10.9.1.1/24 dev eth1 && ip netns exec n20 httpd -p 80 -h /tmp/www",
        "ip address add 10.9.0.2/24 dev eth0 && ip address add 10.9.1.2/24 dev eth0 && ip link set eth0 up",
        "ip link set eth0 up && ip netns add n20
         ip link add link eth0 name v10 type vlan id 10 && ip link add link eth0 name v20 type vlan id 20
         ip address add 10.9.0.3/24 dev v10 && ip link set v10 up
         ip link set v20 netns n20 && ip -n n20 address add 10.9.1.3/24 dev v20 && ip -n n20 link set v20 up
         ip netns exec n20 httpd -p 80 -h /tmp/www",
    ];
    let boot = |(cards, addresses): (Vec<Port>, &str)| {
        let guest = Guest::with_ports(cards).unwrap();
        guest.must(&format!(
            "set -e
             sysctl -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
             mkdir /tmp/www
             head -c 400000 /dev/urandom >/tmp/www/file
             httpd -p 80 -h /tmp/www
             {addresses}"
        ));
        guest
    };
    // A guest ends with the thread that started it.
    let guests: Vec<Guest> = cards.into_iter().zip(addresses).map(boot).collect();
    let [a, b, c] = &guests[..] else { panic!("three guests") };
    // The payload is what was sent: between access ports, and through the trunk in each VLAN, both ways.
    let within = "ip netns exec n20 ";
    for (to, at, from, address) in [
        (a, "", b, "10.9.0.2"),
        (b, "", a, "10.9.0.1"),
        (a, "", c, "10.9.0.3"),
        (c, "", a, "10.9.0.1"),
        (b, "", c, "10.9.0.3"),
        (c, "", b, "10.9.0.2"),
        (a, within, c, "10.9.1.3"),
        (c, within, a, "10.9.1.1"),
    ] {
        let got = to.must(&format!("{at}wget -q -O - http://{address}/file | md5sum"));
        assert_eq!(got, from.must("md5sum </tmp/www/file"), "from {address}");
    }
    // From VLAN 10 nothing comes into VLAN 20: neither what is for all, nor what is for an address there.
    let before = heard(c);
    let fails = |line: &str| assert!(!b.run(line).unwrap().success(), "{line}: an answer from another VLAN");
    fails("ping -c 2 -i 0.05 -W 1 10.9.1.1");
    fails("ping -c 2 -i 0.05 -W 1 10.9.1.3");
    b.must("ip neigh replace 10.9.1.3 lladdr 52:54:00:00:00:0c dev eth0");
    fails("ping -c 2 -i 0.05 -W 1 10.9.1.3");
    // A guest cannot choose its VLAN.
    b.must(
        "ip address del 10.9.1.2/24 dev eth0
         ip link add link eth0 name v20 type vlan id 20 && ip link set v20 up && ip address add 10.9.1.9/24 dev v20",
    );
    fails("ping -c 2 -i 0.05 -W 1 10.9.1.3");
    assert_eq!(heard(c), before, "frames of VLAN 10 in VLAN 20");
    let counters = switch.end();
    counters.check(&["receiver not connected", "filtered by the receiver", "VLAN not of the port"]);
    let dropped = |name: &str| {
        let queues = &counters.port(name).queues;
        queues.iter().filter_map(|queue| queue.drops.get("VLAN not of the port")).sum::<u64>()
    };
    assert!(dropped("b") > 0 && dropped("a") + dropped("d") == 0, "{counters:#?}");
}
