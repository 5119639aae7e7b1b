//! Counters of a queue: frames passed, and frames dropped by reason.
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a frame was not passed on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// All reasons.
            pub const ALL: &[DropReason] = &[$(DropReason::$name),*];

            /// The reason in plain words.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$name => $text),* }
            }
        }
    };
}

reasons! {
    /// The receiver has no free buffer.
    ReceiverFull = "receiver full",
    /// The receiver's buffers are smaller than the frame.
    NoBufferLargeEnough = "no buffer large enough",
    /// The frame was cut into pieces for the receiver, whose buffers were too few for all pieces.
    CutShort = "too few buffers for a cut frame",
    /// The receiver's ring is malformed and stopped.
    MalformedRing = "malformed ring",
    /// The source address is not allowed at the port.
    Spoofed = "spoofed source address",
    /// The port is not in the frame's VLAN.
    WrongVlan = "VLAN not of the port",
    /// The frame is longer than the port's limit.
    TooLong = "too long",
    /// The frame is shorter than its headers.
    TooShort = "too short",
    /// The net header contradicts the frame.
    MalformedHeader = "malformed net header",
    /// The frame cannot be segmented or completed for a receiver that needs it.
    OffloadImpossible = "offload impossible",
    /// The receiver's filter does not accept the frame.
    Filtered = "filtered by the receiver",
    /// The queue is disabled by its driver.
    Disabled = "queue disabled",
    /// The receiver has no queue running.
    NotConnected = "receiver not connected",
    /// The frame would go back to the port that it came from, or there is no other port.
    NowhereToGo = "nowhere to go",
    /// The port has sent more flooded frames (broadcast, multicast, unknown receivers) than its limit.
    FloodLimit = "flood limit",
    /// The port exceeds its rate limit.
    Policed = "policed",
    /// The frame's source address moves too often between ports, because of a loop or two stations with one
    /// address.
    MovesTooOften = "address moves too often",
    /// The frame matches no flow, or its flows output it to no port.
    ByFlow = "dropped by flows",
    /// The frame's flows lead through more tables, or to more copies, than the limits allow.
    FlowLimit = "limit of flows",
    /// Controllers got the frame, and its flows output it to no port.
    ToController = "given to controllers",
    /// The port has sent more frames to controllers than the limit allows, or a frame that is too long for them.
    ControllerLimit = "limit of frames for controllers",
    /// No route leads to the other end of the tunnel, by an interface that ends tunnels.
    NoRoute = "no route for the tunnel",
    /// The Ethernet address of the tunnel's next hop is not known; it was asked for.
    NoNeighbour = "next hop of the tunnel unknown",
    /// The frame with its outer headers is longer than the network between the tunnel's ends allows.
    PathTooNarrow = "longer than the tunnel's path",
    /// The outer headers of a frame from a tunnel are malformed, or its checksum is wrong.
    MalformedTunnel = "malformed tunnel header",
    /// A router has marked congestion outside of the tunnel, and the frame inside cannot have the mark.
    LostMark = "congestion mark lost",
    /// The frame is for a tunnel that no port has.
    NoTunnel = "no such tunnel",
    /// A process before this one had delivered it when it crashed.
    AlreadyDelivered = "already delivered before a crash",
    /// Other fragments of its datagram did not come, or contradict it, or there was no room for them.
    Incomplete = "fragment of an incomplete datagram",
    /// The system refused the frame (TAP, packet socket, file).
    System = "refused by the system",
}

/// Counters of one queue. One thread writes the counters, and any thread may read them.
#[derive(Debug, Default)]
#[repr(align(128))] // lines of its own: workers write to neighbouring queues
pub struct QueueCounters {
    frames: AtomicU64,
    bytes: AtomicU64,
    notifications: AtomicU64,
    suppressed: AtomicU64,
    kicks: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
    /// The latest frame of [`DropReason::CutShort`]: its buffers in the upper half, its pieces in the lower.
    cut_short: AtomicU64,
}

/// A frame that was cut for a receiver with too few buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// Buffers that took a piece.
    pub buffers: u32,
    /// Pieces of the frame.
    pub pieces: u32,
}

/// The counters at one moment. Each count is exact; two counts may differ by the frames of one burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames passed on.
    pub frames: u64,
    /// Bytes of these frames, without net headers.
    pub bytes: u64,
    /// Kicks or calls sent to the peer.
    pub notifications: u64,
    /// Calls that the peer had suppressed: it finds the buffers by polling. Counted by the device half only.
    pub suppressed: u64,
    /// Kicks received.
    pub kicks: u64,
    /// Dropped frames by reason, without zeros, the most frequent first.
    pub drops: Vec<(DropReason, u64)>,
    /// The latest frame of [`DropReason::CutShort`].
    pub cut_short: Option<CutShort>,
}

impl Counts {
    /// The number of all dropped frames.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, count)| count).sum()
    }
}

/// One writer at a time, so load and store suffice; a read-modify-write would cost a locked instruction.
#[inline(always)]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl QueueCounters {
    /// Counts frames that were passed on, and their bytes.
    #[inline(always)]
    pub fn passed(&self, frames: u64, bytes: u64) {
        add(&self.frames, frames);
        add(&self.bytes, bytes);
    }

    /// Counts frames that were dropped for this reason.
    #[inline(always)]
    pub fn dropped(&self, reason: DropReason, frames: u64) {
        add(&self.drops[reason as usize], frames);
    }

    /// Counts as dropped the pieces of one frame from index `piece` on, out of `pieces`. If the receiver ran full
    /// after the first piece, it had too few buffers for the frame.
    #[cold]
    pub fn dropped_from(&self, reason: DropReason, piece: usize, pieces: usize) {
        let is_cut_short = reason == DropReason::ReceiverFull && piece > 0;
        if is_cut_short {
            self.cut_short.store((piece as u64) << 32 | pieces as u64, Ordering::Relaxed);
        }
        let reason = if is_cut_short { DropReason::CutShort } else { reason };
        self.dropped(reason, pieces.saturating_sub(piece) as u64);
    }

    /// Counts a kick or call that was sent.
    #[inline(always)]
    pub fn notified(&self) {
        add(&self.notifications, 1);
    }

    /// Counts a call that the peer has suppressed.
    #[inline(always)]
    pub fn suppressed(&self) {
        add(&self.suppressed, 1);
    }

    /// Counts received kicks. The number comes from the peer's eventfd and may be any.
    #[inline]
    pub fn kicked(&self, kicks: u64) {
        self.kicks.store(self.kicks.load(Ordering::Relaxed).saturating_add(kicks), Ordering::Relaxed);
    }

    /// Frames passed on.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// How many frames were dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].load(Ordering::Relaxed)
    }

    /// A copy of all counters.
    pub fn counts(&self) -> Counts {
        let count = |reason: &DropReason| (*reason, self.drops(*reason));
        let mut drops: Vec<_> = DropReason::ALL.iter().map(count).filter(|(_, n)| *n > 0).collect();
        drops.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let cut = self.cut_short.load(Ordering::Relaxed);
        Counts {
            frames: self.frames(),
            bytes: self.bytes.load(Ordering::Relaxed),
            notifications: self.notifications.load(Ordering::Relaxed),
            suppressed: self.suppressed.load(Ordering::Relaxed),
            kicks: self.kicks.load(Ordering::Relaxed),
            drops,
            cut_short: (cut > 0).then_some(CutShort { buffers: (cut >> 32) as u32, pieces: cut as u32 }),
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason_and_the_largest_comes_first() {
        let counters = QueueCounters::default();
        counters.passed(3, 180);
        counters.dropped(DropReason::Spoofed, 1);
        counters.dropped(DropReason::ReceiverFull, 5);
        counters.dropped(DropReason::Spoofed, 1);
        let counts = counters.counts();
        assert_eq!((counts.frames, counts.bytes, counts.dropped()), (3, 180, 7));
        assert_eq!(counts.drops, [(DropReason::ReceiverFull, 5), (DropReason::Spoofed, 2)]);
    }

    #[test]
    fn of_cut_frames_the_latest_says_how_many_buffers_there_were() {
        let counters = QueueCounters::default();
        assert_eq!(counters.counts().cut_short, None);
        counters.dropped_from(DropReason::ReceiverFull, 2, 9);
        counters.dropped_from(DropReason::ReceiverFull, 13, 23);
        counters.dropped_from(DropReason::ReceiverFull, 0, 5);
        counters.dropped_from(DropReason::TooLong, 1, 2);
        let counts = counters.counts();
        let drops = [(DropReason::CutShort, 17), (DropReason::ReceiverFull, 5), (DropReason::TooLong, 1)];
        assert_eq!(counts.drops, drops);
        assert_eq!(counts.cut_short, Some(CutShort { buffers: 13, pieces: 23 }));
    }

    #[test]
    fn every_reason_has_its_own_counter() {
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
        }
    }
}
