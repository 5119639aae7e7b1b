//! Neutron (OpenStack) controls the switch: its API, its mechanism driver for OVN, os-vif and a guest.
use std::time::{Duration, Instant};

use peers::guest::Port;
use peers::requirements::root_required;
use peers::{Guest, Neutron, Ovn};
use serde_json::{Value, json};

use super::Scene;
use super::openstack::Vif;
use crate::switch_process::{SwitchProcess, wait_for};

const PAGE: &str = include_str!("../../../../../docs/under-neutron.md");
/// The name of the compute node in the page.
const HOST: &str = "compute1";
/// The TCP port of the guest's server.
const SERVICE: u16 = 8000;
/// Bytes that it sends each time.
const PAYLOAD: u64 = 300_000;

/// The blocks of docs/under-neutron.md that carry this test's name.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let fence =
        format!("<!-- test: run by crates/tautline/tests/switch/ovsdb/neutron.rs -->\n```{language}\n");
    let blocks: Vec<_> = PAGE.split(&fence).skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty(), "the page has no block of {language}");
    blocks.into_iter()
}

/// A text of the API.
#[track_caller]
fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_else(|| panic!("{key} of {of}"))
}

/// A compute node under Neutron.
struct Cloud {
    scene: Scene,
    ovn: Ovn,
    neutron: Neutron,
}

impl Cloud {
    fn new() -> Self {
        let scene = Scene::new();
        let prepare = blocks("sh").next().unwrap();
        prepare.lines().for_each(|line| drop(scene.vsctl(line.strip_prefix("ovs-vsctl ").unwrap())));
        let ovn = Ovn::start(&scene.database).unwrap();
        wait_for("the bridge of OVN", || scene.vsctl("list-br").contains("br-int").then_some(()));
        let sockets = scene.sockets.path("").display().to_string();
        let settings: String =
            blocks("ini").map(|block| block.replace("/run/vhost", sockets.trim_end_matches('/'))).collect();
        let neutron = Neutron::start(&scene.network, &ovn, &settings).unwrap();
        Cloud { scene, ovn, neutron }
    }

    /// Creates a resource of the project `p`.
    #[track_caller]
    fn create(&self, kind: &str, mut attributes: Value) -> Value {
        attributes["project_id"] = json!("p");
        self.neutron.create(kind, attributes).unwrap()
    }

    /// Returns once the switch forwards by what Neutron has written.
    fn sync(&self) {
        self.ovn.nbctl(&["--wait=hv", "sync"]).unwrap();
    }

    /// A network with a subnet; `more` are attributes of the subnet. Returns the identities of both.
    fn network(&self, network: Value, cidr: &str, more: Value) -> [String; 2] {
        let network = text(&self.create("network", network), "id").to_owned();
        let mut subnet = json!({ "network_id": network, "cidr": cidr, "ip_version": 4 });
        subnet.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let subnet = text(&self.create("subnet", subnet), "id").to_owned();
        [network, subnet]
    }

    /// A rule that lets a protocol in.
    fn let_in(&self, group: &str, protocol: &str) -> String {
        let mut rule = json!({
            "security_group_id": group, "direction": "ingress", "ethertype": "IPv4", "protocol": protocol,
        });
        if protocol == "tcp" {
            rule["port_range_min"] = json!(SERVICE);
            rule["port_range_max"] = json!(SERVICE);
        }
        text(&self.create("security_group_rule", rule), "id").to_owned()
    }

    /// A port for a server on the compute node, plugged as Nova does.
    fn server(&self, network: &str, group: &str) -> Server {
        let port = self.create(
            "port",
            json!({
                "network_id": network, "security_groups": [group], "binding:host_id": HOST,
                "device_id": "server", "device_owner": "compute:nova",
            }),
        );
        assert_eq!(text(&port, "binding:vif_type"), "vhostuser", "{port}");
        let details = &port["binding:vif_details"];
        assert_eq!(
            (text(details, "vhostuser_mode"), details["vhostuser_ovs_plug"].as_bool()),
            ("server", Some(true))
        );
        let vif = Vif {
            id: text(&port, "id").to_owned(),
            address: text(&port, "mac_address").to_owned(),
            path: text(details, "vhostuser_socket").into(),
            mode: "server",
        };
        vif.run("plug", &self.scene);
        Server { vif, address: text(&port["fixed_ips"][0], "ip_address").to_owned() }
    }

    /// Waits until Neutron shows a port as ready.
    fn wait_until_active(&self, server: &Server) {
        wait_for("the port's status", || {
            let port = self.neutron.get(&format!("ports/{}", server.vif.id)).unwrap();
            (text(&port["port"], "status") == "ACTIVE").then_some(())
        });
    }
}

/// A port of a server.
struct Server {
    vif: Vif,
    /// The address that Neutron gave it.
    address: String,
}

/// A shell's command that fetches [`PAYLOAD`] from the guest's server, and gives up after some seconds.
fn fetch(address: &str, seconds: u16) -> String {
    let client = format!("iperf3 --client {address} --port {SERVICE} --bytes {PAYLOAD} --reverse --json");
    format!("busybox timeout -s KILL {seconds} {client}")
}

/// Whether the payload of [`fetch`] arrived.
#[track_caller]
fn arrived(output: &peers::Output) -> bool {
    let received = peers::bytes_received(&output.stdout);
    assert!(received.is_none_or(|bytes| bytes >= PAYLOAD), "{}", output.stdout);
    received.is_some()
}

/// Runs a command line in the namespace of one of the guest's ports.
fn within(guest: &Guest, port: usize, line: &str) -> peers::Output {
    guest.run_within(&format!("ip netns exec n{port} sh -c '{line}'"), Duration::from_secs(60)).unwrap()
}

/// Answers as Nova's service of metadata, with the identity of the server that the agent has found.
const METADATA: &str = "import http.server
class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path + ' of ' + self.headers['X-Instance-ID']).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'text/plain; charset=UTF-8')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 8775), Service).serve_forever()";

/// Servers get their metadata from the agent, which joins their network by an interface without a type.
fn check_metadata(cloud: &Cloud, guest: &Guest) {
    let scene = &cloud.scene;
    let service = scene.sockets.path("metadata.py");
    std::fs::write(&service, METADATA).unwrap();
    let _service = scene.network.start(&format!("python3 {}", service.display())).unwrap();
    let agent = Neutron::start_metadata_agent(&scene.network, &cloud.ovn, &scene.database.socket()).unwrap();
    let request = "printf \"GET /latest/meta-data/instance-id HTTP/1.0\\r\\n\\r\\n\"";
    let line = format!("{request} | busybox timeout -s KILL 5 busybox nc 169.254.169.254 80");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let said = within(guest, 0, &line);
        if said.stdout.contains("/latest/meta-data/instance-id of server") {
            return;
        }
        assert!(Instant::now() < deadline, "no metadata: {said:?}; the agent said {}", agent.said());
    }
}

/// Moves each card to a namespace of the guest and requests its address by DHCP. OVN answers what Neutron says.
#[track_caller]
fn ask_for_addresses(guest: &Guest, servers: &[Server]) {
    guest.must(
        "printf '#!/bin/sh\\n[ $1 = bound ] || exit 0\\nip address add $ip/$mask dev $interface\\n\
         ip link set $interface mtu $mtu\\nset -- $staticroutes\\n\
         while [ $# -gt 1 ]; do ip route add $1 via $2; shift 2; done\\n' >/tmp/lease && chmod 755 /tmp/lease",
    );
    for (at, server) in servers.iter().enumerate() {
        guest.must(&format!(
            "set -e
             ip netns add n{at} && ip link set eth{at} netns n{at} && ip -n n{at} link set eth{at} up
             ip netns exec n{at} busybox udhcpc -i eth{at} -n -q -t 20 -T 1 -O mtu -O staticroutes -s /tmp/lease
             ip -n n{at} address show dev eth{at} | grep -F '{}/24'
             ip -n n{at} link show dev eth{at} | grep -F 'mtu 1442 '
             ip netns exec n{at} ping -c 3 -i 0.1 10.1.0.1",
            server.address
        ));
    }
}

#[test]
fn neutron_connects_guests() {
    if !root_required() {
        return;
    }
    let cloud = Cloud::new();
    let scene = &cloud.scene;
    let [inside, subnet] = cloud.network(json!({ "name": "inside" }), "10.1.0.0/24", json!({}));
    let [outside, _] = cloud.network(
        json!({
            "name": "outside", "router:external": true, "provider:network_type": "flat",
            "provider:physical_network": "public",
        }),
        "203.0.113.0/24",
        json!({ "enable_dhcp": false, "gateway_ip": "203.0.113.1" }),
    );
    let gateway = json!({ "external_gateway_info": { "network_id": outside } });
    let router = text(&cloud.create("router", gateway), "id").to_owned();
    let interface = json!({ "subnet_id": subnet });
    cloud.neutron.put(&format!("routers/{router}/add_router_interface"), interface).unwrap();
    let group = text(&cloud.create("security_group", json!({ "name": "web" })), "id").to_owned();
    let rule = cloud.let_in(&group, "tcp");
    cloud.let_in(&group, "icmp");
    let servers = [cloud.server(&inside, &group), cloud.server(&inside, &group)];

    let cards =
        servers.each_ref().map(|server| Port::new(&server.vif.path).mac(&server.vif.address).server());
    let guest = Guest::with_ports(cards).unwrap();
    servers.iter().for_each(|server| cloud.wait_until_active(server));
    cloud.sync();
    check_page(scene, &servers[0].vif);

    ask_for_addresses(&guest, &servers);
    check_metadata(&cloud, &guest);
    guest.must(&format!("ip netns exec n1 iperf3 --server --daemon --port {SERVICE}"));
    let second = &servers[1].address;
    let from_neighbor = |seconds| arrived(&within(&guest, 0, &fetch(second, seconds)));
    assert!(from_neighbor(30));

    // A floating IP, from the network outside.
    scene.network.configure("br-ex", "203.0.113.1/24").unwrap();
    let floating =
        cloud.create("floatingip", json!({ "floating_network_id": outside, "port_id": servers[1].vif.id }));
    let floating = text(&floating, "floating_ip_address").to_owned();
    cloud.sync();
    let from_outside = |seconds| arrived(&scene.network.run(&fetch(&floating, seconds)).unwrap());
    assert!(from_outside(30));
    // The other port goes out by the router's address.
    within(&guest, 0, "ping -c 3 -i 0.1 203.0.113.1").expect_success();

    // Without the rule, nothing is let in but pings.
    cloud.neutron.delete(&format!("security-group-rules/{rule}")).unwrap();
    cloud.sync();
    assert!(!from_neighbor(3) && !from_outside(3));
    within(&guest, 0, &format!("ping -c 3 -i 0.1 {second}")).expect_success();
    cloud.let_in(&group, "tcp");
    cloud.sync();
    assert!(from_neighbor(30) && from_outside(30));

    // A killed switch is started again: the guest and the controller connect to it, and flows and ports are back.
    let arguments = scene.arguments(&scene.sockets);
    let Cloud { mut scene, ovn: _ovn, neutron: _neutron } = cloud;
    scene.switch.kill();
    scene.switch = SwitchProcess::start_in(&scene.network, &arguments);
    wait_for("br-ex", || {
        scene.network.run("ip link show br-ex").is_ok_and(|shown| shown.success()).then_some(())
    });
    scene.network.configure("br-ex", "203.0.113.1/24").unwrap();
    wait_for("the neighbor", || arrived(&within(&guest, 0, &fetch(second, 3))).then_some(()));
    let from_outside = || arrived(&scene.network.run(&fetch(&floating, 3)).unwrap());
    wait_for("the floating IP", || from_outside().then_some(()));

    servers.iter().for_each(|server| server.vif.run("unplug", &scene));
    drop(guest);
    scene.switch.end();
}

/// Runs the commands of the page that only look.
#[track_caller]
fn check_page(scene: &Scene, vif: &Vif) {
    let lines = blocks("sh").skip(1).flat_map(str::lines);
    let said: Vec<_> = lines
        .map(|line| {
            let line = line.replace("vhu01234567-89", &vif.name());
            let words = line.strip_prefix("ovs-vsctl ").unwrap().to_owned();
            wait_for("what the page says", || {
                let said = scene.vsctl(&format!("--no-wait {words}"));
                (!said.contains("down")).then_some(said)
            })
        })
        .collect();
    let [datapath, types, interface, installed] = &said[..] else { panic!("{said:?}") };
    assert_eq!(datapath, "netdev\n");
    assert!(types.contains("dpdkvhostuser,"), "{types}");
    let path = vif.path.display();
    assert_eq!(*interface, format!("{{vhost-server-path=\"{path}\"}}\nup\n[]\n"));
    assert_eq!(installed, "\"true\"\n");
}
