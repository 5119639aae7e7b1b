//! Frames that this project cuts, held against Linux: the same frame goes to a TAP with offloads, from where a bridge
//! sends it by a veth without any, and to a TAP without, for which it is cut here.
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::net::{RecvFlags, recv};
use virtio::net::NetHeader;

use crate::exchange::{LIMIT, accept, packet_socket, readable};
use crate::frames::open;
use crate::namespace::Namespace;

const SENDER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x42];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound) as usize
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.below(256) as u8)
    }
}

/// Sum of 16-bit words, folded.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Extension headers, each with the number of the next, and the last.
fn extensions(numbers: &mut Numbers, transport: u8) -> (u8, Vec<u8>) {
    let (mut next, mut bytes) = (transport, Vec::new());
    // Built from the last: destination options, a route, hop-by-hop options, each now and then.
    for kind in [60u8, 43, 0] {
        if numbers.below(3) > 0 {
            continue;
        }
        let padding = |length: u8| [vec![1, length], vec![0; length.into()]].concat();
        let units = numbers.below(3) as u8;
        let body = match kind {
            // Of a type that nothing is known of, with segments left.
            43 => [vec![3, numbers.below(3) as u8, 0, 0, 0, 0], vec![0; 8 * usize::from(units)]].concat(),
            _ => padding(4 + 8 * units),
        };
        bytes = [vec![next, units], body, bytes].concat();
        next = kind;
    }
    (next, bytes)
}

/// A frame to cut, with its net header, and how many pieces it makes.
fn frame(numbers: &mut Numbers) -> (NetHeader, Vec<u8>, usize) {
    let v6 = numbers.below(2) == 1;
    let transport = [TCP, UDP][numbers.below(2)];
    let gso_size = 100 + numbers.below(1300);
    let payload = gso_size + 1 + numbers.below(8000);
    let mut body = Vec::new();
    let checksum_at = match transport {
        TCP => {
            let words = 5 + numbers.below(6);
            body.extend([0x13, 0x88, 0, 80]);
            body.extend(numbers.bytes::<8>());
            // All flags, SYN, RST and URG with a pointer among them.
            body.extend([(words as u8) << 4, numbers.below(256) as u8, 2, 0, 0, 0]);
            body.extend(numbers.bytes::<2>());
            body.resize(4 * words, 1);
            16
        }
        _ => {
            body.extend([0x0f, 0xa0, 0, 53, 0, 0, 0, 0]);
            6
        }
    };
    let headers = body.len();
    body.extend((0..payload).map(|i| (i * 31 % 251) as u8));
    let length = body.len() as u16;
    if transport == UDP {
        body[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let mut frame =
        [&[0x02, 0, 0, 0, 0, 0x99][..], &SENDER, if v6 { &[0x86, 0xdd] } else { &[8, 0] }].concat();
    let pseudo = if v6 {
        let (next, extensions) = extensions(numbers, transport);
        let addresses = [vec![0xfd; 16], vec![0xfc; 16]].concat();
        frame.extend([0x60, 0, 0, 0]);
        frame.extend((length + extensions.len() as u16).to_be_bytes());
        frame.extend([next, 9]);
        frame.extend(&addresses);
        frame.extend(extensions);
        sum(&[&addresses, &length.to_be_bytes(), &[0, transport]])
    } else {
        let mut ip = vec![0x45, 0, 0, 0];
        ip[2..].copy_from_slice(&(20 + length).to_be_bytes());
        ip.extend(numbers.bytes::<2>());
        ip.extend([[0x40, 0], [0, 0]][numbers.below(2)]);
        ip.extend([9, transport, 0, 0, 10, 1, 2, 3, 10, 1, 2, 4]);
        let field = !sum(&[&ip]);
        ip[10..12].copy_from_slice(&field.to_be_bytes());
        frame.extend(&ip);
        sum(&[&ip[12..], &length.to_be_bytes(), &[0, transport]])
    };
    body[checksum_at..checksum_at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let start = frame.len();
    frame.extend(body);
    let header = NetHeader {
        flags: NetHeader::F_NEEDS_CSUM,
        gso_type: match (transport, v6) {
            (TCP, false) => NetHeader::GSO_TCPV4,
            (TCP, true) => NetHeader::GSO_TCPV6,
            _ => NetHeader::GSO_UDP_L4,
        },
        hdr_len: (start + headers) as u16,
        gso_size: gso_size as u16,
        csum_start: start as u16,
        csum_offset: checksum_at as u16,
        num_buffers: 0,
    };
    (header, frame, payload.div_ceil(gso_size))
}

/// The next so many frames of our sender.
fn receive(socket: &OwnedFd, count: usize, what: &str) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + LIMIT;
    let (mut bytes, mut came) = (vec![0; 70_000], Vec::new());
    while came.len() < count {
        assert!(readable(socket.as_fd(), deadline), "{} of {count} pieces came: {what}", came.len());
        let (len, _) = recv(socket, &mut bytes, RecvFlags::empty()).unwrap();
        if bytes[6..12] == SENDER {
            came.push(bytes[..len].to_vec());
        }
    }
    came
}

#[test]
fn frames_are_cut_as_linux_cuts_them() {
    let namespace = Namespace::new();
    let (_linux, mut linux) = open(&namespace, "t0,up=on");
    let (_ours, mut ours) = open(&namespace, "t1,up=on,offloads=off");
    namespace.sh("ip link add v0 type veth peer name v1 && ip link add b0 type bridge mcast_snooping 0 && \
         ip link set t0 master b0 && ip link set v0 master b0 && ethtool -K v0 tx off sg off && \
         ip link set v0 up && ip link set v1 up && ip link set b0 up");
    let (of_linux, of_ours) = (packet_socket(&namespace, "v1"), packet_socket(&namespace, "t1"));
    let mut numbers = Numbers(1);
    for round in 0..300 {
        let (header, frame, pieces) = frame(&mut numbers);
        let what = format!("frame {round}: {header:?} {:02x?}", &frame[..usize::from(header.hdr_len)]);
        accept(linux.sinks.get_mut(&0).unwrap().as_mut(), &[(header, frame.clone())]);
        accept(ours.sinks.get_mut(&0).unwrap().as_mut(), &[(header, frame)]);
        let right = receive(&of_linux, pieces, &what);
        for (index, (mut piece, right)) in receive(&of_ours, pieces, &what).into_iter().zip(right).enumerate()
        {
            // All ones say the same as zero, which Linux stores for TCP.
            let field = usize::from(header.csum_start + header.csum_offset);
            if right[field..field + 2] == [0, 0] && piece[field..field + 2] == [0xff, 0xff] {
                piece[field..field + 2].fill(0);
            }
            assert_eq!(piece, right, "piece {index} of {what}");
        }
    }
}
