//! Options of tunnels and underlays in the syntax of the command line.
use std::net::IpAddr;
use std::str::FromStr;

use port::spec::{Described, Kind as PortKind, Options, Spec, SpecError};
use port::tap::TapOptions;
use tunnels::bfd::Timing;
use tunnels::{Kind, Settings};

use crate::tunnel::TunnelPort;
use crate::underlay::Underlay;

/// The kinds of port of this crate.
pub const KINDS: &[PortKind] = &[
    PortKind { form: "geneve:REMOTE", read: |spec| tunnel(spec, Kind::Geneve) },
    PortKind { form: "vxlan:REMOTE", read: |spec| tunnel(spec, Kind::Vxlan) },
    PortKind { form: "gre:REMOTE", read: |spec| tunnel(spec, Kind::Gre) },
    PortKind { form: "underlay:NAME", read: underlay },
];

/// The option of a tunnel with the network of its flows, which the program sets.
pub const BRIDGE_OPTION: &str = "bridge";

/// The longest interval of a session, in milliseconds: 32 bits of microseconds hold it.
const MAX_INTERVAL_MS: u32 = 3_600_000;

/// Whether ports of this kind are tunnels.
pub fn is_tunnel(kind: &str) -> bool {
    Kind::ALL.iter().any(|known| known.name() == kind)
}

/// A value, or the word `flow`.
struct OrFlow<T>(Option<T>);

impl<T: FromStr> FromStr for OrFlow<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "flow" => Ok(OrFlow(None)),
            text => text.parse().map(|value| OrFlow(Some(value))).map_err(|_| "write a value, or flow"),
        }
    }
}

/// A number in decimal or, after `0x`, in hexadecimal notation.
struct Number(u64);

impl FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.map(Number).ok_or(())
    }
}

fn wrong(key: &'static str, value: &str, expected: &str) -> SpecError {
    SpecError::Value { key, value: value.to_owned(), expected: expected.to_owned() }
}

fn settings(spec: Spec, kind: Kind) -> Result<(Settings, String), SpecError> {
    let Spec { target, mut options, .. } = spec;
    let OrFlow(remote) = target
        .parse::<OrFlow<IpAddr>>()
        .map_err(|_| wrong("remote", &target, "write the address of the other end, or flow"))?;
    let mut settings = Settings::new(kind, remote);
    settings.local = options.value::<OrFlow<IpAddr>>("local")?.and_then(|OrFlow(local)| local);
    if let Some(OrFlow(key)) = options.value::<OrFlow<Number>>("key")? {
        settings.key = key.map(|Number(key)| key);
    }
    if settings.key.is_some_and(|key| key > kind.max_key()) {
        let most = format!("write a number up to {}, or flow", kind.max_key());
        return Err(wrong("key", &settings.key.unwrap_or(0).to_string(), &most));
    }
    if kind != Kind::Gre {
        settings.port = options.number("dst-port", 1..=u16::MAX)?.unwrap_or(settings.port);
    }
    settings.checksum = options.switch("csum", false)?;
    settings.tos = options.number("tos", 0..=u8::MAX)?.unwrap_or(0) & 0xfc;
    settings.ttl = options.number("ttl", 1..=u8::MAX)?.unwrap_or(settings.ttl);
    settings.bfd = bfd(&mut options)?;
    if settings.bfd.is_some() && remote.is_none() {
        return Err(wrong("bfd", "on", "name the other end: a session has one"));
    }
    let network = options.text(BRIDGE_OPTION).unwrap_or_default();
    options.finish(kind.name())?;
    let families = [settings.remote, settings.local].map(|end| end.map(|end| end.is_ipv4()));
    if let [Some(remote), Some(local)] = families
        && remote != local
    {
        return Err(wrong("local", &target, "give both ends an address of the same IP version"));
    }
    Ok((settings, network))
}

/// The options of the session with the other end, which `bfd=on` asks for. Intervals are in milliseconds.
fn bfd(options: &mut Options) -> Result<Option<Timing>, SpecError> {
    let default = Timing::default();
    let is_on = options.switch("bfd", false)?;
    let timing = Timing {
        min_rx_ms: options.number("bfd-min-rx", 1..=MAX_INTERVAL_MS)?.unwrap_or(default.min_rx_ms),
        min_tx_ms: options.number("bfd-min-tx", 1..=MAX_INTERVAL_MS)?.unwrap_or(default.min_tx_ms),
        multiplier: options.number("bfd-mult", 1..=u8::MAX)?.unwrap_or(default.multiplier),
    };
    Ok(is_on.then_some(timing))
}

fn tunnel(spec: Spec, kind: Kind) -> Result<Described, SpecError> {
    let (settings, network) = settings(spec, kind)?;
    Ok(Described::new(move || Ok(Box::new(TunnelPort::new(settings.clone(), network.clone())))))
}

fn underlay(spec: Spec) -> Result<Described, SpecError> {
    let options = TapOptions::try_from(spec)?;
    Ok(Described::new(move || Ok(Box::new(Underlay::new(options.clone())))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let spec: Spec = text.parse().unwrap();
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == spec.kind).unwrap();
        settings(spec, kind).map(|(settings, _)| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn tunnels_are_described_as_in_open_vswitch() {
        let plain = read("geneve:192.0.2.2").unwrap();
        assert_eq!(plain, Settings::new(Kind::Geneve, Some([192, 0, 2, 2].into())));
        let all = read("vxlan:flow,local=fd00::1,key=flow,dst-port=8472,csum=on,tos=0x1").unwrap_err();
        assert!(all.contains("tos"), "{all}");
        let all = read("vxlan:flow,local=fd00::1,key=flow,dst-port=8472,csum=on,tos=8,ttl=9").unwrap();
        assert_eq!((all.remote, all.key, all.port, all.checksum), (None, None, 8472, true));
        assert_eq!((all.local, all.tos, all.ttl), ("fd00::1".parse().ok(), 8, 9));
        assert_eq!(read("gre:192.0.2.2,key=0xffffffff").unwrap().key, Some(0xffff_ffff));
        let timing = Timing { min_rx_ms: 200, min_tx_ms: 100, multiplier: 5 };
        assert_eq!(read("geneve:192.0.2.2,bfd=on,bfd-min-rx=200,bfd-mult=5").unwrap().bfd, Some(timing));
        assert!(read("geneve:flow,bfd=on").unwrap_err().contains("name the other end"));
        assert_eq!(read("geneve:flow,bfd=off,bfd-min-rx=200").unwrap().bfd, None);
        for (text, said) in [
            ("geneve:nowhere", "or flow"),
            ("geneve:flow,key=16777216", "up to 16777215"),
            ("gre:flow,dst-port=5", "no option 'dst-port'"),
            ("gre:192.0.2.1,local=fd00::1", "same IP version"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
