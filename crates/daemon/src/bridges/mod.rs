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
mod compose;
mod connection;
mod dump;
mod flow_bridge;
mod identity;
mod line;
mod management;
mod ports;
mod replace;
mod request;
mod served;
mod switch_bridge;
mod trace;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use control::{BridgeDescription, BridgeState};
use serde_json::Value;
use switch::View;

use crate::local_listener::LocalListener;
use crate::watch::{INTERVAL, Ticker};
use flow_bridge::{FlowBridge, Start};
pub use line::lines;
use management::{FIRST_KEY, Management, Turn};
pub use request::{FlowsRequest, What};
pub use switch_bridge::SwitchBridge;

/// The name of the bridge of a switch that follows no database.
pub const OWN: &str = "switch";

/// The time of flows, which the workers use too.
fn now() -> Duration {
    Duration::from_millis(switch::flow_ms(Instant::now()))
}

/// All bridges of a switch, by name.
pub struct Bridges {
    all: BTreeMap<String, SwitchBridge>,
    /// The bridges of owners, such as a database.
    owned: BTreeMap<String, BTreeMap<String, BridgeDescription>>,
    management: Management,
    ticker: Option<Ticker>,
    /// The time at which flows were last looked at for their age.
    looked: Duration,
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
        self.management.listen(bridge, LocalListener::bind(path)?, epoll)
    }

    /// As [`Bridges::listen`], in the place of another process that listens there.
    ///
    /// # Errors
    /// The path cannot be made or replaced, or the kernel refuses to watch the socket.
    pub fn listen_in_place(&mut self, bridge: &str, path: &Path, epoll: &OwnedFd) -> io::Result<()> {
        self.management.listen(bridge, LocalListener::bind_in_place(path)?, epoll)
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
                self.all.remove(name);
                self.management.forget(name);
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
        let BridgeDescription { network, datapath_id, secure, openflow } = wanted;
        let start = if *secure { Start::Secure } else { Start::Normal };
        let made =
            || SwitchBridge::new(FlowBridge::new(name, Some(network.clone()), Some(*datapath_id), start));
        let is_new = !self.all.contains_key(name);
        let bridge = self.all.entry(name.to_owned()).or_insert_with(made);
        bridge.follow_ports(switch, now);
        bridge.start_as(start, switch, now);
        let is_served = !is_new && former.is_some_and(|former| former.openflow == *openflow);
        if is_served && self.management.listens(name) {
            return Ok(());
        }
        self.management.forget(name);
        let Some(path) = openflow else { return Ok(()) };
        // The owner has made sure that it is alone: a switch that is being taken over may listen there still.
        let listening = LocalListener::bind_in_place(path);
        listening.and_then(|socket| self.management.listen(name, socket, epoll)).map_err(|error| {
            format!(
                "listening for controllers at {}: {error}; let this user write in its folder",
                path.display()
            )
        })
    }

    /// Serves what is ready under this key.
    pub fn ready(&mut self, key: u64, epoll: &OwnedFd, switch: &mut View<'_>) {
        let now = now();
        let Bridges { all, management, ticker, looked, .. } = self;
        if key == FIRST_KEY {
            ticker.iter().for_each(Ticker::clear);
            all.values_mut().for_each(|bridge| bridge.follow_ports(switch, now));
            if now.saturating_sub(*looked) >= INTERVAL {
                *looked = now;
                all.values_mut().for_each(|bridge| bridge.expire(switch, now));
            }
            return management.tick(&mut Turn { bridges: all, switch, epoll, now });
        }
        management.ready(key, &mut Turn { bridges: all, switch, epoll, now });
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
        // Controllers that follow flows are told.
        self.ports_changed();
        answer
    }
}
