//! Random frames of few addresses and ports, so that flows meet them.
use super::common::Random;
use super::flows::of;

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next() as u8).collect()
}

pub fn below(random: &mut Random, limit: usize) -> usize {
    (random.next() % limit as u64) as usize
}

fn address(random: &mut Random) -> [u8; 4] {
    [10, 0, below(random, 2) as u8, 1 + below(random, 3) as u8]
}

fn six(random: &mut Random) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&[0xfd, 1]);
    address[15] = 1 + below(random, 3) as u8;
    address
}

fn port(random: &mut Random) -> [u8; 2] {
    of(random, &[22, 80, 443, 8080_u16]).to_be_bytes()
}

fn transport(random: &mut Random, protocol: u8) -> Vec<u8> {
    let mut header = Vec::new();
    match protocol {
        6 | 17 | 132 => {
            header.extend(port(random));
            header.extend(port(random));
            header.extend(bytes(random, 16));
            if protocol == 6 {
                header[12] = 0x50;
            } else if protocol == 17 && below(random, 4) == 0 {
                header[6..8].copy_from_slice(&[0, 0]);
            }
        }
        58 if below(random, 2) == 0 => {
            let solicits = below(random, 2) == 0;
            header.extend([if solicits { 135 } else { 136 }, 0]);
            header.extend(bytes(random, 6));
            header.extend(six(random));
            header.extend([if solicits { 1 } else { 2 }, 1, 2, 0, 0, 0, 0, below(random, 3) as u8 + 1]);
        }
        _ => {
            header.extend([of(random, &[0, 8, 128, 129_u8]), 0]);
            header.extend(bytes(random, 6));
        }
    }
    let more = below(random, 40);
    header.extend(bytes(random, more));
    header
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let protocol = of(random, &[1, 6, 6, 17, 17, 132, 47]);
    let payload = transport(random, protocol);
    let options = of(random, &[0, 0, 0, 4]);
    let mut packet = bytes(random, 20 + options);
    packet[0] = 0x45 + (options / 4) as u8;
    packet[2..4].copy_from_slice(&((20 + options + payload.len()) as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&of(random, &[0, 0, 0, 0x4000, 0x2000_u16]).to_be_bytes());
    packet[8] = of(random, &[1, 2, 64, 64, 64]);
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&address(random));
    packet[16..20].copy_from_slice(&address(random));
    packet.extend(payload);
    packet
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let protocol = of(random, &[6, 17, 58, 58]);
    let payload = transport(random, protocol);
    let mut packet = bytes(random, 40);
    packet[0] = packet[0] & 0xf | 0x60;
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet[6] = protocol;
    packet[7] = of(random, &[1, 2, 64, 64, 255]);
    packet[8..24].copy_from_slice(&six(random));
    packet[24..40].copy_from_slice(&six(random));
    packet.extend(payload);
    packet
}

fn arp(random: &mut Random) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1 + below(random, 2) as u8];
    for _ in 0..2 {
        packet.extend([2, 0, 0, 0, 0, below(random, 4) as u8]);
        packet.extend(address(random));
    }
    packet.extend(bytes(random, 18));
    packet
}

pub fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    for _ in 0..2 {
        frame.extend([2, 0, 0, 0, 0, below(random, 4) as u8]);
    }
    for _ in 0..of(random, &[0, 0, 0, 1, 1, 2]) {
        frame.extend([0x81, 0, of(random, &[0, 0x20, 0x60_u8]), of(random, &[5, 6, 7_u8])]);
    }
    let (kind, packet) = match below(random, 8) {
        0 => ([8, 6], arp(random)),
        1 => ([0x88, 0xcc], bytes(random, 50)),
        2..5 => ([0x86, 0xdd], ipv6(random)),
        _ => ([8, 0], ipv4(random)),
    };
    frame.extend(kind);
    frame.extend(packet);
    if below(random, 4) == 0 {
        frame.extend([9; 7]); // padding behind the datagram
    }
    frame
}
