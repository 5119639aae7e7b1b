//! Linux as a router that tracks connections, between two interfaces whose other ends the test holds.
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, send};

#[path = "../../../port/tests/common/namespace.rs"]
#[allow(dead_code)]
mod namespace;
#[path = "../../../port/tests/common/packet_socket.rs"]
mod packet_socket;

use namespace::Namespace;

const LIMIT: Duration = Duration::from_millis(500);

/// The interface by which a frame comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    /// The side of a host.
    pub fn of(host: IpAddr) -> Side {
        let text = host.to_string();
        if text.starts_with("10.1.") || text.starts_with("fd01:") { Side::Left } else { Side::Right }
    }

    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// A datagram that has left the router. Its TTL and DSCP are those with which it came.
#[derive(Clone, Debug)]
pub struct Left {
    pub side: Side,
    pub state: &'static str,
    pub datagram: Vec<u8>,
}

const STATES: [&str; 8] =
    ["none", "new", "established", "related", "invalid", "untracked", "established reply", "related reply"];

/// Addresses behind the router that are translated: `talk.rs` uses the same ones.
const RULES: &str = r#"
flush ruleset
table inet t {
 ct helper ftp4 { type "ftp" protocol tcp; l3proto ip; }
 ct helper ftp6 { type "ftp" protocol tcp; l3proto ip6; }
 ct helper tftp4 { type "tftp" protocol udp; l3proto ip; }
 ct helper tftp6 { type "tftp" protocol udp; l3proto ip6; }
 chain h { type filter hook prerouting priority -150; policy accept;
  meta nfproto ipv4 tcp dport 21 ct helper set "ftp4"
  meta nfproto ipv6 tcp dport 21 ct helper set "ftp6"
  meta nfproto ipv4 udp dport 69 ct helper set "tftp4"
  meta nfproto ipv6 udp dport 69 ct helper set "tftp6"
 }
 chain pre { type nat hook prerouting priority -100; policy accept;
  ip daddr 10.2.0.200 dnat ip to 10.2.0.1
  ip6 daddr fd02::200 dnat ip6 to fd02::1
 }
 chain post { type nat hook postrouting priority 100; policy accept;
  ip saddr 10.1.0.2 oifname right snat ip to 10.2.0.100
  ip6 saddr fd01::2 oifname right snat ip6 to fd02::100
 }
 chain f { type filter hook forward priority 0; policy accept;
  meta nfproto ipv4 ct state vmap { new : jump n4, established : jump e4, related : jump r4, invalid : jump i4, untracked : jump u4 }
  meta nfproto ipv6 ct state vmap { new : jump n6, established : jump e6, related : jump r6, invalid : jump i6, untracked : jump u6 }
 }
 chain n4 { ip dscp set 1; }
 chain e4 { ip dscp set 2; ct direction reply ip dscp set 6; }
 chain r4 { ip dscp set 3; ct direction reply ip dscp set 7; }
 chain i4 { ip dscp set 4; }
 chain u4 { ip dscp set 5; }
 chain n6 { ip6 dscp set 1; }
 chain e6 { ip6 dscp set 2; ct direction reply ip6 dscp set 6; }
 chain r6 { ip6 dscp set 3; ct direction reply ip6 dscp set 7; }
 chain i6 { ip6 dscp set 4; }
 chain u6 { ip6 dscp set 5; }
}
"#;

/// MAC addresses: of the router's interfaces, and of their other ends.
const ROUTER: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];
const HOSTS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// The namespace with the other ends: one thread for the sockets.
pub struct Router {
    _router: Namespace,
    _hosts: Namespace,
    sockets: [OwnedFd; 2],
}

impl Router {
    /// A router without connections. `loose`: connections may be found after their beginning. `None` if the machine lacks
    /// what the router needs, which is reported.
    pub fn start(loose: bool) -> Option<Router> {
        let is_root = rustix::process::geteuid().is_root();
        if !peers::required("root", is_root, "network namespaces with nftables need root") {
            return None;
        }
        let has_nft = std::path::Path::new("/usr/sbin/nft").exists();
        if !peers::required("nft", has_nft, "install nftables") {
            return None;
        }
        let (router, hosts) = (Namespace::new(), Namespace::new());
        let id = holder(&hosts);
        for (at, name) in ["left", "right"].into_iter().enumerate() {
            router.sh(&format!(
                "ip link add {name} address {} type veth peer name {name} address {} netns {id}",
                mac(ROUTER[at]),
                mac(HOSTS[at])
            ));
            let (net, neighbour) = (at + 1, mac(HOSTS[at]));
            let mut script = format!(
                "set -e; ip link set {name} up; ip addr add 10.{net}.0.254/24 dev {name}; ip -6 addr add fd0{net}::254/64 dev {name} nodad;"
            );
            for host in ["1", "2", "100", "200"] {
                script += &format!(
                    "ip neigh add 10.{net}.0.{host} lladdr {neighbour} dev {name} nud permanent; ip -6 neigh add fd0{net}::{host} lladdr {neighbour} dev {name} nud permanent;"
                );
            }
            hosts.sh(&format!("sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1; ip link set {name} up"));
            router.sh(&script);
        }
        router.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.left.rp_filter=0 net.ipv4.conf.right.rp_filter=0 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.left.send_redirects=0 net.ipv4.conf.right.send_redirects=0");
        let sockets = hosts.run(|| ["left", "right"].map(packet_socket::packet_socket));
        router.sh(&format!("nft -f - <<'END'\n{RULES}\nEND"));
        // No connection ends by time while the test runs.
        router.sh("for file in /proc/sys/net/netfilter/nf_conntrack_*timeout*; do echo 6000 > $file; done");
        router.sh(&format!(
            "sysctl -qw net.netfilter.nf_conntrack_tcp_loose={} net.netfilter.nf_conntrack_tcp_be_liberal=0 \
             net.netfilter.nf_conntrack_checksum=0",
            u8::from(loose)
        ));
        Some(Router { _router: router, _hosts: hosts, sockets })
    }

    /// What leaves the router of these datagrams, before another one that it passes.
    pub fn pass_all(&mut self, side: Side, datagrams: &[Vec<u8>], mark: &[u8]) -> Vec<Left> {
        datagrams.iter().for_each(|datagram| self.send(side, datagram));
        self.send(side, mark);
        let mut all = Vec::new();
        while let Some(left) = self.next(side) {
            let is_mark = |datagram: &[u8]| {
                let payload = if datagram[0] >> 4 == 4 { 20 } else { 40 };
                datagram.len() == mark.len() && datagram[payload..payload + 4] == mark[payload..payload + 4]
            };
            if is_mark(&left.datagram) {
                return all;
            }
            all.push(left);
        }
        panic!("the mark did not come");
    }

    /// The datagram as it leaves the router. `None` if the router drops it.
    pub fn pass(&mut self, side: Side, datagram: &[u8]) -> Option<Left> {
        self.send(side, datagram);
        self.next(side)
    }

    fn send(&self, side: Side, datagram: &[u8]) {
        let at = side as usize;
        let mut frame = Vec::from(ROUTER[at]);
        frame.extend(HOSTS[at]);
        frame.extend(if datagram[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        frame.extend(datagram);
        send(&self.sockets[at], &frame, SendFlags::empty()).unwrap();
    }

    /// The next datagram that leaves the router.
    fn next(&mut self, side: Side) -> Option<Left> {
        let deadline = Instant::now() + LIMIT;
        let mut buffer = vec![0; 4096];
        while Instant::now() < deadline {
            for side in [side.other(), side] {
                let at = side as usize;
                while let Ok((length, _)) =
                    recv(&self.sockets[at], buffer.as_mut_slice(), RecvFlags::DONTWAIT)
                {
                    // The socket sees the frames that the test sends, too.
                    let is_ip = buffer[12..14] == [8, 0] || buffer[12..14] == [0x86, 0xdd];
                    if buffer[..6] == HOSTS[at] && is_ip {
                        return Some(left(side, &buffer[14..length]));
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None
    }
}

/// The thread that holds a namespace: `ip` finds the namespace by its id.
fn holder(namespace: &Namespace) -> i32 {
    namespace.run(|| rustix::thread::gettid().as_raw_nonzero().get())
}

fn left(side: Side, datagram: &[u8]) -> Left {
    let mut datagram = datagram.to_vec();
    let dscp = if datagram[0] >> 4 == 4 {
        let dscp = datagram[1] >> 2;
        (datagram[1], datagram[8]) = (0, datagram[8] + 1);
        let length = usize::from(u16::from_be_bytes([datagram[2], datagram[3]]));
        datagram.truncate(length);
        super::ours::sum_header(&mut datagram);
        dscp
    } else {
        let dscp = (datagram[0] << 4 | datagram[1] >> 4) >> 2;
        (datagram[0], datagram[1], datagram[7]) = (0x60, 0, datagram[7] + 1);
        dscp
    };
    Left { side, state: STATES.get(usize::from(dscp)).copied().unwrap_or("?"), datagram }
}
