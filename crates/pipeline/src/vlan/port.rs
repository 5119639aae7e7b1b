//! The VLANs of one port.
use std::collections::BTreeSet;

use super::tags::{CUSTOMER, SERVICE, Tag, Tags};

/// How a port takes part in VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// In one VLAN, without its tag: frames with the tag of a VLAN are not admitted.
    Access,
    /// In the VLANs of its trunks, with their tags.
    Trunk,
    /// As a trunk; frames without tag are in its native VLAN, and that VLAN's frames leave with a tag.
    NativeTagged,
    /// As a trunk; frames without tag are in its native VLAN, and that VLAN's frames leave without a tag.
    NativeUntagged,
    /// A customer's port of a provider's network (802.1ad). Each frame, tagged or not, is in one VLAN. The service
    /// tag of that VLAN is added in front, and removed again at such a port.
    Dot1qTunnel,
}

impl VlanMode {
    /// All modes.
    pub const ALL: [VlanMode; 5] = [
        VlanMode::Access,
        VlanMode::Trunk,
        VlanMode::NativeTagged,
        VlanMode::NativeUntagged,
        VlanMode::Dot1qTunnel,
    ];

    /// The mode's name in Open vSwitch.
    pub const fn name(self) -> &'static str {
        match self {
            VlanMode::Access => "access",
            VlanMode::Trunk => "trunk",
            VlanMode::NativeTagged => "native-tagged",
            VlanMode::NativeUntagged => "native-untagged",
            VlanMode::Dot1qTunnel => "dot1q-tunnel",
        }
    }
}

/// Which frames outside of all VLANs leave a port with a tag, for its priority (ovs-vswitchd.conf.db(5),
/// `priority-tags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// None, because many stations discard a frame whose tag has no VLAN.
    #[default]
    Never,
    /// Frames with a priority other than 0.
    IfNonzero,
    /// Frames with a priority other than 0, and frames that have such a tag already.
    Always,
}

impl PriorityTags {
    /// All values.
    pub const ALL: [PriorityTags; 3] = [PriorityTags::Never, PriorityTags::IfNonzero, PriorityTags::Always];

    /// The value's name in Open vSwitch.
    pub const fn name(self) -> &'static str {
        match self {
            PriorityTags::Never => "never",
            PriorityTags::IfNonzero => "if-nonzero",
            PriorityTags::Always => "always",
        }
    }
}

/// The options of a port's VLANs. A port without options is a trunk of all VLANs. Options that do not apply to the
/// mode are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanOptions {
    /// The mode; if `None`, access if there is a tag, else trunk.
    pub mode: Option<VlanMode>,
    /// The VLAN of an access or tunnel port, or a trunk's native VLAN; 0 if none is given.
    pub tag: Option<u16>,
    /// The VLANs of a trunk; 0 stands for frames without tag. An empty set stands for all VLANs.
    pub trunks: BTreeSet<u16>,
    /// The customer's VLANs that a tunnel port carries; 0 stands for frames without tag. An empty set stands for
    /// all VLANs.
    pub cvlans: BTreeSet<u16>,
    /// Whether a tunnel port's service tag has the type of a customer's tag (0x8100) in place of its own (0x88a8).
    pub is_service_8021q: bool,
    /// The tags of frames outside of all VLANs that leave the port.
    pub priority_tags: PriorityTags,
}

impl VlanOptions {
    /// Whether no option is set.
    pub fn is_default(&self) -> bool {
        *self == VlanOptions::default()
    }
}

/// The VLANs of a port, prepared for checking frames.
#[derive(Clone, Debug)]
pub struct PortVlans {
    mode: VlanMode,
    vlan: u16,
    /// A bit for each VLAN of a trunk, or for each customer's VLAN of a tunnel; all VLANs if `None`.
    carried: Option<Box<[u64; 64]>>,
    /// A tunnel's tag.
    service: Tag,
    priority_tags: PriorityTags,
}

impl Default for PortVlans {
    fn default() -> Self {
        PortVlans::new(&VlanOptions::default())
    }
}

impl PortVlans {
    /// The VLANs that these options describe.
    pub fn new(options: &VlanOptions) -> Self {
        let usual = if options.tag.is_some() { VlanMode::Access } else { VlanMode::Trunk };
        let (mode, vlan) = (options.mode.unwrap_or(usual), options.tag.unwrap_or(0) & 0xfff);
        let is_native = matches!(mode, VlanMode::NativeTagged | VlanMode::NativeUntagged);
        let listed = if mode == VlanMode::Dot1qTunnel { &options.cvlans } else { &options.trunks };
        let mut bits = Box::new([if listed.is_empty() { u64::MAX } else { 0 }; 64]);
        let mut set = |vlan: u16| bits[usize::from(vlan & 0xfff) / 64] |= 1 << (vlan % 64);
        listed.iter().for_each(|vlan| set(*vlan));
        if is_native {
            // The port always carries its native VLAN, and VLAN 0 only as the native VLAN: without a tag there is no
            // other VLAN.
            set(vlan);
            if vlan != 0 {
                bits[0] &= !1;
            }
        }
        let is_all = listed.is_empty() && !is_native;
        let kind = if options.is_service_8021q { CUSTOMER } else { SERVICE };
        PortVlans {
            mode,
            vlan,
            carried: (!is_all).then_some(bits),
            service: Tag { kind, control: vlan },
            priority_tags: options.priority_tags,
        }
    }

    fn carries(&self, vlan: u16) -> bool {
        self.carried.as_ref().is_none_or(|bits| bits[usize::from(vlan) / 64] >> (vlan % 64) & 1 != 0)
    }

    /// The VLAN of frames that come from the port without a tag.
    pub fn untagged_vlan(&self) -> u16 {
        if self.mode == VlanMode::Trunk { 0 } else { self.vlan }
    }

    /// The VLAN of a frame from the port that begins with these bytes. `None` if the frame is not admitted.
    pub fn vlan_of(&self, snapshot: &[u8]) -> Option<u16> {
        self.ingress(&Tags::of(snapshot)).map(|within| within.vlan())
    }

    /// The tags that a frame has inside the switch, the outermost being its VLAN's. `None` if the frame is not
    /// admitted.
    #[inline]
    pub(super) fn ingress(&self, tags: &Tags) -> Option<Tags> {
        let outer = tags.get(0);
        let in_own = || Some(tags.popped().pushed(outer.of_vlan(self.vlan)));
        match self.mode {
            VlanMode::Access if outer.vlan() != 0 => None,
            VlanMode::Access => in_own(),
            VlanMode::NativeTagged | VlanMode::NativeUntagged if outer.vlan() == 0 => in_own(),
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                self.carries(outer.vlan()).then_some(*tags)
            }
            VlanMode::Dot1qTunnel => self.carries(outer.vlan()).then(|| tags.pushed(self.service)),
        }
    }

    /// The tags with which a frame leaves that came with `came` and has `tags` inside the switch. `None` if the
    /// port is not in its VLAN.
    #[inline]
    pub(super) fn egress(&self, tags: &Tags, came: &Tags) -> Option<Tags> {
        let vlan = tags.vlan();
        let inner = tags.get(1).vlan();
        let left = match self.mode {
            // A customer's frame of a VLAN of its own is not for a port in which the outer one is access.
            VlanMode::Access => (vlan == self.vlan && inner == 0).then(|| tags.popped()),
            VlanMode::Dot1qTunnel => (vlan == self.vlan && self.carries(inner)).then(|| tags.popped()),
            VlanMode::NativeUntagged if vlan == self.vlan => Some(tags.popped()),
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                self.carries(vlan).then_some(*tags)
            }
        }?;
        match self.priority_tags {
            // A tunnel's customer gets its tags as they are.
            PriorityTags::Never if self.mode == VlanMode::Dot1qTunnel => Some(left),
            PriorityTags::Never => Some(left.without_priority_tag()),
            _ => Some(self.with_priority(left, came.get(0))),
        }
    }

    /// The tags with the priority of the received frame.
    #[inline(never)] // rare
    fn with_priority(&self, left: Tags, came: Tag) -> Tags {
        let outer = left.get(0).of_priority(came);
        let keeps = outer.control != 0 || (self.priority_tags == PriorityTags::Always && !left.is_empty());
        if keeps { left.popped().pushed(outer) } else { left.without_priority_tag() }
    }
}
