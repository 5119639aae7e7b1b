//! Frames of every shape, built and judged by `etherparse`.
mod fragments;
mod hostile;
mod segments;

use std::num::NonZeroU16;

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv4Options, Ipv6Extensions, Ipv6Header, Ipv6RawExtHeader,
    Ipv6RoutingExtensions, PacketBuilder, PacketBuilderStep, TcpHeader, VlanId,
};
use proptest::prelude::*;

use super::*;
use crate::net::{Offload, PartialChecksum, SegmentKind, Segmentation, checksum};

/// What all frames have: everything in front of the transport header.
#[derive(Clone, Debug)]
struct Below {
    v6: bool,
    /// VLAN tags, up to two.
    tags: usize,
    identification: u16,
    dont_fragment: bool,
    /// Well-formed IPv4 options, a whole number of words.
    options: Vec<u8>,
    /// Lengths of IPv6 extension headers in units of eight bytes.
    hop_by_hop: Option<usize>,
    destination: Option<usize>,
    routing: Option<usize>,
    final_destination: Option<usize>,
}

const SOURCE_V4: [u8; 4] = [10, 1, 2, 3];
const DESTINATION_V4: [u8; 4] = [192, 168, 255, 254];
const SOURCE_V6: [u8; 16] = [0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const DESTINATION_V6: [u8; 16] = [0xfd, 99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85];

fn extension(units: usize) -> Ipv6RawExtHeader {
    // Also a routing header's: type 3 and no segments left.
    let bytes: Vec<u8> = [3, 0].into_iter().chain((2..units * 8 - 2).map(|i| i as u8)).collect();
    Ipv6RawExtHeader::new_raw(IpNumber::UDP, &bytes).unwrap()
}

impl Below {
    fn network(&self) -> usize {
        14 + 4 * self.tags
    }

    fn transport(&self) -> usize {
        let extensions = [self.hop_by_hop, self.destination, self.routing, self.final_destination];
        match self.v6 {
            true => self.network() + 40 + 8 * extensions.iter().flatten().sum::<usize>(),
            false => self.network() + 20 + self.options.len(),
        }
    }

    /// Where the fragmentable part begins (RFC 791 §3.2, RFC 8200 §4.5).
    fn fragmentable(&self) -> usize {
        let before = match (self.v6, self.routing) {
            (false, _) => return self.transport(),
            (true, Some(_)) => [self.hop_by_hop, self.destination, self.routing],
            (true, None) => [self.hop_by_hop, None, None],
        };
        self.network() + 40 + 8 * before.iter().flatten().sum::<usize>()
    }

    fn builder(&self) -> PacketBuilderStep<IpHeaders> {
        let ip = match self.v6 {
            true => IpHeaders::Ipv6(
                Ipv6Header {
                    hop_limit: 3,
                    source: SOURCE_V6,
                    destination: DESTINATION_V6,
                    ..Ipv6Header::default()
                },
                Ipv6Extensions {
                    hop_by_hop_options: self.hop_by_hop.map(extension),
                    destination_options: self.destination.map(extension),
                    routing: self.routing.map(|units| Ipv6RoutingExtensions {
                        routing: extension(units),
                        final_destination_options: self.final_destination.map(extension),
                    }),
                    ..Ipv6Extensions::default()
                },
            ),
            false => {
                let mut header =
                    Ipv4Header::new(0, 9, IpNumber::UDP, SOURCE_V4, DESTINATION_V4).expect("no payload yet");
                header.identification = self.identification;
                header.dont_fragment = self.dont_fragment;
                header.fragment_offset = IpFragOffset::ZERO;
                header.options = Ipv4Options::try_from(&self.options[..]).unwrap();
                IpHeaders::Ipv4(header, Default::default())
            }
        };
        let ethernet = PacketBuilder::ethernet2([2, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2]);
        let tag = |id| VlanId::try_new(id).unwrap();
        match self.tags {
            0 => ethernet.ip(ip),
            1 => ethernet.single_vlan(tag(7)).ip(ip),
            _ => ethernet.double_vlan(tag(8), tag(9)).ip(ip),
        }
    }

    fn tcp(&self, header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        self.builder().tcp_header(header.clone()).write(&mut frame, payload).unwrap();
        never_zero(&mut frame, self.transport() + 16);
        frame
    }

    fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        self.builder().udp(4000, 53).write(&mut frame, payload).unwrap();
        never_zero(&mut frame, self.transport() + 6);
        frame
    }

    fn offload(&self, kind: SegmentKind, segment_bytes: u16) -> Offload {
        let offset = kind.checksum_offset();
        Offload {
            checksum: Some(PartialChecksum { start: self.transport() as u16, offset }),
            verified: false,
            segmentation: Some(Segmentation {
                kind,
                ecn: false,
                segment_bytes: NonZeroU16::new(segment_bytes).unwrap(),
                header_bytes_hint: 1,
            }),
        }
    }
}

/// All ones say the same as zero to every verifier, and we never store zero.
fn never_zero(frame: &mut [u8], at: usize) {
    if frame[at..at + 2] == [0, 0] {
        frame[at..at + 2].fill(0xff);
    }
}

/// Nothing unusual in front of the transport header.
fn plain(v6: bool) -> Below {
    Below {
        v6,
        tags: 0,
        identification: 1,
        dont_fragment: true,
        options: vec![],
        hop_by_hop: None,
        destination: None,
        routing: None,
        final_destination: None,
    }
}

fn below() -> impl Strategy<Value = Below> {
    let options = prop::sample::select(vec![
        vec![],
        vec![1, 1, 1, 0],
        vec![0x94, 4, 0, 0, 7, 7, 4, 1, 2, 3, 4, 0], // Router alert (copied), record route (not copied).
        (0..40).map(|i| if i == 0 { 7 } else { 39 }).collect::<Vec<u8>>(),
    ]);
    let units = || prop::option::weighted(0.3, 1_usize..4);
    (any::<(bool, u16, bool)>(), 0_usize..3, options, units(), units(), units(), units()).prop_map(
        |((v6, identification, dont_fragment), tags, options, hop_by_hop, destination, routing, last)| {
            let final_destination = routing.and(last);
            #[rustfmt::skip]
            let below = Below {
                v6, tags, identification, dont_fragment, options,
                hop_by_hop, destination, routing, final_destination,
            };
            below
        },
    )
}

/// What a switch does with a frame, the copies included. `first` is how much it looks at before it knows.
fn cut(frame: &[u8], first: usize, offload: &Offload) -> Result<Vec<Vec<u8>>, SegmentError> {
    let mut head = first.min(frame.len());
    loop {
        let needed = headers_needed(&frame[..head], offload);
        assert!(needed <= MAX_HEAD_BYTES);
        if needed <= head || head == frame.len() {
            break;
        }
        head = needed.min(frame.len());
    }
    let plan = Plan::new(&frame[..head], frame.len() as u32, offload, 0x1234_5678)?;
    let mut headers = vec![Headers::new(); plan.pieces() as usize];
    let mut sums = Vec::new();
    let mut payloads = Vec::new();
    for (index, headers) in headers.iter_mut().enumerate() {
        let piece = plan.write(index as u32, headers).unwrap();
        assert_eq!(headers.bytes().len(), piece.header_bytes);
        let payload = &frame[piece.payload.start as usize..piece.payload.end as usize];
        sums.push((checksum::sum(payload), payload.len()));
        payloads.push(payload);
    }
    assert_eq!(plan.segment(plan.pieces()), None);
    match plan.sum_of() {
        SumOf::Segment => headers.iter_mut().zip(&sums).for_each(|(headers, (sum, _))| headers.finish(*sum)),
        SumOf::Frame => {
            let whole = sums.iter().fold((0, 0), |(sum, len), (more, more_len)| {
                (checksum::concat(sum, len, *more), len + more_len)
            });
            headers.iter_mut().for_each(|headers| headers.finish(whole.0));
        }
        SumOf::Nothing => {}
    }
    Ok(headers.iter().zip(payloads).map(|(headers, payload)| [headers.bytes(), payload].concat()).collect())
}
