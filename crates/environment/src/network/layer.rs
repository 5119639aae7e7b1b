use std::fmt;
use std::str::FromStr;

/// One layer of a path, with the kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Both ends in one namespace, over its loopback device. No other layer can be combined with this one.
    Loopback,
    /// A pair of Ethernet devices, one in each namespace: veth(4).
    Veth,
    /// A bridge in a third namespace, with a pair to each end.
    Bridge,
    /// [`Layer::NFTABLES_RULES`] rules that match no packet, in the bridge's forward hook or, without a bridge, in
    /// the far end's input hook.
    Nftables,
    /// A stateful firewall at the far end, which admits established and new connections (nft(8), `ct state`).
    ConnectionTracking,
    /// A VXLAN tunnel between the ends (RFC 7348).
    Vxlan,
    /// `tautline switch` between two TAP devices, one in each namespace. Only connection tracking can be combined
    /// with this layer.
    Switch,
    /// `tautline switch` between two network interfaces of the kernel without TAPs (VDUSE), one in each namespace, or
    /// between one and a vDPA device for a relay. Only connection tracking can be combined with this layer.
    Vduse,
    /// The near end is a macvlan device in bridge mode over its Ethernet device.
    Macvlan,
    /// A TAP device: its file is a guest's interface, and its network device belongs to the far end. No other layer
    /// can be combined with this one.
    Tap,
    /// A guest's interface is a macvtap device in bridge mode over the near Ethernet device.
    Macvtap,
    /// Open vSwitch with DPDK between a guest and the far end. No other layer can be combined with this one.
    OvsDpdk,
    /// A cable from a card of the guest to a card of the host. No other layer can be combined with this one.
    Wire,
}

impl Layer {
    /// The number of rules of [`Layer::Nftables`].
    pub const NFTABLES_RULES: usize = 64;

    /// All layers.
    pub const ALL: [Layer; 13] = [
        Layer::Loopback,
        Layer::Veth,
        Layer::Bridge,
        Layer::Nftables,
        Layer::ConnectionTracking,
        Layer::Vxlan,
        Layer::Switch,
        Layer::Vduse,
        Layer::Macvlan,
        Layer::Tap,
        Layer::Macvtap,
        Layer::OvsDpdk,
        Layer::Wire,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Loopback => "loopback",
            Layer::Veth => "veth",
            Layer::Bridge => "bridge",
            Layer::Nftables => "nftables",
            Layer::ConnectionTracking => "conntrack",
            Layer::Vxlan => "vxlan",
            Layer::Switch => "switch",
            Layer::Vduse => "vduse",
            Layer::Macvlan => "macvlan",
            Layer::Tap => "tap",
            Layer::Macvtap => "macvtap",
            Layer::OvsDpdk => "ovs-dpdk",
            Layer::Wire => "wire",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that names no layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no layer of a network path; write loopback, veth, bridge, nftables, conntrack, vxlan, switch, vduse, macvlan, tap, macvtap, ovs-dpdk or wire"
)]
pub struct LayerError(String);

impl FromStr for Layer {
    type Err = LayerError;

    fn from_str(text: &str) -> Result<Self, LayerError> {
        Layer::ALL.into_iter().find(|layer| layer.name() == text).ok_or_else(|| LayerError(text.to_owned()))
    }
}
