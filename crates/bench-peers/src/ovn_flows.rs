//! Writes the flows that OVN gives a chassis with many virtual machines, for `make bench-flows`.
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use peers::{Netns, Ovn, OvsDatabase, OvsNetdev};

use crate::plan::ADDRESSES;

/// The most ports of a chassis: the numbers in their addresses are one byte.
const MAX_PORTS: u16 = 250;

/// Runs OVN with a logical switch of `ports` machines on one chassis, and writes the flows of its bridge in the notation of
/// `ovs-ofctl`. All machines are in a port group whose rules allow UDP, TCP from the group, and SSH. The first two have the
/// ports 1 and 2 and the addresses of the benchmark's drivers, and may send from any IP address. With `stateless`, UDP passes
/// without connection tracking, and all frames of the first two get the Ethernet addresses of the two machines before the
/// first table: DPDK's generator of many flows has fixed addresses, those of no machine.
///
/// # Errors
/// `ports` is not 2 to 250; OVN or Open vSwitch is missing, fails, or has not installed the flows within 60 s; or the file
/// cannot be written.
pub fn write(file: &Path, ports: u16, stateless: bool) -> anyhow::Result<()> {
    ensure!((2..=MAX_PORTS).contains(&ports), "the number of ports is 2 to {MAX_PORTS}, not {ports}");
    let network = Netns::new()?;
    let openvswitch = OvsNetdev::start(&network)?;
    let database = openvswitch.database();
    let ovn = Ovn::start(database).context("starting OVN")?;
    database.vsctl(&["--no-wait", "wait-until", "Bridge", "br-int"])?;
    add_machines(&ovn, ports, stateless).context("the logical switch")?;
    add_interfaces(database, ports).context("the chassis' interfaces")?;
    for number in [1, 2, ports] {
        ovn.nbctl(&["wait-until", "Logical_Switch_Port", &format!("vif{number}"), "up=true"])?;
    }
    ovn.nbctl(&["--wait=hv", "sync"])?;
    let dumped = database.ofctl(&["--no-stats", "--no-names", "dump-flows", "br-int"])?;
    let mut flows: Vec<String> = dumped.lines().filter_map(flow).collect();
    if stateless {
        address_machines(&mut flows)?;
    }
    let stated = format!("# OVN's flows for {ports} ports: {} flows.\n", flows.len());
    std::fs::write(file, stated.clone() + &flows.join("\n") + "\n")
        .with_context(|| format!("writing {}", file.display()))?;
    print!("{}: {}", file.display(), stated.trim_start_matches("# "));
    Ok(())
}

/// A flow without its cookie; `None` for a line that is none.
fn flow(line: &str) -> Option<String> {
    let (fields, actions) = line.trim().split_once(" actions=")?;
    let fields = fields.split(',').map(str::trim).filter(|field| !field.starts_with("cookie="));
    Some(format!("{} actions={actions}", fields.collect::<Vec<_>>().join(",")))
}

/// Gives frames of the first two machines their addresses before all other actions.
fn address_machines(flows: &mut [String]) -> anyhow::Result<()> {
    let [first, second] = ADDRESSES;
    for (port, [source, destination]) in [(1, [first, second]), (2, [second, first])] {
        let fields = format!("priority=100,in_port={port} actions=");
        let flow = flows.iter_mut().find(|flow| flow.starts_with(&fields));
        let flow = flow.with_context(|| format!("OVN has no flow {fields}"))?;
        flow.insert_str(
            fields.len(),
            &format!("set_field:{source}->eth_src,set_field:{destination}->eth_dst,"),
        );
    }
    Ok(())
}

fn add_machines(ovn: &Ovn, ports: u16, stateless: bool) -> anyhow::Result<()> {
    let mut words = "ls-add sw0".to_owned();
    for number in 1..=ports {
        let ip = format!("10.0.0.{number}");
        let (mac, secured) = match ADDRESSES.get(usize::from(number) - 1) {
            Some(mac) => ((*mac).to_owned(), String::new()),
            None => (format!("02:00:00:00:bb:{number:02x}"), format!(" {ip}")),
        };
        write!(words, "|--|lsp-add sw0 vif{number}|--|lsp-set-addresses vif{number}")?;
        write!(words, "|={mac} {ip}|--|lsp-set-port-security vif{number}|={mac}{secured}")?;
    }
    words += "|--|pg-add group";
    (1..=ports).try_for_each(|number| write!(words, " vif{number}"))?;
    let udp = if stateless { "allow-stateless" } else { "allow-related" };
    for (way, order, rule, verdict) in [
        ("from-lport", 1001, "inport == @group && ip4 && udp", udp),
        ("from-lport", 1000, "inport == @group && ip4", "allow-related"),
        ("to-lport", 1001, "outport == @group && ip4 && udp", udp),
        ("to-lport", 1000, "outport == @group && ip4.src == $group_ip4 && tcp", "allow-related"),
        ("to-lport", 1000, "outport == @group && ip4 && tcp.dst == 22", "allow-related"),
        ("to-lport", 900, "outport == @group && ip4", "drop"),
    ] {
        write!(words, "|--|acl-add group {way} {order}|={rule}|{verdict}")?;
    }
    // A part that begins with = is one word.
    let split = |part: &'_ str| -> Vec<String> {
        match part.strip_prefix('=') {
            Some(word) => vec![word.to_owned()],
            None => part.split(' ').map(String::from).collect(),
        }
    };
    let words: Vec<String> = words.split('|').flat_map(split).collect();
    ovn.nbctl(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(())
}

fn add_interfaces(database: &OvsDatabase, ports: u16) -> anyhow::Result<()> {
    let of_port = |number| {
        let identity = format!("external_ids:iface-id=vif{number} ofport_request={number}");
        format!("add-port br-int vif{number} -- set Interface vif{number} type=internal {identity}")
    };
    let words = (1..=ports).map(of_port).collect::<Vec<_>>().join(" -- ");
    database.vsctl(&words.split(' ').collect::<Vec<_>>())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumped_flow_keeps_its_table_and_loses_its_cookie() {
        let dumped =
            " cookie=0x13, table=8, priority=50,metadata=0x1 actions=load:0->NXM_NX_REG10[12],resubmit(,73)";
        let kept = "table=8,priority=50,metadata=0x1 actions=load:0->NXM_NX_REG10[12],resubmit(,73)";
        assert_eq!((flow(dumped).as_deref(), flow("NXST_FLOW reply (xid=0x4):")), (Some(kept), None));
    }

    #[test]
    fn frames_get_the_addresses_of_the_two_machines_first() {
        let of = |port: u16| {
            format!("priority=100,in_port={port} actions=load:0x1->OXM_OF_METADATA[],resubmit(,8)")
        };
        let mut flows = [of(12), of(1), of(2)];
        address_machines(&mut flows).unwrap();
        let addressed = |port: u16, source: &str, destination: &str| {
            let set = format!("actions=set_field:{source}->eth_src,set_field:{destination}->eth_dst,");
            of(port).replace("actions=", &set)
        };
        let [first, second] = ADDRESSES;
        assert_eq!(flows, [of(12), addressed(1, first, second), addressed(2, second, first)]);
        assert!(address_machines(&mut [of(12)]).is_err());
    }
}
