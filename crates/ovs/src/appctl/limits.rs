//! The commands about how many connections are tracked: `dpctl/ct-get-limits`, `ct-set-limits`, `ct-del-limits`,
//! `ct-get-nconns`, `ct-get-maxconns`, `ct-stats-show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::Request;
use serde_json::Value;

use super::connections::{listed, zone};
use super::datapath::is_datapath;
use super::room::Room;

/// The protocols with a line of their own, in the order of the lines.
const PROTOCOLS: [(&str, &[u64]); 8] = [
    ("TCP", &[6]),
    ("UDP", &[17]),
    ("UDPLITE", &[136]),
    ("SCTP", &[132]),
    ("ICMP", &[1, 58]),
    ("DCCP", &[33]),
    ("IGMP", &[2]),
    ("Other", &[]),
];

/// A change of limits.
#[derive(Debug, Default, PartialEq, Eq)]
struct Limits {
    /// The limit of each zone without a limit of its own.
    default: Option<u32>,
    zones: Vec<(u16, Option<u32>)>,
}

fn without_datapath<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    match words {
        [first, rest @ ..] if is_datapath(first) => rest,
        words => words,
    }
}

/// Reads `[default=L] [zone=N,limit=L]...`.
fn wanted(words: &[&str]) -> Result<Limits, String> {
    let mut limits = Limits::default();
    let mut words = without_datapath(words);
    if words.is_empty() {
        return Err("too few arguments (Invalid argument)\n".to_owned());
    }
    if let Some(default) = words[0].strip_prefix("default=") {
        let wrong = |_| "invalid default limit (Invalid argument)\n".to_owned();
        limits.default = Some(default.parse().map_err(wrong)?);
        words = &words[1..];
    }
    for word in words {
        let (mut zone, mut limit) = (None, None);
        for part in word.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let wrong = || format!("failed to parse field {key} (Invalid argument)\n");
            match key {
                "zone" => zone = Some(value.parse().map_err(|_| wrong())?),
                "limit" => limit = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(format!("invalid zone limit field: {key} (Invalid argument)\n")),
            }
        }
        let (Some(zone), Some(limit)) = (zone, limit) else {
            return Err("failed to parse zone limit (Invalid argument)\n".to_owned());
        };
        limits.zones.push((zone, Some(limit)));
    }
    Ok(limits)
}

/// Reads `zone=N1[,N2]...`.
fn zones(words: &[&str]) -> Result<Vec<u16>, String> {
    let [word] = words else {
        return if words.is_empty() { Ok(Vec::new()) } else { Err("invalid arguments\n".to_owned()) };
    };
    let numbers = word.strip_prefix("zone=");
    let numbers = numbers.ok_or_else(|| format!("invalid argument {word} (Invalid argument)\n"))?;
    let wrong = |_| "invalid zone (Invalid argument)\n".to_owned();
    numbers.split(',').map(|number| number.parse().map_err(wrong)).collect()
}

fn ask(room: &Room, limits: Limits, shown: Vec<u16>) -> Result<Value, String> {
    let Limits { default, zones } = limits;
    room.ask(Request::ConnectionLimits { default, zones, shown }).map_err(|why| why + "\n")
}

/// An error as Open vSwitch names it in commands about its datapath.
fn told<T>(done: Result<T, String>) -> Result<T, String> {
    done.map_err(|why| format!("ovs-vswitchd: {why}"))
}

/// Refuses a change while the database has limits.
fn is_free(room: &Room, instead: &str) -> Result<(), String> {
    if room.limits_zones() {
        return Err(format!(
            "the zone limits are set via database, use 'ovs-vsctl {instead} <...>' instead. (Operation not permitted)\n"
        ));
    }
    Ok(())
}

/// `dpctl/ct-set-limits [DP] [default=L] [zone=N,limit=L]...`
pub fn set(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let limits = told(wanted(arguments))?;
    told(is_free(room, "set-zone-limit"))?;
    ask(room, limits, Vec::new()).map(|_| String::new())
}

/// `dpctl/ct-del-limits [DP] [default] [zone=N1[,N2]...]`
pub fn delete(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let (mut limits, mut words) = (Limits::default(), without_datapath(arguments));
    if words.is_empty() {
        return told(Err("too few arguments (Invalid argument)\n".to_owned()));
    }
    if words[0] == "default" {
        limits.default = Some(0);
        words = &words[1..];
    }
    limits.zones = told(zones(words))?.into_iter().map(|zone| (zone, None)).collect();
    told(is_free(room, "del-zone-limit"))?;
    ask(room, limits, Vec::new()).map(|_| String::new())
}

/// `dpctl/ct-get-limits [DP] [zone=N1[,N2]...]`
pub fn get(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let shown = told(zones(without_datapath(arguments)))?;
    Ok(shown_limits(&ask(room, Limits::default(), shown)?))
}

/// 0 stands for no limit.
fn shown_limits(answer: &Value) -> String {
    let number = |of: &Value| of.as_u64().unwrap_or(0);
    let mut said = format!("default limit={}\n", number(&answer["default"]));
    for zone in answer["zones"].as_array().into_iter().flatten() {
        let [zone, limit, count] = ["zone", "limit", "count"].map(|field| number(&zone[field]));
        let _ = writeln!(said, "zone={zone},limit={limit},count={count}");
    }
    said
}

/// A number of the switch, which a command without arguments but the datapath prints.
fn number(room: &Room, field: &str) -> Result<String, String> {
    let answer = ask(room, Limits::default(), Vec::new())?;
    Ok(format!("{}\n", answer[field].as_u64().unwrap_or(0)))
}

/// `dpctl/ct-get-nconns [DP]`: the number of connections.
pub fn present(room: &mut Room, _: &[&str]) -> Result<String, String> {
    number(room, "connections")
}

/// `dpctl/ct-get-maxconns [DP]`: the number of connections that the switch can have.
pub fn most(room: &mut Room, _: &[&str]) -> Result<String, String> {
    number(room, "most")
}

/// `dpctl/ct-stats-show [-m] [DP] [zone=N]`: the connections by protocol, and with `-m` those of TCP by state.
pub fn statistics(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let (mut verbose, mut wanted) = (false, None);
    for word in arguments {
        match *word {
            "-m" | "--more" => verbose = true,
            word => wanted = zone(word)?.or(wanted),
        }
    }
    let (mut kinds, mut states) = ([0_u64; PROTOCOLS.len()], BTreeMap::<String, u64>::new());
    listed(room, wanted, |connection| {
        let protocol = connection["protocol"].as_u64().unwrap_or(0);
        let kind = PROTOCOLS.iter().position(|(_, numbers)| numbers.contains(&protocol));
        kinds[kind.unwrap_or(PROTOCOLS.len() - 1)] += 1;
        if protocol == 6
            && let Some(state) = connection["state"].as_str()
        {
            *states.entry(state.to_owned()).or_default() += 1;
        }
    })?;
    Ok(counted(&kinds, verbose.then_some(&states)))
}

fn counted(kinds: &[u64; PROTOCOLS.len()], states: Option<&BTreeMap<String, u64>>) -> String {
    let mut said = format!("Connections Stats:\n    Total: {}\n", kinds.iter().sum::<u64>());
    for ((name, _), count) in PROTOCOLS.iter().zip(kinds).filter(|(_, count)| **count > 0) {
        let _ = writeln!(said, "  {name}: {count}");
        let Some(states) = states.filter(|_| *name == "TCP") else { continue };
        said += "    Conn per TCP states:\n";
        states.iter().for_each(|(state, count)| _ = writeln!(said, "\t  [{state}]={count}"));
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_are_read_and_shown_as_by_openvswitch() {
        let limits =
            wanted(&["netdev@ovs-netdev", "default=10", "zone=1,limit=5", "limit=0,zone=2"]).unwrap();
        assert_eq!(limits, Limits { default: Some(10), zones: vec![(1, Some(5)), (2, Some(0))] });
        for (words, said) in [
            (&[][..], "too few arguments"),
            (&["default=-1"], "invalid default limit (Invalid argument)"),
            (&["default=4294967296"], "invalid default limit"),
            (&["zone=1,limit=-1"], "failed to parse field limit (Invalid argument)"),
            (&["zone=65536,limit=1"], "failed to parse field zone"),
            (&["zone=1"], "failed to parse zone limit"),
            (&["zone=1,colour=2"], "invalid zone limit field: colour"),
        ] {
            let error = wanted(words).unwrap_err();
            assert!(error.starts_with(said), "{words:?}: {error}");
        }
        assert_eq!((zones(&["zone=2,4"]), zones(&[])), (Ok(vec![2, 4]), Ok(Vec::new())));
        assert!(
            zones(&["zone=x"]).is_err() && zones(&["2"]).is_err() && zones(&["zone=1", "zone=2"]).is_err()
        );
        let answer = json!({"default": null, "zones": [{"zone": 1, "limit": 5, "count": 3},
                                                       {"zone": 4, "limit": null, "count": 0}]});
        assert_eq!(
            shown_limits(&answer),
            "default limit=0\nzone=1,limit=5,count=3\nzone=4,limit=0,count=0\n"
        );
    }

    #[test]
    fn connections_are_counted_by_protocol_and_state() {
        let states = [("ESTABLISHED".to_owned(), 2)].into();
        assert_eq!(
            counted(&[2, 1, 0, 0, 0, 0, 0, 3], Some(&states)),
            "Connections Stats:\n    Total: 6\n  TCP: 2\n    Conn per TCP states:\n\t  [ESTABLISHED]=2\n  UDP: 1\n  \
             Other: 3\n"
        );
        assert_eq!(counted(&[0; 8], Some(&states)), "Connections Stats:\n    Total: 0\n");
    }
}
