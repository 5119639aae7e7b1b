//! The kinds of tunnel.

/// A kind of tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Generic Network Virtualization Encapsulation (RFC 8926).
    Geneve,
    /// Virtual eXtensible Local Area Network (RFC 7348).
    Vxlan,
    /// Generic Routing Encapsulation of Ethernet frames (RFC 2784, with the key of RFC 2890).
    Gre,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Geneve, Kind::Vxlan, Kind::Gre];

    /// The name, as in the column `type` of Open vSwitch.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Geneve => "geneve",
            Kind::Vxlan => "vxlan",
            Kind::Gre => "gre",
        }
    }

    /// The UDP port that IANA has assigned; 0 for GRE, which is an IP protocol.
    pub fn default_port(self) -> u16 {
        match self {
            Kind::Geneve => 6081,
            Kind::Vxlan => 4789,
            Kind::Gre => 0,
        }
    }

    /// The largest key.
    pub fn max_key(self) -> u64 {
        match self {
            Kind::Geneve | Kind::Vxlan => 0xff_ffff,
            Kind::Gre => 0xffff_ffff,
        }
    }
}
