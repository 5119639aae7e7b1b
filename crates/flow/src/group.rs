//! Groups and meters.
use crate::{Action, Field};

/// The rule by which a frame takes buckets of a group (OpenFlow 1.5 §5.10.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's names")]
pub enum GroupKind {
    #[default]
    All,
    Select,
    Indirect,
    FastFailover,
}

/// The method by which a group of the kind `select` chooses (ovs-ofctl(8), `selection_method`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The switch decides.
    #[default]
    Unspecified,
    /// A hash that the data path computes of addresses, protocol and ports. The number is the hash's parameter.
    DpHash(u64),
    /// A hash of these fields, each with a mask of the bits that are used. If the list is empty, it is a hash of
    /// addresses, protocol and ports. The number is the initial value of the hash.
    Hash(u64, Vec<(Field, u128)>),
}

/// One bucket of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The bucket's number in the group.
    pub id: u32,
    /// The bucket's share among the live buckets.
    pub weight: u16,
    /// The bucket is live while this port is up.
    pub watch_port: Option<u16>,
    /// The bucket is live while this group has a live bucket.
    pub watch_group: Option<u32>,
    /// The bucket's actions, as an action set.
    pub actions: Vec<Action>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The group's number.
    pub id: u32,
    /// The rule by which a frame takes buckets.
    pub kind: GroupKind,
    /// The method by which one bucket is selected.
    pub selection: Selection,
    /// The buckets.
    pub buckets: Vec<Bucket>,
}

impl Group {
    /// The highest number of a group.
    pub const MAX_ID: u32 = 0xffff_ff00;
}

/// The unit that a meter counts (OpenFlow 1.5 §7.3.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MeterUnit {
    /// Kilobits.
    #[default]
    Kilobits,
    /// Frames.
    Packets,
}

/// The action of a band on frames beyond its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// The band drops the frames.
    Drop,
    /// The band raises the drop precedence in the frames' DSCP by this number.
    DscpRemark(u8),
}

/// One rate of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// The action on frames beyond the rate.
    pub kind: BandKind,
    /// The rate, in the meter's unit per second.
    pub rate: u32,
    /// The burst size, in the meter's unit; 0 for the default.
    pub burst: u32,
}

/// A meter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meter {
    /// The meter's number, from 1.
    pub id: u32,
    /// The unit that the meter counts.
    pub unit: MeterUnit,
    /// Whether the bands have burst sizes.
    pub burst: bool,
    /// Whether the meter keeps statistics.
    pub stats: bool,
    /// The meter's rates.
    pub bands: Vec<Band>,
}
