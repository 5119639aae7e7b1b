use std::fmt;
use std::str::FromStr;

/// A piece of a path, by the kernel's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// A pair of Ethernet devices, one in each namespace: veth(4).
    Veth,
    /// A bridge in a third namespace, with a pair to each end.
    Bridge,
    /// [`Layer::NFTABLES_RULES`] rules that no packet matches, in the bridge's forward hook or, without a bridge, in the
    /// far end's input hook.
    Nftables,
    /// A stateful firewall at the far end: established connections are let in, and new ones (nft(8), `ct state`).
    ConnectionTracking,
    /// A VXLAN tunnel between the ends (RFC 7348).
    Vxlan,
    /// The near end is a macvlan device in bridge mode over its Ethernet device.
    Macvlan,
}

impl Layer {
    /// Rules of [`Layer::Nftables`].
    pub const NFTABLES_RULES: usize = 64;

    /// All of them.
    pub const ALL: [Layer; 6] = [
        Layer::Veth,
        Layer::Bridge,
        Layer::Nftables,
        Layer::ConnectionTracking,
        Layer::Vxlan,
        Layer::Macvlan,
    ];

    fn name(self) -> &'static str {
        match self {
            Layer::Veth => "veth",
            Layer::Bridge => "bridge",
            Layer::Nftables => "nftables",
            Layer::ConnectionTracking => "conntrack",
            Layer::Vxlan => "vxlan",
            Layer::Macvlan => "macvlan",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no layer of a network path; write veth, bridge, nftables, conntrack, vxlan or macvlan")]
pub struct LayerError(String);

impl FromStr for Layer {
    type Err = LayerError;

    fn from_str(text: &str) -> Result<Self, LayerError> {
        Layer::ALL.into_iter().find(|layer| layer.name() == text).ok_or_else(|| LayerError(text.to_owned()))
    }
}
