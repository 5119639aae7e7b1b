//! Families of cases.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A family of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Messages of the right format, in any order, doubled, with any values.
    Order,
    /// Headers and payloads of any size, cut off in the middle.
    Bytes,
    /// Descriptors with messages that have none, no descriptors with messages that need some, and descriptors of the
    /// wrong kind.
    Descriptors,
    /// Memory tables whose regions wrap around, overlap, or lie beyond their file.
    Memory,
    /// Split rings with any content.
    SplitRing,
    /// Packed rings with any content.
    PackedRing,
    /// Shared memory that is truncated while rings run.
    Shrink,
    /// Eventfds that are full and block.
    Eventfd,
    /// Front-ends that stop in the middle of a message, or read no answers.
    Slow,
    /// Sessions of a crypto device: unlimited in number, with contradicting key lengths, closed at random.
    CryptoSession,
    /// Requests to a crypto device: with contradicting lengths, and bytes that change after they were read.
    CryptoRequest,
    /// Memory that is withdrawn while a ring has buffers in it.
    Withdraw,
}

/// No family has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFamily(String);

impl std::fmt::Display for UnknownFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = Family::ALL.iter().chain(&Family::CRYPTO).map(|family| family.name()).collect();
        let names = names.join(", ");
        write!(f, "no cases are named {:?}; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownFamily {}

impl Family {
    /// The families for crypto devices only.
    pub const CRYPTO: [Family; 2] = [Family::CryptoSession, Family::CryptoRequest];

    /// The families for every back-end, in the order in which they are run.
    pub const ALL: [Family; 10] = [
        Family::Order,
        Family::Bytes,
        Family::Descriptors,
        Family::Memory,
        Family::SplitRing,
        Family::PackedRing,
        Family::Shrink,
        Family::Withdraw,
        Family::Eventfd,
        Family::Slow,
    ];

    /// The family's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Family::Order => "order",
            Family::Bytes => "bytes",
            Family::Descriptors => "descriptors",
            Family::Memory => "memory",
            Family::SplitRing => "split-ring",
            Family::PackedRing => "packed-ring",
            Family::Shrink => "shrink",
            Family::Withdraw => "withdraw",
            Family::Eventfd => "eventfd",
            Family::Slow => "slow",
            Family::CryptoSession => "crypto-session",
            Family::CryptoRequest => "crypto-request",
        }
    }
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        let found = Self::ALL.into_iter().chain(Self::CRYPTO).find(|family| family.name() == name);
        found.ok_or_else(|| UnknownFamily(name.to_owned()))
    }
}
