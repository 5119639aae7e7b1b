//! A whole policy as flows.
use std::collections::BTreeMap;

use toml::Spanned;

use crate::bindings;
use crate::file::{self, Group, Policy};
use crate::mistake::{Mistake, Wrong};
use crate::port::Port;
use crate::rules::{Flows, KEEP, Sets, Way};
use crate::values::prefix;

/// The mark of connections that were allowed before and are not any more.
const REFUSED: u32 = u32::MAX;

/// The flows that do not depend on ports and rules, with `MARK` for the mark of allowed connections. Neighbor discovery has the hop limit 255 (RFC 4861 section 6.1).
const FRAME: &str = "\
table=0,priority=50,dl_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0 actions=drop
table=0,priority=30,arp actions=normal
table=0,priority=30,icmp6,nw_ttl=255,icmp_type=133 actions=normal
table=0,priority=30,icmp6,nw_ttl=255,icmp_type=134 actions=normal
table=0,priority=30,icmp6,nw_ttl=255,icmp_type=135 actions=normal
table=0,priority=30,icmp6,nw_ttl=255,icmp_type=136 actions=normal
table=0,priority=20,ip actions=ct(table=1,zone=1)
table=0,priority=20,ipv6 actions=ct(table=1,zone=1)
table=0,priority=0 actions=resubmit(,4)
table=1,priority=30,ct_state=+trk+inv actions=drop
table=1,priority=25,ct_state=+trk+est+rpl,ct_mark=REFUSED actions=drop
table=1,priority=25,ct_state=+trk+rel,ct_mark=REFUSED actions=drop
table=1,priority=20,ct_state=+trk+est,ct_mark=MARK actions=resubmit(,4)
table=1,priority=20,ct_state=+trk+rel actions=resubmit(,4)
table=1,priority=15,ct_state=+trk+est+rpl actions=resubmit(,4)
table=1,priority=10,ct_state=+trk+est-rpl actions=load:MARK->NXM_NX_REG1[],resubmit(,2)
table=1,priority=10,ct_state=+trk+new actions=load:MARK->NXM_NX_REG1[],resubmit(,2)
table=2,priority=0 actions=resubmit(,3)
table=3,priority=0,ip actions=KEEP
table=3,priority=0,ipv6 actions=KEEP
table=7,priority=10,ip,ct_state=+trk+est actions=ct(commit,zone=1,exec(set_field:REFUSED->ct_mark))
table=7,priority=10,ipv6,ct_state=+trk+est actions=ct(commit,zone=1,exec(set_field:REFUSED->ct_mark))
table=7,priority=0 actions=drop
";

/// Ports of groups by their number.
type Guarded<'a> = BTreeMap<u16, &'a Port>;

/// The flows of a policy, one a line. `ports` are all ports of the switch; those in no group are not restricted.
///
/// # Errors
/// The text is no TOML, a key or value is wrong, no group has a port, or a port of a group is missing, has no addresses,
/// or shares an address with another port.
pub fn compile(text: &str, ports: &[Port]) -> Result<String, Mistake> {
    flows(text, ports).map_err(|wrong| wrong.in_text(text))
}

fn flows(text: &str, ports: &[Port]) -> Result<String, Wrong> {
    let policy = file::read(text)?;
    let sets = sets(&policy)?;
    let mut flows = Flows::default();
    let mut guarded = Guarded::new();
    for group in policy.groups.values() {
        for name in &group.ports {
            let port = guarded_port(name, ports)?;
            guarded.insert(port.number, port);
            rules(port, group, &sets, &mut flows)?;
        }
    }
    for (name, addresses) in &policy.addresses {
        bindings::bind(guarded_port(name, ports)?, addresses, &mut flows)?;
    }
    if guarded.is_empty() && policy.addresses.is_empty() {
        let what =
            "no group has a port, so the policy restricts nothing; write [groups.NAME] and ports = [\"…\"]";
        return Err(Wrong::new(0..0, what));
    }
    guards(&guarded, &mut flows);
    deliveries(&guarded, ports, &mut flows);
    let rules = flows.finish();
    let frame = FRAME.replace("MARK", &mark(&rules).to_string()).replace("REFUSED", &REFUSED.to_string());
    Ok(frame.replace("KEEP", KEEP) + &rules)
}

/// The mark of connections that these flows allow: a hash of them (FNV-1a), so that a connection that other flows have
/// allowed is checked again.
fn mark(flows: &str) -> u32 {
    let hash =
        flows.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.clamp(1, REFUSED - 1)
}

fn sets(policy: &Policy) -> Result<Sets, Wrong> {
    let read = |(name, values): (&String, &Vec<Spanned<String>>)| {
        let prefixes: Result<_, Wrong> = values.iter().map(prefix).collect();
        Ok((name.clone(), prefixes?))
    };
    policy.sets.iter().map(read).collect::<Result<_, _>>().map(Sets)
}

/// The port with this name. Its addresses are its own, because frames to them are delivered to it alone.
fn guarded_port<'a>(name: &Spanned<String>, ports: &'a [Port]) -> Result<&'a Port, Wrong> {
    let wrong = |why: String| Wrong::new(name.span(), format!("port '{}': {why}", name.as_ref()));
    let Some(port) = ports.iter().find(|port| port.name == *name.as_ref()) else {
        return Err(wrong("the switch has no such port; write the name of a --port".to_owned()));
    };
    if port.addresses.is_empty() {
        return Err(wrong(format!("it has no addresses; add --allow {}=MAC", port.name)));
    }
    for other in ports.iter().filter(|other| other.name != port.name) {
        if let Some(address) = port.addresses.iter().find(|address| other.addresses.contains(address)) {
            return Err(wrong(format!(
                "{address} belongs to port '{}' too; allow it at one port",
                other.name
            )));
        }
    }
    Ok(port)
}

/// The rules of a group for one of its ports.
fn rules(port: &Port, group: &Group, sets: &Sets, flows: &mut Flows) -> Result<(), Wrong> {
    for rule in &group.outbound {
        flows.rule(Way::Out, &format!("in_port={}", port.number), rule, sets)?;
    }
    for rule in &group.inbound {
        for address in &port.addresses {
            flows.rule(Way::In, &format!("dl_dst={address}"), rule, sets)?;
        }
    }
    Ok(())
}

/// Drops all that no rule allows. Only ports without a group may advertise themselves as routers.
fn guards(guarded: &Guarded<'_>, flows: &mut Flows) {
    for (number, port) in guarded {
        flows.add(&format!("table=0,priority=40,in_port={number},icmp6,icmp_type=134 actions=drop"));
        flows.add(&format!("table=0,priority=10,in_port={number} actions=drop"));
        flows.add(&format!("table=2,priority=1,in_port={number} actions=resubmit(,7)"));
        for address in &port.addresses {
            flows.add(&format!("table=0,priority=10,dl_dst={address} actions=drop"));
            flows.add(&format!("table=3,priority=1,dl_dst={address} actions=resubmit(,7)"));
        }
    }
}

/// Table 4. A frame to an address of a port goes to that port, a frame for several stations to all ports without a
/// group, and a frame to an unknown address to those of them that have no addresses.
fn deliveries(guarded: &Guarded<'_>, ports: &[Port], flows: &mut Flows) {
    for port in ports {
        let priority = if guarded.contains_key(&port.number) { 10 } else { 8 };
        for address in &port.addresses {
            flows
                .add(&format!("table=4,priority={priority},dl_dst={address} actions=output:{}", port.number));
        }
    }
    let others = || ports.iter().filter(|port| !guarded.contains_key(&port.number));
    let unknown = others().filter(|port| port.addresses.is_empty());
    let to_several = outputs(others());
    flows.add(&format!("table=4,priority=5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions={to_several}"));
    flows.add(&format!("table=4,priority=0 actions={}", outputs(unknown)));
}

fn outputs<'a>(ports: impl Iterator<Item = &'a Port>) -> String {
    let outputs: Vec<String> = ports.map(|port| format!("output:{}", port.number)).collect();
    if outputs.is_empty() { "drop".to_owned() } else { outputs.join(",") }
}

#[cfg(test)]
mod tests {
    use virtio::net::MacAddress;

    use super::*;

    fn ports_of(names: &[&str]) -> Vec<Port> {
        let port = |(number, name): (u16, &&str)| Port {
            name: (*name).to_owned(),
            number,
            addresses: vec![MacAddress([2, 0, 0, 0, 0, number as u8])],
        };
        (1..).zip(names).map(port).collect()
    }

    #[test]
    fn rules_become_flows_that_are_understood() {
        let text = "[sets]\nclients = [\"10.0.0.0/24\", \"10.0.1.7\", \"fd00::/64\"]\nnone = []\n\
                    [groups.web]\nports = [\"one\", \"two\"]\n\
                    in = [{ protocol = \"tcp\", ports = \"80,8000-8099\", with = \"clients\" }, { protocol = \"icmp\" }]\n\
                    out = [{}, { protocol = \"tcp\", ports = \"80,443\", with = \"clients\" }]\n\
                    [addresses]\nthree = [\"10.0.0.3\", \"fd00::3\"]\n\
                    [groups.more]\nports = [\"two\"]\nin = [{ protocol = \"icmp\" }, { with = \"none\" }]";
        let mut ports = ports_of(&["one", "two", "three", "four"]);
        ports[3].addresses.clear();
        let flows = compile(text, &ports).unwrap();
        for flow in flows.lines() {
            assert!(flow::Flow::parse(flow).is_ok(), "{flow}");
        }
        for expected in [
            "table=3,priority=10,ip,dl_dst=02:00:00:00:00:01,ct_nw_proto=6,nw_src=10.0.0.0/24 actions=conjunction(",
            "table=3,priority=20,ipv6,dl_dst=02:00:00:00:00:02,ct_nw_proto=58 actions=ct(commit,zone=1,exec(move:NXM_NX_REG1[]->NXM_NX_CT_MARK[])),resubmit(,4)",
            "table=2,priority=20,ip,in_port=1 actions=resubmit(,3)",
            "table=4,priority=8,dl_dst=02:00:00:00:00:03 actions=output:3\n",
            "table=4,priority=5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=output:3,output:4\n",
            "table=4,priority=0 actions=output:4\n",
            "table=5,priority=20,in_port=3,arp,arp_sha=02:00:00:00:00:03,arp_spa=10.0.0.3/32 actions=load",
            "table=6,priority=10,in_port=3,ipv6,ipv6_src=fe80::ff:fe00:3 actions=load",
        ] {
            assert!(flows.contains(expected), "{expected}\n{flows}");
        }
    }

    #[test]
    fn a_mistake_has_its_line_and_a_remedy() {
        let rule = |rule: &str| format!("[groups.g]\nports = [\"one\"]\nin = [\n  {rule}\n]\n");
        for (text, line, said) in [
            ("x".to_owned(), 1, "expected"),
            ("\nspeed = 1".to_owned(), 2, "expected one of `sets`, `addresses`, `groups`"),
            (String::new(), 1, "no group has a port"),
            ("[groups.g]\nports = []".to_owned(), 1, "no group has a port"),
            ("[addresses]\none = []\nnone = []".to_owned(), 3, "port 'none': the switch has no such port"),
            ("[addresses]\none = [\"10.0.0.1/24\"]".to_owned(), 2, "write 10.0.0.1, or the first address"),
            ("[sets]\na = [\"10.0.0.1\",\n\"10.0.0.0/33\"]".to_owned(), 3, "'10.0.0.0/33' is no address"),
            ("[sets]\na = [\"10.0.0.1/24\"]".to_owned(), 2, "write 10.0.0.1, or the first address"),
            ("[groups.g]\nports = [\"none\"]".to_owned(), 2, "port 'none': the switch has no such port"),
            ("[groups.g]\nport = [\"one\"]".to_owned(), 2, "expected one of `ports`, `in`, `out`"),
            (rule("{ ports = \"80\" }"), 4, "write protocol = \"tcp\""),
            (rule("{ protocol = \"icmp\", ports = \"80\" }"), 4, "write protocol = \"tcp\""),
            (rule("{ protocol = \"tcp\", ports = \"9-8\" }"), 4, "ports '9-8': write numbers"),
            (rule("{ protocol = \"tcp\", ports = 80 }"), 4, "expected a string"),
            (rule("{ protocol = \"tcpx\" }"), 4, "protocol 'tcpx': write tcp"),
            (rule("{ protocol = \"256\" }"), 4, "a number up to 255"),
            (rule("{ with = \"others\" }"), 4, "'others' is no address and no set"),
            (rule("{ from = \"10.0.0.1\" }"), 4, "expected one of `protocol`, `ports`, `with`"),
        ] {
            let mistake = compile(&text, &ports_of(&["one"])).unwrap_err();
            assert!(mistake.what.contains(said) && mistake.line == line, "{text:?}: {mistake}");
        }
        let group = "[groups.g]\nports = [\"one\"]";
        let mut ports = ports_of(&["one", "two"]);
        ports[0].addresses.clear();
        assert!(compile(group, &ports).unwrap_err().what.contains("add --allow one=MAC"));
        ports[0].addresses = ports[1].addresses.clone();
        assert!(compile(group, &ports).unwrap_err().what.contains("belongs to port 'two' too"));
    }
}
