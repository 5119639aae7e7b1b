//! What is unknown or malformed is refused with the error that OpenFlow and Open vSwitch have for it, since a controller
//! finds out by it what a switch can do.

use openflow::{
    Codec, ErrorCode, ErrorMessage, Failure, FlowStatistics, Message, MonitorRequest, NICIRA, TlvMap, Version,
};

/// Bytes from hexadecimal digits; blanks are left out.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A message of OpenFlow 1.5 of this type.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![6, kind, 0, 0, 0, 0, 0, 1];
    bytes.extend(body);
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// A flow_mod with these fields and instructions.
fn flow_mod(fields: &str, instructions: &str) -> Vec<u8> {
    let mut body =
        hex("0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000");
    let fields = hex(fields);
    let mut wanted = hex("0001");
    wanted.extend((fields.len() as u16 + 4).to_be_bytes());
    wanted.extend(fields);
    pad(&mut wanted);
    body.extend(wanted);
    body.extend(hex(instructions));
    message(14, &body)
}

/// A flow_mod that applies these actions.
fn applies(actions: &str) -> Vec<u8> {
    let actions = hex(actions);
    let length = format!("{:04x}", actions.len() + 8);
    let digits: String = actions.iter().map(|byte| format!("{byte:02x}")).collect();
    flow_mod("", &format!("0004 {length} 00000000 {digits}"))
}

fn refusal(bytes: &[u8]) -> Failure {
    match Codec::new(Version::V15).decode(bytes) {
        Err(failure) => failure,
        Ok(received) => panic!("not refused: {received:?}"),
    }
}

#[test]
fn a_flow_mod_of_this_test_is_whole() {
    for bytes in [
        flow_mod("80000a02 0800 80001604 0a000001", ""),
        applies("0000 0010 00000001 0000 000000000000"),
        flow_mod("", "0001 0008 05 000000"),
    ] {
        let received = Codec::new(Version::V15).decode(&bytes).unwrap();
        assert!(matches!(received.message, Message::FlowMod(_)));
        assert_eq!(Codec::new(Version::V15).encode(1, &received.message).unwrap(), bytes);
    }
}

#[test]
fn matches_are_refused_for_their_fields() {
    for (fields, failure) in [
        ("80007e01 00", Failure::MatchField),
        ("00034001 00", Failure::MatchField),
        ("ffff7e08 12345678 00000000", Failure::MatchField),
        ("80000a01 08", Failure::MatchField),
        ("80000a02", Failure::MatchLength),
        ("80000b04 0800 ff00", Failure::MatchMask),
        ("80000908 000000000000 ffff", Failure::MatchField),
        ("80000705 0000000000", Failure::MatchField),
        ("8000070c 010203040506 000000000000", Failure::MatchWildcards),
        ("80001604 0a000001", Failure::MatchPrerequisite),
        ("80000a02 0800 80002a02 0001", Failure::MatchPrerequisite),
        ("80000a02 0800 80000a02 0800", Failure::DuplicateField),
        ("80000c02 2000", Failure::MatchValue),
        ("80000004 00012345", Failure::MatchValue),
    ] {
        assert_eq!(refusal(&flow_mod(fields, "")), failure, "{fields}");
    }
    let mut other = flow_mod("", "");
    other[49] = 0;
    assert_eq!(refusal(&other), Failure::MatchType);
    other[49] = 1;
    other[51] = 3;
    assert_eq!(refusal(&other), Failure::MatchLength);
}

#[test]
fn actions_are_refused_for_their_types_and_arguments() {
    for (actions, failure) in [
        ("0063 0008 00000000", Failure::ActionType),
        ("0013 0008 0800 0000", Failure::ActionArgument),
        ("ffff 0010 00001234 0001 000000000000", Failure::ActionExperimenter),
        ("ffff 0010 00002320 00f0 000000000000", Failure::ActionExperimenterType),
        ("ffff 0010 00002320 0024 000000000000", Failure::SetArgument),
        ("0000 0008 00000001", Failure::ActionLength),
        ("0000 000c 00000001 0000 000000000000", Failure::ActionLength),
        ("0000 0018 00000001 0000 000000000000", Failure::ActionLength),
        ("0000 0010 0000ff00 0000 000000000000", Failure::ActionPort),
        ("0000 0010 ffffffff 0000 000000000000", Failure::ActionPort),
        ("0016 0008 ffffff01", Failure::ActionGroup),
        ("0011 0008 1234 0000", Failure::ActionArgument),
        ("0019 0010 80007e01 00 00000000000000", Failure::SetLength),
        ("001c 0018 0020 0000 0000 0000 80007e04 00010204 00000000", Failure::MatchField),
        ("ffff 0018 00002320 001b 0000 80007e04 0020 000000000000", Failure::MatchField),
        ("0019 0010 80000a02 0800 000000000000", Failure::SetArgument),
        ("0019 0010 80000c02 0005 000000000000", Failure::SetArgument),
        ("0019 0010 00010005 00000001 00000000", Failure::SetLength),
        ("001c 0018 0021 0000 0000 0000 00010004 00010204 00000000", Failure::SetLength),
        ("001c 0018 0000 0000 0000 0000 00010004 00010204 00000000", Failure::SetLength),
        ("001c 0018 0020 0000 0000 0000 00010004 0001d204 00000000", Failure::SetArgument),
        ("ffff 0010 00002320 0022 02 02 00000005", Failure::BadConjunction),
        ("ffff 0018 00002320 0023 0000 00000000 0000 05 000000 0050", Failure::ActionArgument),
        ("ffff 0018 00002320 0023 0000 0001 1a04 0000 05 000000 0000", Failure::SetLength),
        ("ffff 0018 00002320 0025 000000000000 0009 0004 00000000", Failure::PropertyType),
    ] {
        assert_eq!(refusal(&applies(actions)), failure, "{actions}");
    }
}

#[test]
fn instructions_are_refused_for_their_types() {
    for (instructions, failure) in [
        ("0063 0008 00000000", Failure::UnknownInstruction),
        ("0006 0008 00000001", Failure::UnknownInstruction),
        ("ffff 0008 00001234", Failure::InstructionExperimenter),
        ("0001 0010 05 000000 0000000000000000", Failure::InstructionLength),
        ("0001 0008 05 000000 0001 0008 06 000000", Failure::DuplicateInstruction),
        ("0001 0004", Failure::InstructionLength),
        ("0001 0008 00 000000", Failure::InstructionTable),
    ] {
        assert_eq!(refusal(&flow_mod("", instructions)), failure, "{instructions}");
    }
}

#[test]
fn messages_are_refused_for_their_types() {
    for (bytes, failure) in [
        (message(99, &[]), Failure::BadType),
        (message(4, &hex("00001234 00000001")), Failure::BadExperimenter),
        (message(4, &hex("00002320 000000ff")), Failure::BadExperimenterType),
        (message(18, &hex("0063 0000 00000000")), Failure::BadMultipart),
        (message(18, &hex("ffff 0000 00000000 00001234 00000000")), Failure::BadExperimenter),
        (message(20, &[0; 8]), Failure::BadLength),
        (message(33, &hex("00000001 0009 0000")), Failure::BundleType),
        (message(33, &hex("00000001 0000 0008")), Failure::BundleFlags),
        (message(34, &hex("00000001 0000 0003 0614 0008 00000001")), Failure::BundleMessageUnsupported),
        (message(34, &hex("00000001 0000 0003 060e 0008 00000002")), Failure::BundleMessageTransaction),
        (message(34, &hex("00000001 0000 0003 040e 0008 00000001")), Failure::BundleMessageVersion),
        (message(34, &hex("00000001 0000 0003 060e 0010 00000001")), Failure::BundleMessageLength),
        (message(29, &hex("0009 0001 00000001")), Failure::MeterCommand),
        (message(29, &hex("0000 0003 00000001")), Failure::MeterFlags),
        (message(29, &hex("0000 0001 00000001 0009 0010 00000000 00000000 00000000")), Failure::MeterBand),
        (message(15, &hex("0009 00 00 00000001 0000 0000 ffffffff")), Failure::GroupCommand),
        (message(15, &hex("0000 09 00 00000001 0000 0000 ffffffff")), Failure::GroupType),
        (message(15, &hex("0000 00 00 ffffff01 0000 0000 ffffffff")), Failure::InvalidGroup),
        (message(24, &hex("00000009 00000000 0000000000000000")), Failure::BadRole),
        (message(4, &hex("00002320 00000018 0009 000000000000")), Failure::TlvCommand),
        (message(4, &hex("00002320 00000018 0000 000000000000 0102 80 05 0000 0000")), Failure::TlvLength),
        (message(4, &hex("00002320 00000018 0000 000000000000 0102 80 04 0040 0000")), Failure::TlvField),
    ] {
        assert_eq!(refusal(&bytes), failure, "{bytes:02x?}");
    }
    let mut other = message(20, &[]);
    other[0] = 5;
    assert_eq!(refusal(&other), Failure::BadVersion);
}

#[test]
fn actions_in_each_other_without_end_are_refused() {
    let mut bytes = Vec::new();
    for depth in 1..2000_u16 {
        let mut outer = hex("ffff 0000 00002320 002a 000000000000");
        outer[2..4].copy_from_slice(&(16 * depth).to_be_bytes());
        outer.append(&mut bytes);
        bytes = outer;
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(refusal(&applies(&digits)), Failure::TooManyActions);
}

#[test]
fn an_error_has_the_numbers_of_its_version_and_the_request() {
    let request = message(20, &[7; 100]);
    for version in Version::ALL {
        let codec = Codec::new(version);
        for failure in [Failure::BadLength, Failure::MatchPrerequisite, Failure::TlvFull, Failure::BadBundle]
        {
            let error = ErrorMessage::new(failure, version, &request);
            assert_eq!(error.data, request);
            let bytes = codec.encode(5, &Message::Error(error.clone())).unwrap();
            assert_eq!(codec.decode(&bytes).unwrap().message, Message::Error(error), "{version:?}");
        }
    }
    let error = ErrorMessage::new(Failure::MatchField, Version::V10, &[]);
    assert_eq!(error.code, ErrorCode::Nicira(0, 263));
    let error = ErrorMessage::new(Failure::TlvFull, Version::V13, &[]);
    assert_eq!(error.code, ErrorCode::Experimenter(NICIRA, 19));
    assert_eq!(error.failure(Version::V13), Some(Failure::TlvFull));
}

/// What a message makes this program keep is a small multiple of its 64 KiB at most: each element of a list takes bytes of
/// the message.
#[test]
fn an_element_of_a_list_takes_at_most_40_times_its_bytes() {
    for (size, bytes) in [
        (size_of::<flow::Action>(), 8),
        (size_of::<flow::LearnSpec>(), 10),
        (size_of::<flow::Bucket>(), 8),
        (size_of::<flow::Band>(), 16),
        (size_of::<FlowStatistics>(), 40),
        (size_of::<MonitorRequest>(), 24),
        (size_of::<TlvMap>(), 8),
    ] {
        assert!(size <= 40 * bytes, "{size} bytes for {bytes}");
    }
}
