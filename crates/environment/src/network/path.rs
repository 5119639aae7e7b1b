use std::net::Ipv4Addr;
use std::sync::Arc;

use measure::Failure;

use super::switch::OverVduse;
use super::{Layer, Namespace, Switch, UserSpaceSwitch};
use crate::{Agent, Running, host};

/// The address of the near end: from the block for benchmarks (RFC 2544, section C.2.2).
pub const NEAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The address of the far end.
pub const FAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Addresses of a tunnel's outer packets.
const OUTER_NEAR: &str = "198.19.0.1";
const OUTER_FAR: &str = "198.19.0.2";

/// Two ends in namespaces of their own and the devices between them, all built. Dropping this value removes all of
/// it.
#[derive(Debug)]
pub struct Path {
    /// The switch in user space between the ends.
    pub switch: Option<UserSpaceSwitch>,
    /// The namespace of the near end.
    pub near: Arc<Namespace>,
    /// The namespace of the far end.
    pub far: Arc<Namespace>,
    /// The namespace of a bridge between the ends.
    pub middle: Option<Namespace>,
}

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end at [`NEAR_ADDRESS`].
    Near,
    /// The end at [`FAR_ADDRESS`].
    Far,
}

impl Path {
    /// Starts the agent at one end.
    ///
    /// # Errors
    /// The agent cannot be started in the namespace.
    pub fn start(&self, end: End, agent: &Agent) -> Result<Running, Failure> {
        let (namespace, what) = match end {
            End::Near => (&self.near, "the agent at the near end of a network path"),
            End::Far => (&self.far, "the agent at the far end of a network path"),
        };
        let mut command = namespace.command(&agent.binary)?;
        command.args(&agent.arguments);
        host::spawn_with_pipes(command, what, "check that the file exists and may be executed")
    }

    /// Builds a path from these layers, given in any order. The agent's program also runs the switch.
    ///
    /// # Errors
    /// The kernel or one of its tools refused a command; the failure quotes the command.
    pub fn build(layers: &[Layer], agent: &Agent) -> Result<Self, Failure> {
        let has = |layer| layers.contains(&layer);
        let near = Arc::new(Namespace::new()?);
        let path = match layers {
            [] => {
                return Err(Failure::new(
                    "building a network path",
                    "it has no layers",
                    "name at least veth",
                ));
            }
            [Layer::Loopback] => {
                let path = Path { switch: None, far: Arc::clone(&near), near, middle: None };
                path.address("lo", "lo")?;
                path
            }
            [Layer::Switch, ..] => {
                let far = Arc::new(near.sibling()?);
                let switch = Switch::start(&near, &far, agent)?;
                let switch = Some(UserSpaceSwitch::Tautline(switch));
                let path = Path { switch, near, far, middle: None };
                path.address(Switch::NEAR_DEVICE, Switch::FAR_DEVICE)?;
                path
            }
            [Layer::Vduse, ..] => {
                let far = Arc::new(near.sibling()?);
                let OverVduse { switch, near_device, far_device } = Switch::over_vduse(&near, &far, agent)?;
                let switch = Some(UserSpaceSwitch::Tautline(switch));
                let path = Path { switch, near, far, middle: None };
                path.address(&near_device, &far_device)?;
                path
            }
            _ => Self::of_pairs(near, has(Layer::Bridge), has(Layer::Macvlan), has(Layer::Vxlan))?,
        };
        if has(Layer::Nftables) {
            path.filter()?;
        }
        if has(Layer::ConnectionTracking) {
            path.far.nft(
                "add table inet firewall ; \
                 add chain inet firewall input { type filter hook input priority 0 ; policy drop ; } ; \
                 add rule inet firewall input ct state established,related,new accept",
            )?;
        }
        Ok(path)
    }

    /// A path over veth pairs.
    fn of_pairs(near: Arc<Namespace>, bridge: bool, macvlan: bool, vxlan: bool) -> Result<Self, Failure> {
        let far = Arc::new(near.sibling()?);
        let middle = if bridge { Some(near.sibling()?) } else { None };
        match &middle {
            None => {
                let to = far.holder();
                near.ip(&format!("link add eth0 type veth peer name eth0 netns {to}"))?;
            }
            Some(middle) => {
                middle.ip("link add br0 type bridge")?;
                for (end, port) in [(&near, "port0"), (&far, "port1")] {
                    middle.ip(&format!("link add {port} type veth peer name eth0 netns {}", end.holder()))?;
                    middle.ip(&format!("link set {port} master br0 up"))?;
                }
                middle.ip("link set br0 up")?;
            }
        }
        for end in [&near, &far] {
            end.ip("link set eth0 up")?;
        }
        let path = Path { switch: None, near, far, middle };
        let (near_device, far_device) = path.devices(macvlan, vxlan)?;
        path.address(near_device, far_device)?;
        Ok(path)
    }

    fn address(&self, near_device: &str, far_device: &str) -> Result<(), Failure> {
        self.near.ip(&format!("address add {NEAR_ADDRESS}/24 dev {near_device}"))?;
        self.far.ip(&format!("address add {FAR_ADDRESS}/24 dev {far_device}"))
    }

    /// The devices that carry the ends' addresses.
    fn devices(&self, macvlan: bool, vxlan: bool) -> Result<(&'static str, &'static str), Failure> {
        let mut near = "eth0";
        if macvlan {
            self.near.ip("link add link eth0 name macvlan0 type macvlan mode bridge")?;
            self.near.ip("link set macvlan0 up")?;
            near = "macvlan0";
        }
        if !vxlan {
            return Ok((near, "eth0"));
        }
        for (end, device, local, remote) in
            [(&self.near, near, OUTER_NEAR, OUTER_FAR), (&self.far, "eth0", OUTER_FAR, OUTER_NEAR)]
        {
            end.ip(&format!("address add {local}/24 dev {device}"))?;
            end.ip(&format!(
                "link add vxlan0 type vxlan id 42 dstport 4789 local {local} remote {remote} dev {device}"
            ))?;
            end.ip("link set vxlan0 up")?;
        }
        Ok(("vxlan0", "vxlan0"))
    }

    /// Rules that no packet matches.
    fn filter(&self) -> Result<(), Failure> {
        let (end, family, hook) = match &self.middle {
            Some(middle) => (middle, "bridge", "forward"),
            None => (&*self.far, "inet", "input"),
        };
        let mut words = format!(
            "add table {family} rules ; \
             add chain {family} rules {hook} {{ type filter hook {hook} priority 0 ; }}"
        );
        for rule in 0..Layer::NFTABLES_RULES {
            // TEST-NET-3 (RFC 5737): no host here has such an address.
            words += &format!(" ; add rule {family} rules {hook} ip saddr 203.0.113.{rule} drop");
        }
        end.nft(&words)
    }
}
