//! The commands about tracked connections: `dpctl/dump-conntrack`, `dpctl/flush-conntrack`.

use std::fmt::Write as _;
use std::net::IpAddr;

use control::{ConnectionFilter, Request, TupleFilter};
use serde_json::Value;

use super::datapath::is_datapath;
use super::room::Room;

const ICMP: u64 = 1;
const ICMPV6: u64 = 58;

/// The name of a protocol; others have their number.
fn protocol(number: u64) -> String {
    match number {
        ICMP => "icmp".to_owned(),
        ICMPV6 => "icmpv6".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        132 => "sctp".to_owned(),
        other => other.to_string(),
    }
}

/// A word that says which connections are shown. The only other words are names of the datapath.
pub(super) fn zone(word: &str) -> Result<Option<u16>, String> {
    if is_datapath(word) {
        return Ok(None);
    }
    let number = word.strip_prefix("zone=").and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| format!("failed to parse zone: {word} is not zone=NUMBER\n"))
}

/// A number and the bits that count, as `VALUE[/BITS]`, each decimal or with `0x` hexadecimal.
fn masked(text: &str) -> Option<(u128, Option<u128>)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once('/') {
        None => Some((number(text)?, None)),
        Some((value, bits)) => Some((number(value)?, Some(number(bits)?))),
    }
}

/// Reads a direction, as `ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=80`. The protocol is that of both directions.
fn direction(text: &str, protocol: &mut Option<u8>) -> Result<TupleFilter, String> {
    let mut tuple = TupleFilter::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let wrong = || format!("failed to parse field {key}\n");
        let number = || value.parse::<u16>().map_err(|_| wrong());
        let small = || value.parse::<u8>().map_err(|_| wrong());
        let address = || {
            let address = value.parse::<IpAddr>().map_err(|_| wrong())?;
            if address.is_ipv4() == key.starts_with("ct_nw") { Ok(address) } else { Err(wrong()) }
        };
        match key {
            "ct_nw_src" | "ct_ipv6_src" => tuple.source = Some(address()?),
            "ct_nw_dst" | "ct_ipv6_dst" => tuple.destination = Some(address()?),
            "ct_nw_proto" => *protocol = Some(small()?),
            "ct_tp_src" | "icmp_id" => tuple.source_port = Some(number()?),
            "ct_tp_dst" => tuple.destination_port = Some(number()?),
            "icmp_type" => tuple.icmp_type = Some(small()?),
            "icmp_code" => tuple.icmp_code = Some(small()?),
            _ => return Err(format!("invalid conntrack tuple field: {key}\n")),
        }
    }
    if protocol.is_none() && (tuple.source_port.is_some() || tuple.destination_port.is_some()) {
        return Err("a port needs its protocol: write ct_nw_proto=NUMBER before it\n".to_owned());
    }
    Ok(tuple)
}

/// Reads which connections are to end, as in ovs-vswitchd(8): `[zone=N] [mark=X[/M]] [labels=Y[/N]] [TUPLE [TUPLE]]`.
fn filter(words: &[&str]) -> Result<ConnectionFilter, String> {
    if words.len() > 6 {
        return Err("\"dpctl/flush-conntrack\" command takes at most 6 arguments\n".to_owned());
    }
    let mut filter = ConnectionFilter::default();
    let mut tuples = Vec::new();
    for word in words.iter().filter(|word| !is_datapath(word)) {
        let wrong = || format!("failed to parse {}\n", word.split('=').next().unwrap_or_default());
        if word.starts_with("zone=") {
            filter.zone = zone(word)?;
        } else if let Some(mark) = word.strip_prefix("mark=") {
            let (mark, bits) = masked(mark).ok_or_else(wrong)?;
            let [mark, bits] = [mark, bits.unwrap_or(u32::MAX.into())].map(u32::try_from);
            filter.mark = Some((mark.map_err(|_| wrong())?, bits.map_err(|_| wrong())?));
        } else if let Some(label) = word.strip_prefix("labels=") {
            let (label, bits) = masked(label).ok_or_else(wrong)?;
            filter.label = Some((format!("{label:#x}"), format!("{:#x}", bits.unwrap_or(u128::MAX))));
        } else {
            tuples.push(*word);
        }
    }
    let [original, reply] = match tuples[..] {
        [] => ["", ""],
        [original] => [original, ""],
        [original, reply] => [original, reply],
        _ => return Err("invalid arguments\n".to_owned()),
    };
    filter.original = direction(original, &mut filter.protocol)?;
    filter.reply = direction(reply, &mut filter.protocol)?;
    Ok(filter)
}

/// How connections are shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// Shows the state of both ends (`-m`).
    verbose: bool,
    /// Shows times (`-s`).
    statistics: bool,
}

/// `dpctl/dump-conntrack [-m] [-s] [DP] [zone=ZONE]`: a line for each connection.
pub fn dump(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let (mut shown, mut wanted) = (Shown::default(), None);
    for word in arguments {
        match *word {
            "-m" | "--more" => shown.verbose = true,
            "-s" | "--statistics" => shown.statistics = true,
            word => wanted = zone(word)?.or(wanted),
        }
    }
    let mut said = String::new();
    listed(room, wanted, |connection| line(connection, shown, &mut said))?;
    Ok(said)
}

/// Visits the connections of a zone, or with `None` of all zones.
pub(super) fn listed(room: &Room, zone: Option<u16>, mut visit: impl FnMut(&Value)) -> Result<(), String> {
    let mut next = Some(0);
    while let Some(from) = next {
        let answer = room.ask(Request::Connections { zone, from }).map_err(|why| why + "\n")?;
        answer["connections"].as_array().into_iter().flatten().for_each(&mut visit);
        // Each part goes on behind the former one.
        next = answer["next"].as_u64().filter(|next| *next > from);
    }
    Ok(())
}

/// Writes the addresses and ports of one direction.
fn tuple(of: &Value, is_icmp: bool, said: &mut String) {
    let text = |field: &str| of[field].as_str().unwrap_or_default();
    let number = |field: &str| of[field].as_u64().unwrap_or(0);
    let (source, destination) = (number("source_port"), number("destination_port"));
    let _ = write!(said, "src={},dst={}", text("source"), text("destination"));
    let _ = match is_icmp {
        true => write!(said, ",id={source},type={},code={}", destination >> 8, destination & 0xff),
        false => write!(said, ",sport={source},dport={destination}"),
    };
}

/// Writes a line for a connection.
fn line(connection: &Value, shown: Shown, said: &mut String) {
    let number = |field: &str| connection[field].as_u64().unwrap_or(0);
    let kind = number("protocol");
    let is_icmp = [ICMP, ICMPV6].contains(&kind);
    *said += &protocol(kind);
    for (name, field) in [("orig", "original"), ("reply", "reply")] {
        let _ = write!(said, ",{name}=(");
        tuple(&connection[field], is_icmp, said);
        said.push(')');
    }
    if shown.verbose {
        *said += ",id=0";
    }
    if number("zone") != 0 {
        let _ = write!(said, ",zone={}", number("zone"));
    }
    if shown.verbose {
        *said += ",status=0";
    }
    if shown.statistics {
        let _ = write!(said, ",timeout={}", number("seconds"));
    }
    if number("mark") != 0 {
        let _ = write!(said, ",mark={}", number("mark"));
    }
    let label = connection["label"].as_str().unwrap_or("0x0");
    if label != "0x0" {
        let _ = write!(said, ",labels={label}");
    }
    state(connection, kind, shown, said);
    if let Some(helper) = connection["helper"].as_str() {
        let _ = write!(said, ",helper={helper}");
    }
    said.push('\n');
}

/// Writes the state of a protocol that has one.
fn state(connection: &Value, kind: u64, shown: Shown, said: &mut String) {
    let Some(state) = connection["state"].as_str() else { return };
    if kind != 6 || !shown.verbose {
        let _ = write!(said, ",protoinfo=(state={state})");
        return;
    }
    let [original, reply] = [0, 1].map(|end: usize| connection["window_scales"][end].as_u64());
    let flags = |scale: Option<u64>| if scale.is_some() { "WINDOW_SCALE" } else { "0" };
    let _ = write!(
        said,
        ",protoinfo=(state_orig={state},state_reply={state},wscale_orig={},wscale_reply={},flags_orig={},\
         flags_reply={})",
        original.unwrap_or(0),
        reply.unwrap_or(0),
        flags(original),
        flags(reply)
    );
}

/// `dpctl/flush-conntrack [DP] [zone=N] [mark=X[/M]] [labels=Y[/N]] [TUPLE [TUPLE]]`: ends connections.
pub fn flush(room: &mut Room, arguments: &[&str]) -> Result<String, String> {
    let request = Request::FlushConnections(filter(arguments)?);
    room.ask(request).map(|_| String::new()).map_err(|why| why + "\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The lines of Open vSwitch 3.1 for the same connections, but for the state of the other end.
    #[test]
    fn connections_have_the_lines_of_open_vswitch() {
        let ends = |source: &str, destination: &str, source_port: u16, destination_port: u16| {
            json!({"source": source, "destination": destination, "source_port": source_port,
                   "destination_port": destination_port})
        };
        let ping = json!({"protocol": 1, "zone": 2, "mark": 0, "label": "0x0", "seconds": 29, "state": null,
            "original": ends("203.0.113.1", "203.0.113.101", 704, 8 << 8),
            "reply": ends("10.1.0.11", "203.0.113.1", 704, 0)});
        let mut tcp = json!({"protocol": 6, "zone": 0, "mark": 2, "label": "0xa0001", "seconds": 5, "state": "SYN_SENT",
            "original": ends("fd00::1", "fd00::2", 46890, 443), "reply": ends("fd00::2", "fd00::1", 443, 46890),
            "window_scales": [10, null]});
        let said = |connection: &Value, verbose, statistics| {
            let mut said = String::new();
            line(connection, Shown { verbose, statistics }, &mut said);
            said
        };
        assert_eq!(
            said(&ping, true, false),
            "icmp,orig=(src=203.0.113.1,dst=203.0.113.101,id=704,type=8,code=0),\
             reply=(src=10.1.0.11,dst=203.0.113.1,id=704,type=0,code=0),id=0,zone=2,status=0\n"
        );
        assert_eq!(
            said(&tcp, false, true),
            "tcp,orig=(src=fd00::1,dst=fd00::2,sport=46890,dport=443),\
             reply=(src=fd00::2,dst=fd00::1,sport=443,dport=46890),timeout=5,mark=2,labels=0xa0001,\
             protoinfo=(state=SYN_SENT)\n"
        );
        assert!(said(&tcp, true, false).ends_with(
            ",protoinfo=(state_orig=SYN_SENT,state_reply=SYN_SENT,wscale_orig=10,wscale_reply=0,\
             flags_orig=WINDOW_SCALE,flags_reply=0)\n"
        ));
        tcp["helper"] = "ftp".into();
        assert!(said(&tcp, false, false).ends_with(",protoinfo=(state=SYN_SENT),helper=ftp\n"));
        tcp["helper"] = Value::Null;
        tcp["protocol"] = 17.into();
        tcp["state"] = Value::Null;
        assert!(said(&tcp, true, true).ends_with(",labels=0xa0001\n"));
        assert!(zone("zone=x").is_err() && zone("mark=1").is_err());
        assert_eq!((zone("zone=7"), zone("netdev@ovs-netdev")), (Ok(Some(7)), Ok(None)));
    }

    #[test]
    fn connections_to_end_are_selected_as_in_open_vswitch() {
        let tuple = "ct_nw_src=10.1.1.2,ct_nw_dst=10.1.1.1,ct_nw_proto=17,ct_tp_src=2,ct_tp_dst=1";
        let wanted =
            filter(&["netdev@ovs-netdev", "zone=5", "mark=3/0xf", "labels=0x1", tuple, "ct_tp_src=9"])
                .unwrap();
        let ends = |address: &str| Some(address.parse().unwrap());
        let original = TupleFilter {
            source: ends("10.1.1.2"),
            destination: ends("10.1.1.1"),
            source_port: Some(2),
            destination_port: Some(1),
            ..TupleFilter::default()
        };
        let expected = ConnectionFilter {
            zone: Some(5),
            protocol: Some(17),
            original,
            reply: TupleFilter { source_port: Some(9), ..TupleFilter::default() },
            mark: Some((3, 0xf)),
            label: Some(("0x1".to_owned(), format!("{:#x}", u128::MAX))),
        };
        assert_eq!(wanted, expected);
        assert_eq!(filter(&[]).unwrap(), ConnectionFilter::default());
        let icmp =
            filter(&["ct_ipv6_src=fc00::1,ct_nw_proto=58,icmp_type=128,icmp_code=0,icmp_id=7"]).unwrap();
        assert_eq!((icmp.original.source_port, icmp.original.icmp_type), (Some(7), Some(128)));
        for wrong in
            ["ct_tp_src=1", "ct_nw_src=fc00::1", "ct_nw_proto=300", "mark=x", "mark=0x100000000", "colour=1"]
        {
            assert!(filter(&[wrong]).is_err(), "{wrong}");
        }
        assert!(filter(&["ct_nw_proto=1", "ct_nw_proto=1", "ct_nw_proto=1"]).is_err());
    }

    #[test]
    fn wrong_words_are_named_as_by_openvswitch() {
        for (words, said) in [
            (&["zone=x"][..], "failed to parse zone"),
            (&["mark=x"], "failed to parse mark"),
            (&["labels=x"], "failed to parse labels"),
            (&["zone=1", "ct_nw_src=10.1.1.1,colour=red"], "invalid conntrack tuple field: colour"),
            (&["ct_nw_src=x"], "failed to parse field ct_nw_src"),
            (&["ct_nw_src", "ct_nw_dst=10.1.1.1"], "failed to parse field ct_nw_src"),
            (&["", "", ""], "invalid arguments"),
            (&["zone=1", "mark=1", "labels=1", "", "", "", ""], "command takes at most 6 arguments"),
        ] {
            let error = filter(words).unwrap_err();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
