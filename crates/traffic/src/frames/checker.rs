//! Checks arrived frames against the sent ones.
use frame::{Frame, SNAPSHOT_BYTES};

use super::size::{ETHERNET, IPV4, UDP, VLAN};
use super::stream::{base_sum, image, stamp_at, udp_checksum};
use super::{Fields, FrameSize, STAMP_BYTES, SizeMix, Stamp};

/// How much of each frame the receiver reads: the header-access and data-access cases of published methodology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The headers and the stamp.
    Header,
    /// Every byte. All bytes that a forwarder must not change are compared with those sent.
    Payload,
}

/// The counts of a checker. Frames that were lost are the sender's count minus [`Tally::distinct`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames of this test that arrived, each counted once.
    pub distinct: u64,
    /// The bytes of these frames, without frame check sequence.
    pub bytes: u64,
    /// Frames that arrived after a later one of their flow. Each is counted in `distinct` too.
    pub reordered: u64,
    /// Frames that arrived repeatedly.
    pub doubled: u64,
    /// Frames whose length, headers or payload differ from what was sent. They are not counted in `distinct`.
    pub altered: u64,
    /// Frames that came so late that it is unknown whether they had arrived before, or that were sent in an earlier
    /// trial. They are not counted in `distinct`.
    pub stale: u64,
    /// Frames of other programs: neighbour discovery, RARP and the like.
    pub foreign: u64,
}

impl std::ops::Sub for Tally {
    type Output = Tally;

    fn sub(self, earlier: Tally) -> Tally {
        Tally {
            distinct: self.distinct - earlier.distinct,
            bytes: self.bytes - earlier.bytes,
            reordered: self.reordered - earlier.reordered,
            doubled: self.doubled - earlier.doubled,
            altered: self.altered - earlier.altered,
            stale: self.stale - earlier.stale,
            foreign: self.foreign - earlier.foreign,
        }
    }
}

/// How far behind the newest frame of its flow a frame may come and still be recognised.
const WINDOW: u64 = 4096;

/// One flow: the next expected number, and the arrived ones among the last [`WINDOW`].
#[derive(Clone, Debug)]
struct Flow {
    /// Frames with lower numbers were sent in an earlier trial.
    first: u64,
    next: u64,
    seen: Box<[u64; (WINDOW / 64) as usize]>,
}

/// Which kind of thing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Next,
    Late,
    Again,
    Stale,
}

impl Flow {
    fn new() -> Self {
        Flow { first: 0, next: 0, seen: Box::new([0; (WINDOW / 64) as usize]) }
    }

    #[inline(always)]
    fn arrived(&mut self, sequence: u64) -> Arrival {
        if sequence < self.first {
            return Arrival::Stale;
        }
        if sequence >= self.next {
            if sequence > self.next {
                self.forget(self.next, sequence);
            }
            self.mark(sequence, true);
            self.next = sequence + 1;
            return Arrival::Next;
        }
        if self.next - sequence > WINDOW {
            return Arrival::Stale;
        }
        let (word, bit) = Self::place(sequence);
        if self.seen[word] & bit != 0 {
            return Arrival::Again;
        }
        self.seen[word] |= bit;
        Arrival::Late
    }

    /// Frames `from .. to` have not come.
    #[cold]
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen.fill(0);
            return;
        }
        (from..to).for_each(|sequence| self.mark(sequence, false));
    }

    #[inline(always)]
    fn mark(&mut self, sequence: u64, came: bool) {
        let (word, bit) = Self::place(sequence);
        if came {
            self.seen[word] |= bit;
        } else {
            self.seen[word] &= !bit;
        }
    }

    #[inline(always)]
    fn place(sequence: u64) -> (usize, u64) {
        let at = sequence % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

/// The common bytes of frames of one length.
#[derive(Debug)]
struct Image {
    /// The length of the whole frame, in bytes.
    length: usize,
    /// The head of the frame, without stamp, source port and UDP checksum.
    head: [u8; SNAPSHOT_BYTES],
    /// The sum of what the UDP checksum covers, without stamp and source port.
    base_sum: u16,
    /// The mask of the head's last bytes that lie behind the stamp.
    padding: u32,
    /// The bytes behind the head.
    rest: Vec<u8>,
}

impl Image {
    fn new(fields: &Fields, length: u16) -> Self {
        let frame = image(fields, usize::from(length));
        let mut head = [0; SNAPSHOT_BYTES];
        let there = frame.len().min(SNAPSHOT_BYTES);
        head[..there].copy_from_slice(&frame[..there]);
        let stamp_end = stamp_at(fields) + STAMP_BYTES;
        let padding = std::array::from_fn(|i| {
            if (stamp_end..there).contains(&(SNAPSHOT_BYTES - 4 + i)) { 0xff } else { 0 }
        });
        Image {
            length: usize::from(length),
            head,
            base_sum: base_sum(fields, &frame),
            padding: u32::from_ne_bytes(padding),
            rest: frame.get(SNAPSHOT_BYTES..).unwrap_or_default().to_vec(),
        }
    }

    /// Whether this is the head of one of the sent frames. Lengths, addresses, ports and padding are as they were sent,
    /// and the checksum is that of what was sent. Forwarders may have rewritten only the Ethernet header, type of
    /// service, time to live and the IP header's checksum.
    #[inline(always)]
    fn has_head(&self, head: &[u8; SNAPSHOT_BYTES], stamp_at: usize, source_port: u16, stamp: Stamp) -> bool {
        const { assert!(SNAPSHOT_BYTES >= ETHERNET + VLAN + IPV4 + UDP + STAMP_BYTES, "a stamp ends in the head") };
        let (ip, udp) = (stamp_at - UDP - IPV4, stamp_at - UDP);
        let checksum = udp_checksum(self.base_sum, source_port, stamp);
        let padding = |head: &[u8; SNAPSHOT_BYTES]| word(head, SNAPSHOT_BYTES - 4).map(u32::from_ne_bytes);
        word::<2>(head, ip + 2) == word(&self.head, ip + 2)
            && word::<8>(head, ip + 12) == word(&self.head, ip + 12)
            && word(head, udp) == Some(source_port.to_be_bytes())
            && word::<4>(head, udp + 2) == word(&self.head, udp + 2)
            && word(head, udp + 6) == Some(checksum.to_be_bytes())
            && padding(head).zip(padding(&self.head)).is_some_and(|(a, b)| (a ^ b) & self.padding == 0)
    }
}

#[inline(always)]
fn word<const N: usize>(head: &[u8; SNAPSHOT_BYTES], at: usize) -> Option<[u8; N]> {
    head.get(at..)?.first_chunk().copied()
}

/// Checks the arrived frames of one stream.
#[derive(Debug)]
pub struct Checker {
    flows: Vec<Flow>,
    images: Vec<Image>,
    access: Access,
    stamp_at: usize,
    /// The source port of flow 0.
    source_port: u16,
    copy: Vec<u8>,
    tally: Tally,
}

impl Checker {
    /// A checker for a stream with these fields, lengths and number of flows.
    pub fn new(fields: &Fields, mix: &SizeMix, flows: u16, access: Access) -> Self {
        let mut lengths: Vec<u16> = mix.period().into_iter().map(FrameSize::in_buffer).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Checker {
            flows: vec![Flow::new(); usize::from(flows.max(1))],
            images: lengths.into_iter().map(|length| Image::new(fields, length)).collect(),
            access,
            stamp_at: stamp_at(fields),
            source_port: fields.source_port,
            copy: vec![0; usize::from(FrameSize::MAX.in_buffer())],
            tally: Tally::default(),
        }
    }

    /// Begins a trial: frames of this flow before `sequence` do not count in it, however late they arrive. Otherwise
    /// they would make up for a loss.
    pub fn begin(&mut self, flow: u16, sequence: u64) {
        if let Some(flow) = self.flows.get_mut(usize::from(flow)) {
            flow.first = sequence;
        }
    }

    /// The number after the newest arrived frame of this flow. If frames keep their order, no frame before it can
    /// still arrive.
    pub fn next(&self, flow: u16) -> u64 {
        self.flows.get(usize::from(flow)).map_or(0, |flow| flow.next)
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Checks one frame. Returns its stamp if the frame belongs to the test, is intact, and arrived for the first
    /// time.
    #[inline]
    pub fn check(&mut self, frame: Frame<'_>) -> Option<Stamp> {
        let stamp = frame.snapshot().get(self.stamp_at..).and_then(Stamp::from_bytes);
        let Some(stamp) = stamp else {
            self.tally.foreign += 1;
            return None;
        };
        let bytes = frame.len_bytes();
        if !self.is_whole(frame, bytes, stamp) {
            self.tally.altered += 1;
            return None;
        }
        let Some(flow) = self.flows.get_mut(usize::from(stamp.flow)) else {
            self.tally.altered += 1;
            return None;
        };
        match flow.arrived(stamp.sequence) {
            Arrival::Next => {}
            Arrival::Late => self.tally.reordered += 1,
            Arrival::Again => {
                self.tally.doubled += 1;
                return None;
            }
            Arrival::Stale => {
                self.tally.stale += 1;
                return None;
            }
        }
        self.tally.distinct += 1;
        self.tally.bytes += bytes as u64;
        Some(stamp)
    }

    #[inline(always)]
    fn is_whole(&mut self, frame: Frame<'_>, bytes: usize, stamp: Stamp) -> bool {
        let Some(image) = self.images.iter().find(|image| image.length == bytes) else { return false };
        if self.access == Access::Header {
            return true;
        }
        let source_port = self.source_port.wrapping_add(stamp.flow);
        image.has_head(frame.full_snapshot(), self.stamp_at, source_port, stamp)
            && (image.rest.is_empty() || has_rest(frame, &image.rest, &mut self.copy))
    }
}

/// Whether the bytes behind the head are `rest`.
#[inline]
fn has_rest(frame: Frame<'_>, rest: &[u8], copy: &mut [u8]) -> bool {
    // One copy of bytes that may change while they are compared.
    let Some(copy) = copy.get_mut(..rest.len()) else { return false };
    let (slices, skip) = frame.slices();
    memory::SgList::new(slices).skip(skip + SNAPSHOT_BYTES).read(copy) == copy.len() && *copy == *rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::Stream;

    fn pair(text: &str, flows: u16, access: Access) -> (Stream, Checker) {
        let (fields, mix) = (Fields::default(), text.parse().unwrap());
        (Stream::new(fields, &mix, 0..flows).unwrap(), Checker::new(&fields, &mix, flows, access))
    }

    #[test]
    fn what_was_sent_is_found_whole_and_in_order() {
        for access in [Access::Header, Access::Payload] {
            let (mut stream, mut checker) = pair("64x7+570x4+1518x1", 5, access);
            for _ in 0..1000 {
                let (batch, which) = stream.burst(32, |_| 7);
                for &i in which {
                    assert_eq!(checker.check(batch.frame(usize::from(i))).unwrap().due_ns, 7);
                }
            }
            let tally = checker.tally();
            assert_eq!(tally, Tally { distinct: 32000, bytes: tally.bytes, ..Tally::default() });
        }
    }

    #[test]
    fn loss_doubling_and_disorder_are_told_apart() {
        let mut flow = Flow::new();
        use Arrival::*;
        let came: Vec<_> = [0, 1, 1, 5, 3, 3, 4, 5, 6, 2, 100_000, 6, 99_999, 95_000]
            .map(|sequence| flow.arrived(sequence))
            .to_vec();
        assert_eq!(
            came,
            [Next, Next, Again, Next, Late, Again, Late, Again, Next, Late, Next, Stale, Late, Stale]
        );
        // A place in the window is used again without believing what was there before.
        assert_eq!(flow.arrived(100_000 + 2 * WINDOW), Next);
        assert_eq!(flow.arrived(100_000 + WINDOW + 1), Late);
    }

    #[test]
    fn what_an_earlier_trial_sent_does_not_count_in_this_one() {
        let (mut stream, mut checker) = pair("64", 1, Access::Header);
        stream.burst(1, |_| 0);
        checker.begin(0, 1);
        assert_eq!(checker.check(stream.batch_mut().frame(0)), None);
        let (batch, which) = stream.burst(1, |_| 0);
        assert!(checker.check(batch.frame(which[0].into())).is_some());
        assert_eq!((checker.tally().distinct, checker.tally().stale), (1, 1));
    }

    #[test]
    fn an_altered_byte_anywhere_is_seen_in_the_payload_case() {
        for with_fcs in [64u16, 68, 69, 574] {
            let (mut stream, mut checker) = pair(&with_fcs.to_string(), 1, Access::Payload);
            let bytes = with_fcs - 4;
            // The Ethernet header may be rewritten; bytes of the head can be reached here.
            for at in 16..SNAPSHOT_BYTES.min(usize::from(bytes)) {
                if (22..26).contains(&at) {
                    continue; // time to live, protocol and the IP header's own checksum
                }
                stream.burst(1, |_| 0);
                let slot = 0;
                let batch = stream.batch_mut();
                batch.snapshot_mut(slot)[at] ^= 0x10;
                let before = checker.tally();
                checker.check(batch.frame(slot));
                let after = checker.tally();
                let noticed = after.altered + after.foreign - before.altered - before.foreign;
                let unused = (18..22).contains(&at); // identification, fragment offset
                assert!(noticed == 1 || unused, "byte {at} of {bytes}");
                stream.rewind();
            }
        }
    }

    #[test]
    fn an_altered_payload_is_seen_even_where_the_checksum_is_blind() {
        let (mut stream, mut checker) = pair("570", 1, Access::Payload);
        let sent: Vec<u8> = {
            let (batch, which) = stream.burst(1, |_| 0);
            let frame = batch.frame(which[0].into());
            let mut bytes = vec![0; frame.len_bytes()];
            let (slices, skip) = frame.slices();
            memory::SgList::new(slices).skip(skip).read(&mut bytes);
            bytes[..SNAPSHOT_BYTES].copy_from_slice(frame.full_snapshot());
            bytes
        };
        let arrives = |checker: &mut Checker, bytes: &[u8]| {
            let batch = frame::FrameBatch::of_frame(bytes).unwrap();
            checker.check(batch.frame(0)).is_some()
        };
        for at in SNAPSHOT_BYTES..sent.len() {
            let mut altered = sent.clone();
            altered[at] ^= 0x10;
            assert!(!arrives(&mut checker, &altered), "byte {at}");
        }
        // Two words that have changed places have the same sum.
        let mut swapped = sent.clone();
        swapped[100..104].rotate_left(2);
        assert!(!arrives(&mut checker, &swapped));
        assert_eq!(checker.tally().altered, (sent.len() - SNAPSHOT_BYTES) as u64 + 1);
        assert!(arrives(&mut checker, &sent));
    }

    #[test]
    fn other_frames_and_wrong_lengths_are_no_frames_of_ours() {
        let (mut stream, _) = pair("64", 1, Access::Header);
        let (_, mut other) = pair("128", 1, Access::Header);
        let (batch, _) = stream.burst(1, |_| 0);
        assert_eq!(other.check(batch.frame(0)), None);
        assert_eq!(other.tally().altered, 1);
        let batch = stream.batch_mut();
        batch.snapshot_mut(0)[42] ^= 1;
        assert_eq!(other.check(batch.frame(0)), None);
        assert_eq!(other.tally().foreign, 1);
    }
}
