//! Groups and meters.
use crate::{Action, Field};

/// Which of a group's buckets a frame takes (OpenFlow 1.5 §5.10.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum GroupKind {
    #[default]
    All,
    Select,
    Indirect,
    FastFailover,
}

/// How a group of the kind `select` chooses (ovs-ofctl(8), `selection_method`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// As the switch likes.
    #[default]
    Unspecified,
    /// By a hash over addresses, protocol and ports that the data path computes. The number is its parameter.
    DpHash(u64),
    /// By a hash over these fields, each with the bits that count; over addresses, protocol and ports if there are none.
    /// The number is where the hash begins.
    Hash(u64, Vec<(Field, u128)>),
}

/// One choice of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its number in the group.
    pub id: u32,
    /// Its share among the buckets that are live.
    pub weight: u16,
    /// It is live while this port is up.
    pub watch_port: Option<u16>,
    /// It is live while this group has a live bucket.
    pub watch_group: Option<u32>,
    /// What it does, as an action set.
    pub actions: Vec<Action>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Which buckets a frame takes.
    pub kind: GroupKind,
    /// How one bucket is selected.
    pub selection: Selection,
    /// The buckets.
    pub buckets: Vec<Bucket>,
}

impl Group {
    /// The highest number of a group.
    pub const MAX_ID: u32 = 0xffff_ff00;
}

/// What a meter counts (OpenFlow 1.5 §7.3.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MeterUnit {
    /// Kilobits.
    #[default]
    Kilobits,
    /// Frames.
    Packets,
}

/// What a band does with frames beyond its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// They are dropped.
    Drop,
    /// The precedence of dropping in their DSCP is raised by so much.
    DscpRemark(u8),
}

/// One rate of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// What is done with frames beyond it.
    pub kind: BandKind,
    /// The rate, in the meter's unit a second.
    pub rate: u32,
    /// How much may come at once, in the meter's unit; 0 for the default.
    pub burst: u32,
}

/// A meter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meter {
    /// Its number, from 1.
    pub id: u32,
    /// What it counts.
    pub unit: MeterUnit,
    /// Bands say how much may come at once.
    pub burst: bool,
    /// It keeps statistics.
    pub stats: bool,
    /// Its rates.
    pub bands: Vec<Band>,
}
