//! The bridges of the switch: flow tables that change while frames pass.
//!
//! The control thread owns the tables. A change is made in a [`bridge::Bridge`], and then published to the workers as
//! a whole ([`switch::View::set_flows`]): a frame sees all of a change or nothing of it. A bridge whose only flow
//! forwards by address, as of a switch without flows, has no tables: its ports learn, at the cost of a switch without
//! flows.
//!
//! ```text
//!   ctl flows, OpenFlow ──► SwitchBridge: Bridge ── publish ──► workers
//!                               ▲                                 │
//!                               └──── counters, which they share ─┘
//! ```
mod connection;
mod dump;
mod flow_bridge;
mod identity;
mod link;
mod management;
mod outgoing;
mod ports;
mod request;
mod served;
mod switch_bridge;
mod target;
mod trace;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{BridgeDescription, BridgeState, ControllerState};
use flow_tables::Tables;
use linux::local_listener::LocalListener;
use serde_json::Value;
use switch::{Raised, View, Wanted};

use crate::hand_over_format::BridgeWords;
use crate::watch::{INTERVAL, Ticker};
pub use ::bridge::line::lines;
use flow_bridge::{FlowBridge, Start};
use management::{FIRST_KEY, Management, Serves, Turn};
pub use request::{FlowsRequest, What};
use switch_bridge::LEARNING;
pub use switch_bridge::SwitchBridge;
use target::ListeningSocket;

/// The name of the bridge of a switch that follows no database.
pub const OWN: &str = "switch";

/// The frames for controllers and flows to be learned that are handled before ports get their turn again.
const TURN: usize = 64;

/// The time of flows, which the workers use too.
fn now() -> Duration {
    Duration::from_millis(switch::flow_ms(Instant::now()))
}

/// The bridges of owners in a hand-over, by owner and name.
type OwnedBridges = BTreeMap<String, BTreeMap<String, BridgeWords>>;

/// All bridges of a switch, by name.
pub struct Bridges {
    all: BTreeMap<String, SwitchBridge>,
    /// The bridges of owners, such as a database.
    owned: BTreeMap<String, BTreeMap<String, BridgeDescription>>,
    management: Management,
    ticker: Option<Ticker>,
    /// The time at which flows were last looked at for their age.
    looked: Duration,
    /// Whether workers get flows at the next tick.
    is_late: bool,
}

impl Bridges {
    /// A switch with one bridge, which all its networks share.
    pub fn of_switch(bridge: SwitchBridge) -> Self {
        Bridges {
            all: [(OWN.to_owned(), bridge)].into(),
            owned: BTreeMap::new(),
            management: Management::new(),
            ticker: None,
            looked: Duration::ZERO,
            is_late: false,
        }
    }

    /// Whether this key of the epoll set belongs to a bridge.
    pub fn has(key: u64) -> bool {
        (FIRST_KEY..u64::MAX).contains(&key)
    }

    /// Watches the time of flows and connections from now on.
    ///
    /// # Errors
    /// The kernel refuses a timer or to watch it.
    pub fn watch(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        self.ticker = Some(Ticker::watch(epoll, FIRST_KEY)?);
        Ok(())
    }

    /// Listens at a path for the controllers of a bridge.
    ///
    /// # Errors
    /// Another process listens there, the path cannot be made, or the kernel refuses to watch the socket.
    pub fn listen(&mut self, bridge: &str, path: &Path, epoll: &OwnedFd) -> io::Result<()> {
        let socket = ListeningSocket::Local(LocalListener::bind(path)?);
        self.management.listen(bridge, Serves::Management, socket, epoll)
    }

    /// As [`Bridges::listen`], in the place of another process that listens there.
    ///
    /// # Errors
    /// The path cannot be made or replaced, or the kernel refuses to watch the socket.
    pub fn listen_in_place(&mut self, bridge: &str, path: &Path, epoll: &OwnedFd) -> io::Result<()> {
        let socket = ListeningSocket::Local(LocalListener::bind_in_place(path)?);
        self.management.listen(bridge, Serves::Management, socket, epoll)
    }

    /// The bridges of owners, for a process that takes over.
    pub fn saved(&self) -> OwnedBridges {
        let words = |(name, description): (&String, &BridgeDescription)| {
            let lines = self.all.get(name).and_then(|bridge| bridge.flows.saved());
            (name.clone(), BridgeWords { description: description.clone(), lines })
        };
        let of_owner = |(owner, bridges): (&String, &BTreeMap<_, _>)| {
            (owner.clone(), bridges.iter().map(words).collect())
        };
        self.owned.iter().map(of_owner).collect()
    }

    /// Makes the bridges of owners as another process has saved them. Returns the tables by network.
    ///
    /// # Errors
    /// A flow cannot be read, or is refused.
    pub fn inherit(&mut self, owned: OwnedBridges) -> Result<BTreeMap<String, Arc<Tables>>, String> {
        let (mut tables, now) = (BTreeMap::new(), now());
        for (owner, bridges) in owned {
            for (name, BridgeWords { description, lines }) in bridges {
                let flows = FlowBridge::restored(&name, &description, lines.as_deref(), now)
                    .map_err(|why| format!("bridge {name}: {why}"))?;
                let mut bridge = SwitchBridge::new(flows);
                if lines.is_some() {
                    tables.insert(description.network.clone(), bridge.tables());
                }
                self.all.insert(name.clone(), bridge);
                self.owned.entry(owner.clone()).or_default().insert(name, description);
            }
        }
        Ok(tables)
    }

    /// Serves the bridges of [`Bridges::inherit`].
    pub fn serve_inherited(&mut self, epoll: &OwnedFd, switch: &mut View<'_>) {
        for (owner, bridges) in self.owned.clone() {
            // What fails here is tried again, and told, when the owner names its bridges.
            let _ = self.set(&owner, bridges, epoll, switch);
        }
    }

    /// Makes the bridges of an owner those that are wanted. Returns what became of each.
    pub fn set(
        &mut self,
        owner: &str,
        wanted: BTreeMap<String, BridgeDescription>,
        epoll: &OwnedFd,
        switch: &mut View<'_>,
    ) -> BTreeMap<String, BridgeState> {
        let former = self.owned.remove(owner).unwrap_or_default();
        for (name, bridge) in &former {
            let stays = wanted.get(name).is_some_and(|wanted| {
                (&wanted.network, wanted.datapath_id) == (&bridge.network, bridge.datapath_id)
            });
            if !stays {
                let Bridges { all, management, .. } = self;
                management.forget(name, &mut Turn { bridges: all, switch, epoll, now: now() });
                self.all.remove(name);
                // Its ports, if there are any left, learn.
                let _ = switch.set_flows(Some(&bridge.network), None);
            }
        }
        let make = |(name, bridge): (&String, &BridgeDescription)| {
            let state = self.make(name, bridge, former.get(name), epoll, switch);
            (name.clone(), BridgeState { error: state.err() })
        };
        let states = wanted.iter().map(make).collect();
        self.owned.insert(owner.to_owned(), wanted);
        states
    }

    /// Makes a bridge, or changes it to be as wanted. The error is a text for the user.
    fn make(
        &mut self,
        name: &str,
        wanted: &BridgeDescription,
        former: Option<&BridgeDescription>,
        epoll: &OwnedFd,
        switch: &mut View<'_>,
    ) -> Result<(), String> {
        let now = now();
        let is_own = self.owned.values().all(|bridges| !bridges.contains_key(name)) && name != OWN;
        if !is_own {
            return Err(format!("another bridge has the name {name}: give it another one"));
        }
        let BridgeDescription { network, datapath_id, secure, vlan_limit, openflow, snoop, controllers } =
            wanted;
        let is_new = !self.all.contains_key(name);
        let Bridges { all, management, .. } = self;
        // A bridge with controllers waits for their flows.
        let first = if *secure || !controllers.is_empty() { Start::Secure } else { Start::Normal };
        let made =
            || SwitchBridge::new(FlowBridge::new(name, Some(network.clone()), Some(*datapath_id), first));
        let bridge = all.entry(name.to_owned()).or_insert_with(made);
        bridge.read_tags(*vlan_limit, switch);
        bridge.follow_ports(switch, now);
        let folder = openflow.as_deref().and_then(Path::parent);
        management.set_controllers(name, controllers, folder, &mut Turn { bridges: all, switch, epoll, now });
        self.start(name, *secure, switch, now);
        let Bridges { all, management, .. } = self;
        let is_served = !is_new
            && former.is_some_and(|former| (&former.openflow, &former.snoop) == (openflow, snoop))
            && management.listens(name, Serves::Management);
        if is_served {
            return Ok(());
        }
        management.close_own(name, &mut Turn { bridges: all, switch, epoll, now });
        for (path, serves) in [(openflow, Serves::Management), (snoop, Serves::Snooper)] {
            let Some(path) = path else { continue };
            // The owner has made sure that it is alone: a switch that is being taken over may listen there still.
            let listening = LocalListener::bind_in_place(path).map(ListeningSocket::Local);
            listening.and_then(|socket| management.listen(name, serves, socket, epoll)).map_err(|error| {
                format!(
                    "listening for controllers at {}: {error}; let this user write in its folder",
                    path.display()
                )
            })?;
        }
        Ok(())
    }

    /// Lets a bridge forward by addresses while it has no flows, or wait for its controllers.
    fn start(&mut self, name: &str, secure: bool, switch: &mut View<'_>, now: Duration) {
        let waits = secure || self.management.is_controlled(name, now);
        if let Some(bridge) = self.all.get_mut(name) {
            bridge.start_as(if waits { Start::Secure } else { Start::Normal }, switch, now);
        }
    }

    /// The connections with controllers, by bridge and target.
    pub fn controllers(&self) -> BTreeMap<String, BTreeMap<String, ControllerState>> {
        self.management.states(&self.all, now())
    }

    /// Serves the socket or connection with this key.
    pub fn ready(&mut self, key: u64, epoll: &OwnedFd, switch: &mut View<'_>) {
        let now = now();
        let Bridges { all, management, ticker, looked, is_late, .. } = self;
        if key == FIRST_KEY {
            ticker.iter().for_each(Ticker::clear);
            all.values_mut().for_each(|bridge| bridge.follow_ports(switch, now));
            if std::mem::take(is_late) {
                all.values_mut().for_each(|bridge| bridge.publish(switch));
            }
            if now.saturating_sub(*looked) >= INTERVAL {
                *looked = now;
                all.values_mut().for_each(|bridge| bridge.expire(switch, now));
            }
            management.tick(&mut Turn { bridges: all, switch, epoll, now });
            return self.start_without_controllers(switch, now);
        }
        management.ready(key, &mut Turn { bridges: all, switch, epoll, now });
    }

    /// Lets bridges forward whose controllers have been away for long, and lets them wait again when one has come.
    fn start_without_controllers(&mut self, switch: &mut View<'_>, now: Duration) {
        let owned = self.owned.values().flatten().filter(|(_, bridge)| !bridge.secure);
        let names: Vec<String> = owned
            .filter(|(_, bridge)| !bridge.controllers.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().for_each(|name| self.start(name, false, switch, now));
    }

    /// Gives frames to controllers, and adds flows that frames have learned.
    pub fn raised(&mut self, epoll: &OwnedFd, switch: &mut View<'_>) {
        let now = now();
        let mut by_network = BTreeMap::<Option<String>, Vec<Wanted>>::new();
        for Raised { network, wanted } in switch.take_raised(TURN) {
            by_network.entry(network).or_default().push(wanted);
        }
        let Bridges { all, management, ticker, is_late, .. } = self;
        for (network, wanted) in by_network {
            let of_network =
                |(_, bridge): &(&String, &mut SwitchBridge)| bridge.network() == network.as_deref();
            let Some((name, bridge)) = all.iter_mut().find(of_network) else { continue };
            if !bridge.take_up(wanted.into_iter(), switch, now) && !*is_late {
                *is_late = true;
                ticker.iter().for_each(|ticker| ticker.after(LEARNING));
            }
            let name = name.clone();
            management.send(&name, &mut Turn { bridges: all, switch, epoll, now });
        }
    }

    /// The ports of the switch have changed: controllers are told soon.
    pub fn ports_changed(&self) {
        self.ticker.iter().for_each(Ticker::soon);
    }

    /// The bridge of this name, or without a name the only one.
    fn find(&mut self, name: Option<&str>) -> Result<&mut SwitchBridge, String> {
        let known = self.all.keys().cloned().collect::<Vec<_>>().join(", ");
        let name = match name {
            None if self.all.len() == 1 => known.clone(),
            None => return Err(format!("name a bridge with --bridge; there are: {known}")),
            Some(name) => name.to_owned(),
        };
        self.all.get_mut(&name).ok_or_else(|| format!("there is no bridge {name}; there are: {known}"))
    }

    /// Carries out a request of `tautline ctl flows`, and returns the fields of the answer. The error is a text for the
    /// user.
    pub fn request(&mut self, request: FlowsRequest, switch: &mut View<'_>) -> Result<Value, String> {
        let now = now();
        let bridge = self.find(request.bridge.as_deref())?;
        bridge.follow_ports(switch, now);
        let answer = request::answer(bridge, request.what, switch, now);
        // Informs the controllers that follow flows.
        self.ports_changed();
        answer
    }
}
