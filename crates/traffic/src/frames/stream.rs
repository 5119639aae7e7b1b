//! A stream of stamped frames, made ready in bursts.
use std::net::Ipv4Addr;
use std::ops::Range;

use frame::{FrameBatch, OwnMemory, SNAPSHOT_BYTES};
use virtio::net::{HeaderLayout, MacAddress, NetHeader, checksum};

use super::size::{ETHERNET, IPV4, UDP, VLAN};
use super::{FrameSize, STAMP_BYTES, SizeMix, Stamp};

/// The header fields of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Ethernet source.
    pub source: MacAddress,
    /// Ethernet destination.
    pub destination: MacAddress,
    /// The VLAN identifier of an 802.1Q tag; `None` for no tag.
    pub vlan: Option<u16>,
    /// The IP source. RFC 2544 appendix C reserves 198.18.0.0/15 for tests.
    pub source_ip: Ipv4Addr,
    /// IP destination.
    pub destination_ip: Ipv4Addr,
    /// The UDP source port of flow 0. Each further flow has the next port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            source: MacAddress([0x02, 0, 0, 0, 0, 0x01]),
            destination: MacAddress([0x02, 0, 0, 0, 0, 0x02]),
            vlan: None,
            source_ip: Ipv4Addr::new(198, 18, 0, 1),
            destination_ip: Ipv4Addr::new(198, 19, 0, 1),
            source_port: 1024,
            destination_port: 7, // echo, as RFC 2544 appendix C has it
        }
    }
}

impl Fields {
    /// The smallest size that holds the headers and a stamp.
    pub fn shortest(&self) -> FrameSize {
        if self.vlan.is_some() { FrameSize::MIN_TAGGED } else { FrameSize::MIN }
    }
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A length of the mix has no room for the fields.
    #[error("frames with a VLAN tag need {shortest} bytes; leave it out or send longer ones")]
    TooShort {
        /// The shortest length that has room.
        shortest: FrameSize,
    },
    /// The system refuses memory.
    #[error("allocate memory for the frames to send: {0}; free some memory")]
    Memory(#[source] std::io::Error),
    /// The frames do not fit into one batch.
    #[error("put the frames to send into a batch: {0}; send a mix of fewer lengths")]
    Batch(&'static str),
}

/// One flow's next sequence number and headers.
#[derive(Clone, Debug)]
struct Flow {
    sequence: u64,
    source_port: u16,
}

/// One slot of the repeating burst: length and the sum of everything the UDP checksum covers but the
/// stamp and the source port.
#[derive(Clone, Copy, Debug)]
struct Slot {
    base_sum: u16,
}

/// Stamped UDP frames in memory of this process. Flows take turns, and lengths follow the mix.
#[derive(Debug)]
pub struct Stream {
    batch: FrameBatch,
    slots: Vec<Slot>,
    flows: Vec<Flow>,
    next_slot: usize,
    next_flow: usize,
    first_flow: u16,
    stamp_at: usize,
    which: Vec<u16>,
}

impl Stream {
    /// Makes frames with these lengths in these flows (at least one). One receiver can check the flows of several
    /// streams together.
    ///
    /// # Errors
    /// A frame of the mix is too short for the fields (with a VLAN tag it needs 68 bytes), the memory for the frames
    /// is refused, or a batch has no room for them.
    pub fn new(fields: Fields, mix: &SizeMix, flows: Range<u16>) -> Result<Self, StreamError> {
        let shortest = fields.shortest();
        if mix.period().iter().any(|size| *size < shortest) {
            return Err(StreamError::TooShort { shortest });
        }
        let period: Vec<u16> = mix.period().into_iter().map(FrameSize::in_buffer).collect();
        // Whole periods, and enough slots that a burst does not write one twice.
        let slots = period.len() * 64usize.div_ceil(period.len());
        let stride = |bytes: u16| (NetHeader::BYTES + usize::from(bytes)).next_multiple_of(64);
        // One image for each length is enough: only the head differs from frame to frame, and this code writes it.
        let mut lengths = period.clone();
        lengths.sort_unstable();
        lengths.dedup();
        let total: usize = lengths.iter().map(|&bytes| stride(bytes)).sum();
        let memory = OwnMemory::new(c"tautline-stream", total as u64).map_err(StreamError::Memory)?;
        let mut images = Vec::new();
        let mut at = 0u64;
        for &bytes in &lengths {
            let frame = image(&fields, usize::from(bytes));
            memory.slice(at as usize + NetHeader::BYTES, frame.len()).write(&frame);
            images.push((bytes, at, base_sum(&fields, &frame)));
            at += stride(bytes) as u64;
        }
        let mut lender = memory.sg_builder();
        let mut batch = FrameBatch::of_images(slots);
        let mut made = Vec::with_capacity(slots);
        for &bytes in period.iter().cycle().take(slots) {
            let (_, at, base_sum) = images[lengths.binary_search(&bytes).unwrap_or(0)];
            let Some(lent) = batch.arena_mut() else { continue };
            let first = lent.len();
            let len = (NetHeader::BYTES + usize::from(bytes)) as u32;
            lender.push(lent, at, len);
            batch.push(first, HeaderLayout::Full).map_err(|reason| StreamError::Batch(reason.text()))?;
            made.push(Slot { base_sum });
        }
        let flow = |i| Flow { sequence: 0, source_port: fields.source_port.wrapping_add(i) };
        Ok(Stream {
            batch,
            slots: made,
            flows: (flows.start..flows.end.max(flows.start + 1)).map(flow).collect(),
            first_flow: flows.start,
            next_slot: 0,
            next_flow: 0,
            stamp_at: stamp_at(&fields),
            which: Vec::with_capacity(64),
        })
    }

    /// The next `count` frames (at most 64), to be given to a sink together. `due_ns` gives the time at which each is
    /// due.
    #[inline]
    pub fn burst(&mut self, count: usize, mut due_ns: impl FnMut(usize) -> u64) -> (&FrameBatch, &[u16]) {
        self.which.clear();
        for i in 0..count.min(64) {
            let slot = self.next_slot;
            self.next_slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
            let number = self.next_flow;
            self.next_flow = if number + 1 == self.flows.len() { 0 } else { number + 1 };
            let flow = &mut self.flows[number];
            let stamp =
                Stamp { flow: self.first_flow + number as u16, sequence: flow.sequence, due_ns: due_ns(i) };
            flow.sequence += 1;
            write_head(
                self.batch.snapshot_mut(slot),
                self.stamp_at,
                flow.source_port,
                stamp,
                self.slots[slot].base_sum,
            );
            self.which.push(slot as u16);
        }
        (&self.batch, &self.which)
    }

    /// The first `count` frames of the last burst once more, unchanged: for a sender that must cost nothing.
    #[inline]
    pub fn again(&self, count: usize) -> (&FrameBatch, &[u16]) {
        (&self.batch, &self.which[..count.min(self.which.len())])
    }

    /// The number of each flow, and of its next frame.
    pub fn next_by_flow(&self) -> impl Iterator<Item = (u16, u64)> {
        (self.first_flow..).zip(self.sent_by_flow())
    }

    /// Frames made so far, for each flow.
    pub fn sent_by_flow(&self) -> impl Iterator<Item = u64> {
        self.flows.iter().map(|flow| flow.sequence)
    }

    /// Frames made so far.
    pub fn sent(&self) -> u64 {
        self.sent_by_flow().sum()
    }
}

/// The offset of the stamp in a frame with these fields.
pub(super) fn stamp_at(fields: &Fields) -> usize {
    ETHERNET + fields.vlan.map_or(0, |_| VLAN) + IPV4 + UDP
}

#[inline(always)]
fn write_head(head: &mut [u8; SNAPSHOT_BYTES], at: usize, source_port: u16, stamp: Stamp, base_sum: u16) {
    let udp = at - UDP;
    head[udp..udp + 2].copy_from_slice(&source_port.to_be_bytes());
    head[udp + 6..udp + 8].copy_from_slice(&udp_checksum(base_sum, source_port, stamp).to_be_bytes());
    head[at..at + STAMP_BYTES].copy_from_slice(&stamp.to_bytes());
}

/// The checksum of a datagram that is made from an image with this [`base_sum`].
#[inline(always)]
pub(super) fn udp_checksum(base_sum: u16, source_port: u16, stamp: Stamp) -> u16 {
    let sum = u64::from(base_sum) + u64::from(source_port) + stamp.sum();
    checksum::nonzero_field(checksum::fold(sum))
}

/// A frame with zeros for stamp, source port and UDP checksum.
pub(super) fn image(fields: &Fields, bytes: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(bytes);
    frame.extend(fields.destination.0);
    frame.extend(fields.source.0);
    if let Some(vlan) = fields.vlan {
        frame.extend([0x81, 0x00]);
        frame.extend((vlan & 0xfff).to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    let ip_bytes = (bytes - frame.len()) as u16;
    let at = frame.len();
    frame.extend([0x45, 0]);
    frame.extend(ip_bytes.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]); // do not fragment; time to live 64; UDP
    frame.extend(fields.source_ip.octets());
    frame.extend(fields.destination_ip.octets());
    let checksum = checksum::ipv4_header_field(&frame[at..]);
    frame[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(fields.destination_port.to_be_bytes());
    frame.extend((ip_bytes - IPV4 as u16).to_be_bytes());
    frame.extend([0; 2 + STAMP_BYTES]);
    // Not constant, so that a shifted copy shows.
    let rest = bytes.saturating_sub(frame.len());
    frame.extend((0..rest).map(|i| (i * 31 + 7) as u8));
    frame
}

/// The sum of what the UDP checksum of an image covers, including the pseudo header (RFC 768).
pub(super) fn base_sum(fields: &Fields, frame: &[u8]) -> u16 {
    const UDP_PROTOCOL: u8 = 17;
    let datagram = &frame[stamp_at(fields) - UDP..];
    let (source, destination) = (fields.source_ip.octets(), fields.destination_ip.octets());
    let pseudo = checksum::pseudo_v4(source, destination, UDP_PROTOCOL, datagram.len() as u16);
    checksum::add(pseudo, checksum::sum(datagram))
}

#[cfg(test)]
impl Stream {
    pub(super) fn batch_mut(&mut self) -> &mut FrameBatch {
        &mut self.batch
    }

    /// Makes the next frame use the first slot again.
    pub(super) fn rewind(&mut self) {
        self.next_slot = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::SlicedPacket;

    /// The frames of a burst as a receiver would see them.
    fn frames(stream: &mut Stream, count: usize) -> Vec<Vec<u8>> {
        let (batch, which) = stream.burst(count, |i| i as u64);
        which.iter().map(|&i| whole(batch, usize::from(i))).collect()
    }

    pub(crate) fn whole(batch: &FrameBatch, index: usize) -> Vec<u8> {
        let frame = batch.frame(index);
        let (pieces, skip) = frame.slices();
        let mut bytes = frame.snapshot().to_vec();
        bytes.resize(frame.len_bytes(), 0);
        let rest = &mut bytes[frame.snapshot().len()..];
        memory::SgList::new(pieces).skip(skip + SNAPSHOT_BYTES).read(rest);
        bytes
    }

    #[test]
    fn every_frame_is_a_sound_udp_datagram() {
        for vlan in [None, Some(100)] {
            let fields = Fields { vlan, ..Fields::default() };
            let mix = format!("{}x3+69x2+570x1+1518x1+9000x1", fields.shortest());
            let mix: SizeMix = mix.parse().unwrap();
            let mut stream = Stream::new(fields, &mix, 0..3).unwrap();
            for round in 0..5 {
                for (i, bytes) in frames(&mut stream, 40).iter().enumerate() {
                    let packet = SlicedPacket::from_ethernet(bytes).unwrap();
                    let Some(etherparse::NetSlice::Ipv4(ip)) = &packet.net else { panic!("IPv4") };
                    let header = ip.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    let Some(etherparse::TransportSlice::Udp(udp)) = &packet.transport else { panic!("UDP") };
                    let expected = udp.to_header().calc_checksum_ipv4_raw(
                        header.source,
                        header.destination,
                        udp.payload(),
                    );
                    assert_eq!(Ok(udp.checksum()), expected);
                    let n = round * 40 + i as u64;
                    let stamp = Stamp::from_bytes(udp.payload()).unwrap();
                    assert_eq!(stamp, Stamp { flow: (n % 3) as u16, sequence: n / 3, due_ns: i as u64 });
                    assert_eq!(u64::from(udp.source_port()), 1024 + n % 3);
                }
            }
            assert_eq!(stream.sent(), 200);
        }
    }

    #[test]
    fn a_frame_too_short_for_its_fields_is_refused() {
        let fields = Fields { vlan: Some(1), ..Fields::default() };
        let error = Stream::new(fields, &SizeMix::fixed(FrameSize::MIN), 0..1).unwrap_err();
        assert!(error.to_string().contains("68 bytes"), "{error}");
    }
}
