//! What is asked about a frame, what is known about it, and how a table is set up.
use crate::{Choice, Helper, Limits, Mapping, Refusal, Seed, State, TcpRules, Timeouts, Translation, Tuple};

/// The mark and the label of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names itself")]
pub struct Mark {
    pub mark: u32,
    pub label: u128,
}

/// Bits of the mark and the label that are written, and their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each names itself")]
pub struct Written {
    pub value: Mark,
    pub mask: Mark,
}

/// Whether a frame is translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translate<'a> {
    /// The frame is not translated.
    #[default]
    No,
    /// The frame is translated if its connection is.
    Existing,
    /// Translates as an existing connection is translated; a connection that this frame begins gets this mapping.
    New(&'a Mapping),
}

/// What is asked about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// The port by which the frame came: the connection that it begins counts for this port.
    pub port: u16,
    /// The zone: connections in different zones are independent.
    pub zone: u16,
    /// Whether a connection that the frame begins is kept, with these bits of mark and label. An existing connection gets
    /// these bits too.
    pub commit: Option<Written>,
    /// Whether a frame in the direction of answers ends its connection and begins a new one.
    pub force: bool,
    /// Whether the frame is translated.
    pub translate: Translate<'a>,
    /// The helper of a connection that the frame begins and that is kept. All connections of the zone are then in one table.
    pub helper: Option<Helper>,
    /// Whether the frame was tracked in this zone before: it then does not change the connection's state again.
    pub is_seen: bool,
    /// Whether the zone's connections are divided among tables ([`Settings::shard`]). The answers to a connection that is
    /// translated must then come to the same table.
    pub is_divided: bool,
}

impl Request<'_> {
    /// Whether the connection may get addresses or ports of its own choice, or announce other connections, so that all
    /// connections of the zone must be in one table. A mapping that changes a port only if two connections would have equal tuples needs no such table.
    pub(crate) fn needs_whole_zone(&self) -> bool {
        let Translate::New(mapping) = self.translate else { return self.helper.is_some() };
        self.helper.is_some()
            || mapping.addresses.is_some()
            || mapping.ports.is_some()
            || mapping.choice != Choice::Keep
    }
}

/// What is known about a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The bits of `ct_state`.
    pub state: State,
    /// The connection's mark and label.
    pub mark: Mark,
    /// The tuple with which the connection's first frame came. For an ICMP error, that of the connection that the error
    /// is about.
    pub original: Option<Tuple>,
    /// The change of the frame's addresses and ports. [`crate::translate_icmp`] writes the part that lies inside of an ICMP message.
    pub translation: Option<Translation>,
    /// The reason why the connection was not kept.
    pub refusal: Option<Refusal>,
    /// Whether the frame belongs to a control channel: [`crate::Shards::read_control`] reads it.
    pub is_control: bool,
}

impl Verdict {
    /// The verdict about what cannot be tracked.
    pub fn untracked() -> Verdict {
        Verdict::invalid(None)
    }

    pub(crate) fn invalid(refusal: Option<Refusal>) -> Verdict {
        Verdict { state: State::TRACKED | State::INVALID, refusal, ..Verdict::default() }
    }
}

/// Which of several tables a [`Tracker`] is. Frames come to the table that [`Shard::of`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of this table, below `tables`.
    pub table: u16,
    /// The number of tables.
    pub tables: u16,
}

impl Shard {
    /// The only table.
    pub const ALL: Shard = Shard { table: 0, tables: 1 };

    /// The number of the table for a frame: both directions of a connection have the same one.
    pub fn of(seed: &Seed, zone: u16, tuple: &Tuple, tables: u16) -> u16 {
        Self::of_hash(seed.hash(zone, tuple), tables)
    }

    /// The number of the table for frames of a connection with this hash ([`Seed::hash`]).
    pub(crate) fn of_hash(hash: u64, tables: u16) -> u16 {
        (hash >> 16) as u16 % tables.max(1)
    }
}

/// How connections are tracked.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each names its type")]
pub struct Settings {
    pub limits: Limits,
    pub tcp: TcpRules,
    pub timeouts: Timeouts,
    pub shard: Shard,
    /// Random numbers that no sender knows.
    pub seed: Seed,
}

impl Written {
    /// The mark and the label after writing.
    pub(crate) fn over(&self, old: Mark) -> Mark {
        Mark {
            mark: old.mark & !self.mask.mark | self.value.mark & self.mask.mark,
            label: old.label & !self.mask.label | self.value.label & self.mask.label,
        }
    }
}
