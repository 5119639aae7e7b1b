//! The message files of os-ken (OpenStack's OpenFlow library) are read and written back with the same bytes.
//! `scripts/setup.sh test` fetches them; each exception has its reason in the test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use openflow::{Codec, Version};

const BITS: &str = "bits that the version does not define are written as 0";
const PREREQUISITES: &str = "a wildcard of a field that the match cannot have is written as in Open vSwitch";
const ORDER: &str = "fields of a match are written in the order of their numbers";
const VLAN: &str = "vlan_vid lacks the bit for its presence, which Open vSwitch refuses too";
const QUEUES: &str = "descriptions of queues are neither asked for nor answered";
const EXPERIMENTER: &str = "another experimenter than Nicira and ONF is refused";
const PROPERTY: &str = "properties of another experimenter are refused, or left out";
const ZONE: &str = "the zone has 28 bits of a register; Open vSwitch too wants 16";
const BAND: &str = "Open vSwitch too has no bands but those that drop";
const REQUESTS: &str = "the switch neither forwards requests nor tells of tables and controllers (OpenFlow 1.5 §7.4.4 to §7.4.6)";
const OPTICAL: &str = "optical ports are refused";
const IDENTITY: &str = "a controller's short identity is not kept, and written as 0";
const FLOW_COUNTS: &str =
    "the flow statistics of 1.5 without descriptions are not answered, as in Open vSwitch";
const BUNDLES: &str = "features of bundles are not answered, as in Open vSwitch";
const FORM: &str = "the file does not have the form of OpenFlow 1.5";

/// Files that are not written back with the same bytes, and why.
const EXCEPTIONS: [(&str, &str); 56] = [
    ("of10/1-2-ofp_flow_mod.packet", PREREQUISITES),
    ("of10/1-6-ofp_switch_features.packet", BITS),
    ("of13/4-12-ofp_flow_stats_reply.packet", VLAN),
    ("of13/4-16-ofp_experimenter.packet", EXPERIMENTER),
    ("of13/4-2-ofp_flow_mod.packet", VLAN),
    ("of13/4-35-ofp_queue_get_config_request.packet", QUEUES),
    ("of13/4-36-ofp_queue_get_config_reply.packet", QUEUES),
    ("of13/4-4-ofp_packet_in.packet", ORDER),
    ("of13/4-45-ofp_meter_mod.packet", BAND),
    ("of13/4-59-ofp_packet_in.packet", VLAN),
    ("of13/4-60-ofp_flow_mod.packet", VLAN),
    ("of13/4-61-ofp_experimenter_request.packet", EXPERIMENTER),
    ("of13/4-62-ofp_experimenter_reply.packet", EXPERIMENTER),
    ("of13/4-63-onf_flow_monitor_request.packet", EXPERIMENTER),
    ("of13/ovs-ofctl-of13-action_ct.packet", ZONE),
    ("of14/5-12-ofp_flow_stats_reply.packet", VLAN),
    ("of14/5-16-ofp_experimenter.packet", EXPERIMENTER),
    ("of14/5-2-ofp_flow_mod.packet", VLAN),
    ("of14/5-22-ofp_port_mod.packet", OPTICAL),
    ("of14/5-36-ofp_queue_stats_reply.packet", PROPERTY),
    ("of14/5-4-ofp_packet_in.packet", ORDER),
    ("of14/5-41-ofp_get_async_reply.packet", PROPERTY),
    ("of14/5-42-ofp_set_async.packet", PROPERTY),
    ("of14/5-43-ofp_meter_mod.packet", BAND),
    ("of14/5-57-ofp_packet_in.packet", VLAN),
    ("of14/5-58-ofp_flow_mod.packet", VLAN),
    ("of14/5-59-ofp_experimenter_request.packet", EXPERIMENTER),
    ("of14/5-60-ofp_experimenter_reply.packet", EXPERIMENTER),
    ("of14/5-63-ofp_queue_desc_request.packet", QUEUES),
    ("of14/5-64-ofp_queue_desc_reply.packet", QUEUES),
    ("of14/5-65-ofp_role_status.packet", PROPERTY),
    ("of14/5-68-ofp_table_status.packet", REQUESTS),
    ("of14/5-70-ofp_bundle_add_msg.packet", PROPERTY),
    ("of14/5-71-ofp_requestforward.packet", REQUESTS),
    ("of15/libofproto-OFP15-bundle_features_reply.packet", BUNDLES),
    ("of15/libofproto-OFP15-bundle_features_request.packet", BUNDLES),
    ("of15/libofproto-OFP15-controller_status.packet", REQUESTS),
    ("of15/libofproto-OFP15-controller_status_reply.packet", REQUESTS),
    ("of15/libofproto-OFP15-controller_status_request.packet", REQUESTS),
    ("of15/libofproto-OFP15-experimenter.packet", EXPERIMENTER),
    ("of15/libofproto-OFP15-experimenter_reply.packet", EXPERIMENTER),
    ("of15/libofproto-OFP15-experimenter_request.packet", EXPERIMENTER),
    ("of15/libofproto-OFP15-flow_desc_reply.packet", FORM),
    ("of15/libofproto-OFP15-flow_stats_reply.packet", FLOW_COUNTS),
    ("of15/libofproto-OFP15-flow_stats_request.packet", FLOW_COUNTS),
    ("of15/libofproto-OFP15-get_async_reply.packet", PROPERTY),
    ("of15/libofproto-OFP15-meter_features_reply.packet", FORM),
    ("of15/libofproto-OFP15-port_mod.packet", OPTICAL),
    ("of15/libofproto-OFP15-queue_desc_reply.packet", QUEUES),
    ("of15/libofproto-OFP15-queue_desc_request.packet", QUEUES),
    ("of15/libofproto-OFP15-queue_stats_reply.packet", PROPERTY),
    ("of15/libofproto-OFP15-requestforward.packet", REQUESTS),
    ("of15/libofproto-OFP15-role_reply.packet", IDENTITY),
    ("of15/libofproto-OFP15-role_request.packet", IDENTITY),
    ("of15/libofproto-OFP15-set_async.packet", PROPERTY),
    ("of15/libofproto-OFP15-table_status.packet", REQUESTS),
];

/// The folders by version. The codec has no OpenFlow 1.2 (the folder of10 to of15 otherwise), which Open vSwitch
/// disables by default and OVN does not speak.
const FOLDERS: [&str; 4] = ["of10", "of13", "of14", "of15"];

fn folder() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    cache.unwrap_or_else(home).join("tautline/os-ken/packet_data")
}

/// The reason why a message is not written back with the same bytes.
fn rewritten(message: &[u8]) -> Result<(), String> {
    let version = message.first().and_then(|number| Version::by_number(*number));
    let codec = Codec { version: version.ok_or("another version")?, table_ids: false, option_bytes: [0; 8] };
    let received = codec.decode(message).map_err(|failure| format!("not read: {failure}"))?;
    let again = codec.encode(received.transaction, &received.message);
    let again = again.map_err(|error| format!("{received:?} is not written: {error}"))?;
    if again == message { Ok(()) } else { Err(format!("{received:?}\n  {message:02x?}\n  {again:02x?}")) }
}

#[test]
fn messages_of_os_ken_are_written_back_with_the_same_bytes() {
    let folder = folder();
    if !peers::required("os-ken", folder.is_dir(), "scripts/setup.sh test fetches its message files") {
        return;
    }
    let exceptions: BTreeMap<_, _> = EXCEPTIONS.iter().copied().collect();
    let (mut same, mut met, mut wrong) = (0, 0, Vec::new());
    for version in FOLDERS {
        for entry in fs::read_dir(folder.join(version)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{version}/{}", path.file_name().unwrap().to_string_lossy());
            if path.extension().is_none_or(|end| end != "packet") {
                continue;
            }
            let outcome = rewritten(&fs::read(&path).unwrap());
            match (outcome, exceptions.get(name.as_str())) {
                (Ok(()), None) => same += 1,
                (Err(_), Some(_)) => met += 1,
                (Ok(()), Some(why)) => wrong.push(format!("{name} is no exception any more: {why}")),
                (Err(what), None) => wrong.push(format!("{name}: {what}")),
            }
        }
    }
    println!("{same} messages are written back with the same bytes; {met} are known exceptions");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(met, EXCEPTIONS.len(), "an exception has no file");
    assert!(same >= 190, "{same} messages");
}
