//! Requests that a kernel sends by a device's file, and their answers.

/// Bytes of a request, and of an answer.
pub(super) const BYTES: usize = 152;

/// The offset of the part that depends on the kind of request.
const PAYLOAD: usize = 24;

const RESULT_OK: u32 = 0;
const RESULT_FAILED: u32 = 1;

/// A request of the kernel. The kernel waits for the answer, by default for 30 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the request, which the answer repeats.
    pub id: u32,
    /// What the kernel asks for.
    pub kind: RequestKind,
}

/// What the kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The position of this queue (`VDUSE_GET_VQ_STATE`).
    QueueState(u32),
    /// The driver has set the device's status (VIRTIO 1.3 §2.1); 0 is a reset (`VDUSE_SET_STATUS`).
    SetStatus(u8),
    /// The memory in this range, both ends included, must be mapped anew (`VDUSE_UPDATE_IOTLB`).
    UpdateMemory(u64, u64),
    /// A request of another type.
    Unknown(u32),
}

/// The position of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The next entry of the available ring.
    Split(u16),
    /// The next slots to take and to give back; bit 15 is the wrap counter.
    Packed {
        /// The next descriptor to take.
        available: u16,
        /// The next descriptor to give back.
        used: u16,
    },
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request was carried out.
    Done,
    /// The request was refused.
    Failed,
    /// The position of the queue.
    QueueState(Position),
}

fn word(bytes: &[u8; BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn long(bytes: &[u8; BYTES], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]))
}

impl Request {
    pub(super) fn parse(bytes: &[u8; BYTES]) -> Self {
        let kind = match word(bytes, 0) {
            0 => RequestKind::QueueState(word(bytes, PAYLOAD)),
            1 => RequestKind::SetStatus(bytes[PAYLOAD]),
            2 => RequestKind::UpdateMemory(long(bytes, PAYLOAD), long(bytes, PAYLOAD + 8)),
            other => RequestKind::Unknown(other),
        };
        Request { id: word(bytes, 4), kind }
    }
}

impl Reply {
    pub(super) fn bytes(self, request: Request) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &request.id.to_ne_bytes());
        let result = if self == Reply::Failed { RESULT_FAILED } else { RESULT_OK };
        put(4, &result.to_ne_bytes());
        if let (Reply::QueueState(position), RequestKind::QueueState(index)) = (self, request.kind) {
            put(PAYLOAD, &index.to_ne_bytes());
            let words = position.words();
            for (at, word) in words.into_iter().enumerate() {
                put(PAYLOAD + 4 + 2 * at, &word.to_ne_bytes());
            }
        }
        bytes
    }
}

impl Position {
    /// The union of both states: the split ring's index, or the packed ring's counters and slots.
    fn words(self) -> [u16; 4] {
        let (counter, slot) = (|bits: u16| bits >> 15, |bits: u16| bits & 0x7fff);
        match self {
            Position::Split(next) => [next, 0, 0, 0],
            Position::Packed { available, used } => {
                [counter(available), slot(available), counter(used), slot(used)]
            }
        }
    }

    pub(super) fn of_words(words: [u16; 4], is_packed: bool) -> Self {
        let bits = |counter: u16, slot: u16| (counter & 1) << 15 | slot & 0x7fff;
        match (is_packed, words) {
            (false, [next, ..]) => Position::Split(next),
            (true, [one, available, other, used]) => {
                Position::Packed { available: bits(one, available), used: bits(other, used) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: u32, payload: &[u8]) -> RequestKind {
        let mut bytes = [0xee; BYTES];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&7u32.to_ne_bytes());
        bytes[PAYLOAD..PAYLOAD + payload.len()].copy_from_slice(payload);
        let Request { id, kind } = Request::parse(&bytes);
        assert_eq!(id, 7);
        kind
    }

    #[test]
    fn requests_of_every_type_are_read() {
        assert_eq!(request(0, &[1, 0, 0, 0]), RequestKind::QueueState(1));
        assert_eq!(request(1, &[0x0f]), RequestKind::SetStatus(0x0f));
        let range: Vec<u8> = [0u64, u64::MAX].iter().flat_map(|end| end.to_ne_bytes()).collect();
        assert_eq!(request(2, &range), RequestKind::UpdateMemory(0, u64::MAX));
        assert_eq!(request(9, &[]), RequestKind::Unknown(9));
    }

    #[test]
    fn an_answer_has_its_reserved_bytes_zero() {
        let of = |kind| Request { id: 0x0102_0304, kind };
        let done = Reply::Done.bytes(of(RequestKind::SetStatus(1)));
        assert_eq!(&done[..4], 0x0102_0304u32.to_ne_bytes());
        assert!(done[4..].iter().all(|byte| *byte == 0));
        let failed = Reply::Failed.bytes(of(RequestKind::Unknown(9)));
        assert_eq!(failed[4..8], 1u32.to_ne_bytes());
        assert!(failed[8..].iter().all(|byte| *byte == 0));
        let state = Reply::QueueState(Position::Split(0xabcd)).bytes(of(RequestKind::QueueState(1)));
        assert!(state[4..PAYLOAD].iter().all(|byte| *byte == 0));
        assert_eq!(state[PAYLOAD..PAYLOAD + 6], [[1, 0, 0, 0].as_slice(), &0xabcdu16.to_ne_bytes()].concat());
    }

    #[test]
    fn a_packed_position_survives() {
        let position = Position::Packed { available: 0x8005, used: 0x7fff };
        assert_eq!(position.words(), [1, 5, 0, 0x7fff]);
        assert_eq!(Position::of_words(position.words(), true), position);
        assert_eq!(Position::of_words([9, 1, 2, 3], false), Position::Split(9));
    }
}
