//! A TAP whose addresses are the ends of tunnels.
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use frame::{FrameBatch, QueueCounters, QueueError, Side};
use linux::interface::Interface;
use linux::routes::{InterfaceRoute, RouteChanges, addresses, routes};
use port::in_memory::QueueOptions;
use port::tap::{Tap, TapOptions};
use port::{Interest, Port, PortContext, PortError, SharedFd, Token};
use rustix::event::{EventfdFlags, eventfd};
use tunnels::{Route, request};

use crate::context::TapContext;
use crate::fragments::Waiting;
use crate::heard::Heard;
use crate::queue::{Entrance, shared};
use crate::registry::{self, LinkState};
use crate::view::Link;

/// Tokens that the TAP does not use.
const WAKE: Token = Token(1 << 16);
const CHANGED: Token = Token((1 << 16) + 1);
const TICK: Token = Token((1 << 16) + 2);
const LEARN: Token = Token((1 << 16) + 3);
/// Between two looks at neighbours, and at addresses that have changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between two changes of what workers know of neighbours.
const LEARNING: Duration = Duration::from_millis(100);
/// Frames of tunnels that wait for the network.
const SLOTS: u16 = 512;

/// What an underlay has while it runs.
struct Running {
    entrance: Arc<Entrance>,
    waker: SharedFd,
    changes: Arc<RouteChanges>,
    heard: Arc<Heard>,
    /// Whether what was heard waits for the end of [`LEARNING`].
    is_learning: bool,
    /// Whether addresses or routes may differ from those that are known.
    is_stale: bool,
    /// How long the next change of addresses or routes waits.
    pace: Pace,
}

/// The time that a change of addresses or routes waits before they are read: the first one for those that come with it. A
/// host whose routes change all the time is read once in an interval.
struct Pace(Duration);

impl Pace {
    /// The time that a change waits. The next one waits longer.
    fn of_change(&mut self) -> Duration {
        let next = (2 * self.0).min(INTERVAL);
        std::mem::replace(&mut self.0, next)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Pace(LEARNING)
    }
}

/// A TAP as a port, with one queue pair more: the source of the frames of tunnels.
pub(crate) struct Underlay {
    name: String,
    tap: Tap,
    pairs: u16,
    counters: [Arc<QueueCounters>; 2],
    /// The fragments of tunnels' packets.
    waiting: Arc<Waiting>,
    running: Option<Running>,
}

impl Underlay {
    /// A port with these options. Nothing is opened yet.
    pub fn new(options: TapOptions) -> Self {
        let (name, pairs) = (options.name.clone(), options.queue_pairs);
        Underlay {
            name,
            tap: Tap::new(options),
            pairs,
            counters: Default::default(),
            waiting: Arc::default(),
            running: None,
        }
    }

    fn run(&mut self, context: &mut dyn PortContext) -> io::Result<()> {
        let (entrance, source) = shared(QueueOptions { slots: SLOTS, ..QueueOptions::default() })?;
        let waker = SharedFd::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let changes = Arc::new(RouteChanges::listen()?);
        context.watch(WAKE, &waker, Interest::Readable)?;
        context.watch(CHANGED, &SharedFd::new(Arc::clone(&changes)), Interest::Readable)?;
        context.attach_source(self.pairs, Box::new(source.counting(Arc::clone(&self.counters[0]))));
        let heard = Arc::default();
        let pace = Pace::default();
        self.running =
            Some(Running { entrance, waker, changes, heard, is_learning: false, is_stale: true, pace });
        self.tick(context);
        Ok(())
    }

    /// Reads addresses and routes if they have changed, and asks for neighbours.
    fn tick(&mut self, context: &mut dyn PortContext) {
        let Some(running) = &mut self.running else { return };
        context.after(TICK, INTERVAL);
        if std::mem::take(&mut running.is_stale) {
            match link_state(&self.name, running) {
                Ok(state) => registry::set_link(state),
                // The interface is gone, or about to be made, or netlink has failed: the next tick tries again.
                Err(_) => {
                    registry::remove_link(&self.name);
                    running.is_stale = true;
                }
            }
        } else {
            running.pace = Pace::default();
        }
        registry::want_hops(&self.name);
        self.request();
    }

    /// Learns what was heard at once, and what is heard afterwards when a time has passed: a peer whose Ethernet address
    /// alternates costs no more.
    fn learn(&mut self, context: &mut dyn PortContext) {
        if let Some(running) = &mut self.running
            && !running.is_learning
            && registry::learn(&self.name, &running.heard)
        {
            running.is_learning = true;
            context.after(LEARN, LEARNING);
        }
    }

    /// Asks for the neighbours that are due.
    fn request(&self) {
        let Some(running) = &self.running else { return };
        let view = registry::current();
        let Some(link) = view.link(&self.name) else { return };
        for address in registry::due(&self.name) {
            let hop = view.routes.hop(address, None);
            let source = hop
                .map(|hop| hop.source)
                .or_else(|| link.addresses.iter().copied().find(|own| own.is_ipv4() == address.is_ipv4()));
            let frame = source.and_then(|source| request(link.mac, source, address));
            if let Some(Ok(batch)) = frame.map(|frame| FrameBatch::of_frame(&frame)) {
                // A request that finds no room is repeated.
                let _ = running.entrance.put(&batch, &[0]);
            }
        }
    }
}

/// The present addresses and routes of an interface.
fn link_state(name: &str, running: &Running) -> io::Result<LinkState> {
    let interface = Interface::named(name)?;
    let index = interface.index()?;
    let own = addresses(index)?;
    let routes = routes(index)?.into_iter().filter_map(|route| with_source(route, &own)).collect();
    let link = Link {
        name: name.to_owned(),
        mac: interface.mac()?,
        mtu: interface.mtu()? as usize, // 32 bits
        addresses: own,
        neighbours: Vec::new(),
        entrance: Arc::clone(&running.entrance),
        waker: running.waker.clone(),
        heard: Arc::clone(&running.heard),
    };
    Ok(LinkState { link, routes })
}

/// A route with the address from which frames are sent: the preferred one, or the first of the IP version. Link-local
/// addresses of IPv6 are for link-local destinations alone.
fn with_source(route: InterfaceRoute, own: &[IpAddr]) -> Option<Route> {
    let InterfaceRoute { network, bits, is_v6, gateway, source, metric } = route;
    let any = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let network: IpAddr = network.unwrap_or(any);
    let is_local =
        |address: &IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let fits = |address: &&IpAddr| address.is_ipv6() == is_v6 && is_local(address) == is_local(&network);
    let source = source.or_else(|| own.iter().find(fits).copied())?;
    Some(Route { network, bits, gateway, source, metric, link: 0 })
}

impl Port for Underlay {
    fn queue_pairs(&self) -> u16 {
        self.pairs + 1
    }

    fn describe(&self) -> String {
        format!("{}, ends tunnels", self.tap.describe())
    }

    fn interface(&self) -> Option<&str> {
        self.tap.interface()
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        match pair == self.pairs {
            true => self.counters.get(usize::from(side == Side::ToGuest)).cloned(),
            false => self.tap.counters(pair, side),
        }
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.tap.start(&mut TapContext { inner: context, name: &self.name, waiting: &self.waiting })?;
        self.run(context).map_err(|error| {
            let what = format!("listen to changes of the routes of {}", self.name);
            PortError::new(
                what,
                error,
                "let the program use netlink, or raise the open-files limit (ulimit -n)",
            )
        })
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        match (token, &mut self.running) {
            (TICK, _) => self.tick(context),
            (WAKE, Some(running)) => {
                // A request that arrives meanwhile is seen by the next call.
                let _ = rustix::io::read(running.waker.as_fd(), &mut [0; 8]);
                self.request();
                self.learn(context);
            }
            (LEARN, Some(running)) => {
                running.is_learning = false;
                self.learn(context);
            }
            (CHANGED, Some(running)) => {
                if running.changes.clear() && !std::mem::replace(&mut running.is_stale, true) {
                    context.after(TICK, running.pace.of_change());
                }
            }
            (WAKE | CHANGED | LEARN, None) => {}
            _ => self
                .tap
                .ready(token, &mut TapContext { inner: context, name: &self.name, waiting: &self.waiting })?,
        }
        Ok(())
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        match pair == self.pairs {
            true => context.log(&format_args!("underlay {}: the queue of tunnels stopped: {why}", self.name)),
            false => self.tap.stopped(
                pair,
                side,
                why,
                &mut TapContext { inner: context, name: &self.name, waiting: &self.waiting },
            ),
        }
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        for token in [WAKE, CHANGED] {
            context.unwatch(token);
        }
        if self.running.take().is_some() {
            registry::remove_link(&self.name);
            context.detach_source(self.pairs);
        }
        self.tap.end(&mut TapContext { inner: context, name: &self.name, waiting: &self.waiting });
    }
}

#[cfg(test)]
mod tests {
    use port::testing::TestContext;

    use super::*;

    #[test]
    fn the_first_change_is_read_soon_and_changes_all_the_time_once_in_an_interval() {
        let mut pace = Pace::default();
        let waits: Vec<_> = (0..6).map(|_| pace.of_change().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    }

    /// An interface that cannot be read is read again with each tick.
    #[test]
    fn an_underlay_tries_again_after_an_error() {
        let mut underlay = Underlay::new(TapOptions::new("absent0"));
        underlay.run(&mut TestContext::new()).unwrap();
        for _ in 0..2 {
            assert!(underlay.running.as_ref().unwrap().is_stale);
            underlay.tick(&mut TestContext::new());
        }
        // An interface that is there.
        underlay.name = "lo".to_owned();
        underlay.tick(&mut TestContext::new());
        assert!(!underlay.running.as_ref().unwrap().is_stale);
        registry::remove_link("lo");
    }
}
