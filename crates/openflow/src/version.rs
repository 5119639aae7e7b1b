//! Versions of the protocol, and the kinds of message with their numbers.

/// A version of OpenFlow. Open vSwitch and OVN use no other version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// OpenFlow 1.0, with Nicira's extensions.
    V10,
    /// OpenFlow 1.3.
    V13,
    /// OpenFlow 1.4.
    V14,
    /// OpenFlow 1.5.
    V15,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Version; 4] = [Self::V10, Self::V13, Self::V14, Self::V15];

    /// The number in a header.
    pub fn number(self) -> u8 {
        match self {
            Self::V10 => 1,
            Self::V13 => 4,
            Self::V14 => 5,
            Self::V15 => 6,
        }
    }

    /// The version with this number.
    pub fn by_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }
}

/// The settings that the two ends of a connection have negotiated: how messages are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The version.
    pub version: Version,
    /// OpenFlow 1.0: whether the upper half of a flow_mod's command is the table (Nicira's FLOW_MOD_TABLE_ID).
    pub table_ids: bool,
    /// The sizes in bytes of the first fields of tunnel metadata in the table of tunnel options, which messages of
    /// the switch use; 0 for the smallest size that holds the value.
    pub option_bytes: [u8; 8],
}

impl Codec {
    /// A version without extensions.
    pub fn new(version: Version) -> Self {
        Self { version, table_ids: false, option_bytes: [0; 8] }
    }
}

/// The first version of a kind, its number there, its last version.
type Numbers = &'static [(Version, Version, u8)];

macro_rules! kinds {
    ($($name:ident $($first:ident ..= $last:ident = $number:literal),+;)*) => {
        /// Kinds of message (OpenFlow 1.5 §7.1.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "OpenFlow's names")]
        pub enum Kind { $($name),* }

        impl Kind {
            const ALL: &'static [Kind] = &[$(Kind::$name),*];

            fn numbers(self) -> Numbers {
                match self { $(Kind::$name => &[$((Version::$first, Version::$last, $number)),+]),* }
            }
        }
    };
}

kinds! {
    Hello V10..=V15 = 0;
    Error V10..=V15 = 1;
    EchoRequest V10..=V15 = 2;
    EchoReply V10..=V15 = 3;
    Experimenter V10..=V15 = 4;
    FeaturesRequest V10..=V15 = 5;
    FeaturesReply V10..=V15 = 6;
    GetConfigRequest V10..=V15 = 7;
    GetConfigReply V10..=V15 = 8;
    SetConfig V10..=V15 = 9;
    PacketIn V10..=V15 = 10;
    FlowRemoved V10..=V15 = 11;
    PortStatus V10..=V15 = 12;
    PacketOut V10..=V15 = 13;
    FlowMod V10..=V15 = 14;
    GroupMod V13..=V15 = 15;
    PortMod V10..=V10 = 15, V13..=V15 = 16;
    TableMod V13..=V15 = 17;
    MultipartRequest V10..=V10 = 16, V13..=V15 = 18;
    MultipartReply V10..=V10 = 17, V13..=V15 = 19;
    BarrierRequest V10..=V10 = 18, V13..=V15 = 20;
    BarrierReply V10..=V10 = 19, V13..=V15 = 21;
    RoleRequest V13..=V15 = 24;
    RoleReply V13..=V15 = 25;
    GetAsyncRequest V13..=V15 = 26;
    GetAsyncReply V13..=V15 = 27;
    SetAsync V13..=V15 = 28;
    MeterMod V13..=V15 = 29;
    RoleStatus V14..=V15 = 30;
    BundleControl V14..=V15 = 33;
    BundleAdd V14..=V15 = 34;
}

impl Kind {
    /// The number in a header, if this version has the kind.
    pub fn number(self, version: Version) -> Option<u8> {
        self.numbers().iter().find(|row| (row.0..=row.1).contains(&version)).map(|row| row.2)
    }

    /// The kind with this number.
    pub fn by_number(version: Version, number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.number(version) == Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_kind() {
        for version in Version::ALL {
            assert_eq!(Version::by_number(version.number()), Some(version));
            for kind in Kind::ALL {
                if let Some(number) = kind.number(version) {
                    assert_eq!(Kind::by_number(version, number), Some(*kind), "{version:?}");
                }
            }
        }
        assert_eq!(Version::by_number(2), None);
    }
}
