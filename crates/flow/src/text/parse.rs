//! Reads matches from text, as `ovs-ofctl` reads them.
use super::print::SHORT_NAMES;
use super::{ParseError, value};
use crate::{Field, Match, Needs};

const PRESENT: u128 = 0x1000; // of a tag
const ID: u128 = 0x1fff; // of a tag, with the bit of presence
const NO_TAG: u128 = 0xffff; // OpenFlow 1.0's word for no tag

/// Whether a frame with these fields can have `field`; if not, the protocol that it needs. A name in a match may stand
/// for several fields: `nw_src` also for ARP's, `tp_src` for every protocol with ports, `icmp_type` for both versions.
fn met(wanted: &Match, field: Field) -> Result<(), &'static str> {
    const TRANSPORT: [Needs; 5] = [Needs::Tcp, Needs::Udp, Needs::Sctp, Needs::Icmpv4, Needs::Icmpv6];
    let any = |needs: &[Needs]| needs.iter().any(|needs| wanted.meets(*needs));
    let (met, needed) = match field.needs() {
        // The bit of presence is the field's own.
        Needs::Nothing | Needs::Vlan => (true, ""),
        Needs::Ipv4 => (any(&[Needs::Ipv4, Needs::Arp]), "ip (or a protocol in it), arp or rarp"),
        Needs::Arp => (any(&[Needs::Arp]), "arp or rarp"),
        Needs::Ip if field == Field::NwProto => (any(&[Needs::Ip, Needs::Arp]), "ip, ipv6, arp or rarp"),
        Needs::Ip => (any(&[Needs::Ip]), "ip or ipv6 (or a protocol in them)"),
        Needs::Mpls => (any(&[Needs::Mpls]), "mpls or mplsm"),
        Needs::Ipv6 => (any(&[Needs::Ipv6]), "ipv6 (or a protocol in it)"),
        Needs::Tcp if field == Field::TcpFlags => (any(&[Needs::Tcp]), "tcp or tcp6"),
        Needs::Tcp | Needs::Udp | Needs::Sctp => (any(&TRANSPORT), "tcp, udp or sctp (or tcp6, udp6, sctp6)"),
        Needs::Icmpv4 | Needs::Icmpv6 => (any(&[Needs::Icmpv4, Needs::Icmpv6]), "icmp or icmp6"),
        Needs::Neighbor => (any(&[Needs::Neighbor]), "icmp6,icmp_type=135 (or 136)"),
        Needs::Solicitation => (any(&[Needs::Solicitation]), "icmp6,icmp_type=135"),
        Needs::Advertisement => (any(&[Needs::Advertisement]), "icmp6,icmp_type=136"),
    };
    if met { Ok(()) } else { Err(needed) }
}

/// Parses a word of the match that is no field. Returns false for any other word.
fn special(wanted: &mut Match, name: &str, text: &str) -> Result<bool, ParseError> {
    let all = |field: Field| value::parse(field, text);
    match name {
        "dl_vlan" if value::number(text) == Some(NO_TAG) => wanted.add_masked(Field::VlanTci, 0, ID),
        "dl_vlan" => {
            let (value, mask) = all(Field::VlanVid)?;
            if mask != 0 && mask != ID {
                let accepted = "a number of at most 12 bits, or vlan_vid=NUMBER/MASK";
                return Err(ParseError::new(format!("dl_vlan={text}"), "the field has no mask", accepted));
            }
            wanted.add_masked(Field::VlanTci, value | PRESENT, mask);
        }
        "vlan_vid" => {
            let (value, mask) = all(Field::VlanVid)?;
            wanted.add_masked(Field::VlanTci, value, mask);
        }
        "dl_vlan_pcp" | "vlan_pcp" => {
            let (value, mask) = all(Field::VlanPcp)?;
            if mask != 0 {
                wanted.add_masked(Field::VlanTci, value << 13 | PRESENT, mask << 13 | PRESENT);
            }
        }
        "in_port" => {
            let (value, mask) = all(Field::InPort)?;
            wanted.set_masked(Field::InPortOxm, value, if mask == 0 { 0 } else { u128::MAX });
        }
        "nw_tos" => {
            let (value, mask) = all(Field::NwTos)?;
            if value & 3 != 0 {
                let why = "the two low bits are not of the DSCP";
                return Err(ParseError::new(format!("nw_tos={text}"), why, "a multiple of 4 up to 252"));
            }
            wanted.set_masked(Field::IpDscp, value >> 2, mask >> 2);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

impl Match {
    /// Adds one word of a match: `tcp`, or a field with its value.
    ///
    /// # Errors
    /// The word is unknown, or its value is invalid for the field.
    pub(super) fn add_word(&mut self, word: &str) -> Result<Option<Field>, ParseError> {
        if let Some((_, kind, protocol)) = SHORT_NAMES.iter().find(|(name, ..)| *name == word) {
            self.set(Field::EthType, (*kind).into());
            if let Some(protocol) = protocol {
                self.set(Field::NwProto, (*protocol).into());
            }
            return Ok(None);
        }
        let unknown = || {
            let names = SHORT_NAMES.map(|(name, ..)| name).join(", ");
            ParseError::new(
                word,
                "no field of this name",
                format!("{names}, or FIELD=VALUE of ovs-fields(7)"),
            )
        };
        let (name, text) = word.split_once('=').ok_or_else(unknown)?;
        let field = match name {
            "dl_vlan" => Field::VlanVid,
            "dl_vlan_pcp" => Field::VlanPcp,
            _ => Field::by_name(name).ok_or_else(unknown)?,
        };
        if !special(self, name, text)? {
            let (value, mask) = value::parse(field, text)?;
            self.set_masked(field, value, mask);
        }
        Ok((self.mask().get(field) != 0).then_some(field))
    }

    /// Reads a match as `ovs-ofctl` writes it, such as `tcp,nw_dst=10.0.0.0/24,tp_dst=80`. Words are separated by
    /// commas or blanks; if a field occurs several times, the last word counts.
    ///
    /// A field whose protocol is not in the match is an error. (`ovs-ofctl` drops such a field with a message.)
    ///
    /// # Errors
    /// A word is unknown, a value is invalid for its field, or the protocol of a field is missing.
    pub fn parse(text: &str) -> Result<Match, ParseError> {
        let mut wanted = Match::ANY;
        let words = text.split([',', ' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
        let mut fields = Vec::new();
        for word in words {
            fields.extend(wanted.add_word(word)?.map(|field| (field, word)));
        }
        for (field, word) in fields {
            met(&wanted, field).map_err(|needed| {
                ParseError::new(word, "the protocol that has this field is missing", needed)
            })?;
        }
        Ok(wanted)
    }
}

impl std::str::FromStr for Match {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Match::parse(text)
    }
}
