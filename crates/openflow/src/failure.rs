//! The reasons for refusing a request, with each version's numbers for them.

use crate::Version;

/// Nicira's experimenter number.
pub const NICIRA: u32 = 0x0000_2320;
/// The Open Networking Foundation's experimenter number.
pub const ONF: u32 = 0x4f4e_4600;

/// The form of an error on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Type and code (OpenFlow 1.5 §7.5.4).
    Standard(u16, u16),
    /// Type and code in Nicira's extension of OpenFlow 1.0.
    Nicira(u16, u16),
    /// An experimenter's number and its error (OpenFlow 1.5 §7.5.4.18).
    Experimenter(u32, u16),
}

use ErrorCode::{Experimenter, Nicira, Standard};

const fn nx(code: u16) -> ErrorCode {
    Experimenter(NICIRA, code)
}

const fn onf(code: u16) -> ErrorCode {
    Experimenter(ONF, code)
}

/// The error cannot be told in the version.
const UNENCODABLE: (ErrorCode, ErrorCode) = (Nicira(1, 521), nx(10));

struct Row {
    failure: Failure,
    /// The codes in 1.0, in 1.3, and in 1.4 and 1.5.
    codes: [Option<ErrorCode>; 3],
    words: &'static str,
}

macro_rules! failures {
    ($($name:ident $v10:expr, $v13:expr, $v14:expr, $words:literal;)*) => {
        /// The reason for refusing a request. Names and numbers are those of OpenFlow 1.5 §7.5.4 and of Open vSwitch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Failure { $(#[doc = $words] $name),* }

        static ROWS: &[Row] =
            &[$(Row { failure: Failure::$name, codes: [$v10, $v13, $v14], words: $words }),*];
    };
}

const fn of(kind: u16, code: u16) -> Option<ErrorCode> {
    Some(Standard(kind, code))
}

failures! {
    HelloIncompatible of(0, 0), of(0, 0), of(0, 0), "no version in common";
    BadVersion of(1, 0), of(1, 0), of(1, 0), "the version is not supported";
    BadType of(1, 1), of(1, 1), of(1, 1), "the type of the message is not supported";
    BadMultipart of(1, 2), of(1, 2), of(1, 2), "the type of the multipart message is not supported";
    BadExperimenter of(1, 3), of(1, 3), of(1, 3), "the experimenter is not supported";
    BadExperimenterType of(1, 4), of(1, 4), of(1, 4), "the experimenter's message is not supported";
    NotPermitted of(1, 5), of(1, 5), of(1, 5), "the request is not permitted";
    BadLength of(1, 6), of(1, 6), of(1, 6), "the length does not fit the message";
    BufferEmpty of(1, 7), of(1, 7), of(1, 7), "the buffer was used before";
    BufferUnknown of(1, 8), of(1, 8), of(1, 8), "the buffer does not exist";
    BadTable Some(Nicira(1, 512)), of(1, 9), of(1, 9), "the table does not exist";
    IsSecondary of(1, 5), of(1, 10), of(1, 10), "a secondary controller may not ask this";
    BadPort Some(Nicira(1, 514)), of(1, 11), of(1, 11), "the port does not exist";
    BadPacket None, of(1, 12), of(1, 12), "the packet is malformed";
    MultipartOverflow None, of(1, 13), of(1, 13), "the parts of the request are too many";
    NotZero Some(Nicira(1, 515)), Some(nx(4)), Some(nx(4)), "bytes that must be zero are not";
    BadReason Some(Nicira(1, 516)), Some(nx(5)), Some(nx(5)), "the reason is unknown";
    ActionType of(2, 0), of(2, 0), of(2, 0), "the action is unknown";
    ActionLength of(2, 1), of(2, 1), of(2, 1), "the length does not fit the action";
    ActionExperimenter of(2, 2), of(2, 2), of(2, 2), "the experimenter of the action is unknown";
    ActionExperimenterType of(2, 3), of(2, 3), of(2, 3), "the experimenter's action is unknown";
    ActionPort of(2, 4), of(2, 4), of(2, 4), "no frame can go to the port";
    ActionArgument of(2, 5), of(2, 5), of(2, 5), "an argument of the action is wrong";
    TooManyActions of(2, 7), of(2, 7), of(2, 7), "there are too many actions in each other";
    ActionQueue of(2, 8), of(2, 8), of(2, 8), "the queue does not exist";
    ActionGroup None, of(2, 9), of(2, 9), "the group does not exist";
    ActionUnfit Some(Nicira(1, 522)), of(2, 10), of(2, 10), "the action does not fit the match";
    ActionOrder None, of(2, 11), of(2, 11), "the order of the actions is not supported";
    ActionTag None, of(2, 12), of(2, 12), "the tag is not supported";
    SetType Some(Nicira(1, 523)), of(2, 13), of(2, 13), "the field of the action is unknown";
    SetLength Some(Nicira(1, 524)), of(2, 14), of(2, 14), "the field does not have these bits";
    SetArgument Some(Nicira(1, 525)), of(2, 15), of(2, 15), "the field cannot be set to the value";
    SetMask None, Some(onf(4250)), of(2, 16), "the field cannot be set under the mask";
    ActionNotZero Some(Nicira(2, 256)), Some(nx(11)), Some(nx(11)), "bytes of the action that must be zero are not";
    BadConjunction Some(Nicira(2, 526)), Some(nx(15)), Some(nx(15)), "the conjunction is malformed";
    UnknownInstruction None, of(3, 0), of(3, 0), "the instruction is unknown";
    UnsupportedInstruction Some(Nicira(2, 257)), of(3, 1), of(3, 1), "the instruction is not supported";
    InstructionTable None, of(3, 2), of(3, 2), "the table of the instruction is not a later one";
    InstructionExperimenter None, of(3, 5), of(3, 5), "the experimenter of the instruction is unknown";
    InstructionLength None, of(3, 7), of(3, 7), "the length does not fit the instruction";
    DuplicateInstruction None, Some(onf(2600)), of(3, 9), "the instruction is there twice";
    MatchType None, of(4, 0), of(4, 0), "the type of the match is not supported";
    MatchLength Some(Nicira(1, 256)), of(4, 1), of(4, 1), "the length does not fit the match";
    MatchWildcards Some(Nicira(1, 262)), of(4, 5), of(4, 5), "a value has bits outside of its mask";
    MatchField Some(Nicira(0, 263)), of(4, 6), of(4, 6), "the field of the match is unknown";
    MatchValue Some(Nicira(1, 258)), of(4, 7), of(4, 7), "the field of the match cannot have the value";
    MatchMask Some(Nicira(1, 259)), of(4, 8), of(4, 8), "the field of the match cannot have the mask";
    MatchPrerequisite Some(Nicira(1, 260)), of(4, 9), of(4, 9), "the protocol of the field is not in the match";
    DuplicateField Some(Nicira(1, 261)), of(4, 10), of(4, 10), "the field is in the match twice";
    FlowModUnknown None, of(5, 0), of(5, 0), "the flow cannot be changed";
    TableFull of(3, 0), of(5, 1), of(5, 1), "the table is full";
    FlowModTable None, of(5, 2), of(5, 2), "the flow's table does not exist";
    Overlap of(3, 1), of(5, 3), of(5, 3), "the flow overlaps another one";
    FlowModCommand of(3, 4), of(5, 6), of(5, 6), "the command for the flow is unknown";
    FlowModFlags Some(Nicira(3, 258)), of(5, 7), of(5, 7), "the flags of the flow are unknown";
    GroupExists None, of(6, 0), of(6, 0), "the group exists";
    InvalidGroup None, of(6, 1), of(6, 1), "the group is malformed";
    OutOfGroups None, of(6, 3), of(6, 3), "there are too many groups";
    OutOfBuckets None, of(6, 4), of(6, 4), "there are too many buckets";
    WatchUnsupported None, of(6, 6), of(6, 6), "the group cannot watch this";
    GroupLoop None, of(6, 7), of(6, 7), "the groups would form a loop";
    UnknownGroup None, of(6, 8), of(6, 8), "the group does not exist";
    GroupType None, of(6, 10), of(6, 10), "the type of the group is unknown";
    GroupCommand None, of(6, 11), of(6, 11), "the command for the group is unknown";
    BadBucket None, of(6, 12), of(6, 12), "the bucket is malformed";
    BadWatch None, of(6, 13), of(6, 13), "what the bucket watches does not exist";
    UnknownBucket None, None, of(6, 15), "the bucket does not exist";
    BucketExists None, None, of(6, 16), "the bucket exists";
    PortModPort of(4, 0), of(7, 0), of(7, 0), "the port to change does not exist";
    PortModAddress of(4, 1), of(7, 1), of(7, 1), "the address is not that of the port";
    PortModConfig None, of(7, 2), of(7, 2), "the configuration of the port is not supported";
    PortModAdvertise None, of(7, 3), of(7, 3), "the advertised features are not supported";
    TableModTable None, of(8, 0), of(8, 0), "the table to change does not exist";
    TableModConfig None, of(8, 1), of(8, 1), "the configuration of the table is not supported";
    QueuePort of(5, 0), of(9, 0), of(9, 0), "the queue's port does not exist";
    BadQueue of(5, 1), of(9, 1), of(9, 1), "the queue does not exist";
    ConfigFlags None, of(10, 0), of(10, 0), "the flags of the configuration are not supported";
    ConfigLength None, of(10, 1), of(10, 1), "the length of the configuration is not supported";
    RoleStale None, of(11, 0), of(11, 0), "the generation of the role is an old one";
    RoleUnsupported None, of(11, 1), of(11, 1), "the role cannot be changed";
    BadRole Some(Nicira(1, 513)), of(11, 2), of(11, 2), "the role is unknown";
    MeterExists None, of(12, 1), of(12, 1), "the meter exists";
    InvalidMeter None, of(12, 2), of(12, 2), "the meter is malformed";
    UnknownMeter None, of(12, 3), of(12, 3), "the meter does not exist";
    MeterCommand None, of(12, 4), of(12, 4), "the command for the meter is unknown";
    MeterFlags None, of(12, 5), of(12, 5), "the flags of the meter are not supported";
    MeterRate None, of(12, 6), of(12, 6), "the rate is not supported";
    MeterBand None, of(12, 8), of(12, 8), "the band is not supported";
    MeterBandValue None, of(12, 9), of(12, 9), "the value of the band is not supported";
    OutOfMeters None, of(12, 10), of(12, 10), "there are too many meters";
    OutOfBands None, of(12, 11), of(12, 11), "there are too many bands";
    PropertyType Some(Nicira(13, 2)), of(13, 2), of(14, 0), "the property is unknown";
    PropertyLength Some(Nicira(13, 3)), of(13, 3), of(14, 1), "the length does not fit the property";
    PropertyValue Some(Nicira(13, 4)), of(13, 4), of(14, 2), "the value of the property is not supported";
    TooManyProperties Some(Nicira(14, 3)), Some(onf(4443)), of(14, 3), "there are too many properties";
    DuplicateProperty Some(Nicira(14, 4)), Some(onf(4444)), of(14, 4), "the property is there twice";
    PropertyExperimenter Some(Nicira(14, 5)), Some(onf(4445)), of(14, 5), "the experimenter of the property is unknown";
    PropertyExperimenterType Some(Nicira(14, 6)), Some(onf(4446)), of(14, 6), "the experimenter's property is unknown";
    PropertyExperimenterValue Some(Nicira(14, 7)), Some(onf(4447)), of(14, 7), "the value of the experimenter's property is not supported";
    AsyncInvalid None, None, of(15, 0), "the masks of asynchronous messages are malformed";
    AsyncUnsupported None, None, of(15, 1), "the masks of asynchronous messages are not supported";
    MonitorExists Some(Nicira(1, 517)), Some(nx(6)), of(16, 1), "the flow monitor exists";
    UnknownMonitor Some(Nicira(1, 519)), Some(nx(8)), of(16, 3), "the flow monitor does not exist";
    MonitorCommand None, None, of(16, 4), "the command for the flow monitor is unknown";
    MonitorFlags Some(Nicira(1, 518)), Some(nx(7)), of(16, 5), "the flags of the flow monitor are not supported";
    MonitorEvent Some(Nicira(1, 520)), Some(nx(9)), Some(nx(9)), "the event of the flow monitor is unknown";
    BundleUnknown None, Some(onf(2300)), of(17, 0), "the bundle cannot be handled";
    BadBundle None, Some(onf(2302)), of(17, 2), "the bundle does not exist";
    BundleExists None, Some(onf(2303)), of(17, 3), "the bundle exists";
    BundleClosed None, Some(onf(2304)), of(17, 4), "the bundle is closed";
    OutOfBundles None, Some(onf(2305)), of(17, 5), "there are too many bundles";
    BundleType None, Some(onf(2306)), of(17, 6), "the command for the bundle is unknown";
    BundleFlags None, Some(onf(2307)), of(17, 7), "the flags of the bundle are not supported";
    BundleMessageLength None, Some(onf(2308)), of(17, 8), "the length does not fit the message in the bundle";
    BundleMessageTransaction None, Some(onf(2309)), of(17, 9), "the transaction of the message in the bundle is another one";
    BundleMessageUnsupported None, Some(onf(2310)), of(17, 10), "the message cannot be in a bundle";
    BundleMessageConflict None, Some(onf(2311)), of(17, 11), "the messages cannot be in one bundle";
    BundleTooMany None, Some(onf(2312)), of(17, 12), "there are too many messages in the bundle";
    BundleMessageFailed None, Some(onf(2313)), of(17, 13), "a message of the bundle failed";
    BundleTimeout None, Some(onf(2314)), of(17, 14), "the bundle was open for too long";
    BundleMessageVersion None, None, Some(nx(22)), "the message in the bundle is of another version";
    TlvCommand Some(Nicira(1, 527)), Some(nx(16)), Some(nx(16)), "the command for the TLV table is unknown";
    TlvLength Some(Nicira(1, 528)), Some(nx(17)), Some(nx(17)), "the option cannot have the length";
    TlvField Some(Nicira(1, 529)), Some(nx(18)), Some(nx(18)), "there is no such field of tunnel metadata";
    TlvFull Some(Nicira(1, 530)), Some(nx(19)), Some(nx(19)), "the TLV table is full";
    TlvMapped Some(Nicira(1, 531)), Some(nx(20)), Some(nx(20)), "the field is mapped";
    TlvDuplicate Some(Nicira(1, 532)), Some(nx(21)), Some(nx(21)), "the option is mapped to another field";
    ResumeUnsupported Some(Nicira(1, 533)), Some(nx(34)), Some(nx(34)), "frames cannot be resumed";
    ResumeStale Some(Nicira(1, 534)), Some(nx(35)), Some(nx(35)), "the continuation is not of this switch";
}

impl Failure {
    /// The code of this failure in a version. A failure that the version does not have gets the code of an unknown
    /// error.
    pub fn code(self, version: Version) -> ErrorCode {
        let at = match version {
            Version::V10 => 0,
            Version::V13 => 1,
            Version::V14 | Version::V15 => 2,
        };
        let unencodable = if at == 0 { UNENCODABLE.0 } else { UNENCODABLE.1 };
        match self {
            // OpenFlow 1.5 has masks in Set-Field; 1.3 and 1.4 tell of them by an extension.
            Self::SetMask if version == Version::V14 => onf(4250),
            _ => ROWS[self as usize].codes[at].unwrap_or(unencodable),
        }
    }

    /// The failure with this code. If a version has one code for several failures, the first one is returned.
    pub fn by_code(version: Version, code: ErrorCode) -> Option<Failure> {
        ROWS.iter().map(|row| row.failure).find(|failure| failure.code(version) == code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(ROWS[*self as usize].words)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_where_failures_look_for_them() {
        for (at, row) in ROWS.iter().enumerate() {
            assert_eq!(row.failure as usize, at);
        }
    }

    #[test]
    fn a_code_of_the_current_version_is_of_one_failure() {
        for row in ROWS {
            assert_eq!(Failure::by_code(Version::V15, row.failure.code(Version::V15)), Some(row.failure));
        }
        assert_eq!(Failure::OutOfMeters.code(Version::V10), Nicira(1, 521));
        assert_eq!(Failure::SetMask.code(Version::V14), Experimenter(ONF, 4250));
        assert_eq!(Failure::BadBundle.code(Version::V13), Experimenter(ONF, 2302));
    }
}
