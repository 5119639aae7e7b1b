//! The underlays, tunnels and neighbours of this process.
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tunnels::{Duplicate, Ends, Neighbours, OptionMap, Route, Routes};

use crate::heard::Heard;
use crate::view::{Link, Tunnel, View};

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
static VIEW: LazyLock<Mutex<Arc<View>>> = LazyLock::new(Mutex::default);
/// How often the view was replaced.
static GENERATION: AtomicU64 = AtomicU64::new(0);
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What an underlay knows of its interface.
pub(crate) struct LinkState {
    pub link: Link,
    /// With the link 0 in all of them.
    pub routes: Vec<Route>,
}

#[derive(Default)]
struct State {
    links: BTreeMap<String, LinkState>,
    neighbours: BTreeMap<String, Neighbours>,
    tunnels: Ends<Arc<Tunnel>>,
    options: BTreeMap<String, Arc<[OptionMap]>>,
}

/// The time of neighbours.
fn now() -> Duration {
    FIRST.elapsed()
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn want(&mut self, link: &str, address: IpAddr) -> bool {
        self.neighbours.entry(link.to_owned()).or_default().want(address, now())
    }

    /// Gives workers a new view.
    fn publish(&self) {
        let mut view =
            View { tunnels: self.tunnels.clone(), options: self.options.clone(), ..View::default() };
        let mut routes = Vec::new();
        for (number, (name, state)) in self.links.iter().enumerate() {
            routes.extend(state.routes.iter().map(|route| Route { link: number, ..route.clone() }));
            let neighbours = self.neighbours.get(name).map(|all| all.known().collect()).unwrap_or_default();
            let Link { name, mac, mtu, addresses, entrance, waker, heard, .. } = &state.link;
            view.links.push(Arc::new(Link {
                name: name.clone(),
                mac: *mac,
                mtu: *mtu,
                addresses: addresses.clone(),
                neighbours,
                entrance: Arc::clone(entrance),
                waker: waker.clone(),
                heard: Arc::clone(heard),
            }));
        }
        let addresses = self.links.values().map(|state| state.link.addresses.clone()).collect();
        view.routes = Routes::new(routes, addresses);
        *VIEW.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        // Release pairs with the acquire in `Reader::refresh`: a thread that sees the number finds the view or a later
        // one.
        GENERATION.fetch_add(1, Ordering::Release);
    }
}

/// Adds or replaces an underlay.
pub(crate) fn set_link(new: LinkState) {
    let mut state = state();
    state.links.insert(new.link.name.clone(), new);
    state.publish();
}

/// Removes an underlay and its neighbours.
pub(crate) fn remove_link(name: &str) {
    let mut state = state();
    state.links.remove(name);
    state.neighbours.remove(name);
    state.publish();
}

/// Adds a tunnel, and has its next hop asked for: the first frame finds it known.
///
/// # Errors
/// Another tunnel has the same ends.
pub(crate) fn add_tunnel(tunnel: &Arc<Tunnel>) -> Result<(), Duplicate> {
    let mut state = state();
    state.tunnels.add(&tunnel.settings, Arc::clone(tunnel))?;
    state.publish();
    let view = current();
    if let Some((link, neighbour)) = view.hop_of(tunnel)
        && state.want(&link.name, neighbour)
    {
        link.wake();
    }
    Ok(())
}

/// Removes a tunnel.
pub(crate) fn remove_tunnel(tunnel: &Tunnel) {
    let mut state = state();
    state.tunnels.remove(&tunnel.settings);
    state.publish();
}

/// Says which Geneve options are which fields in the flows of a network; an empty name stands for all networks that are
/// not named.
pub fn set_options(network: &str, options: &[OptionMap]) {
    let mut state = state();
    let known = state.options.get(network).map_or(&[][..], |known| known);
    if known == options {
        return;
    }
    match options.is_empty() {
        true => _ = state.options.remove(network),
        false => _ = state.options.insert(network.to_owned(), options.into()),
    }
    state.publish();
}

/// Notes that frames are to be sent to a neighbour of an underlay. Returns true if it is to be asked for now.
pub(crate) fn want(link: &str, address: IpAddr) -> bool {
    state().want(link, address)
}

/// Takes note of the owners of addresses of which an underlay has heard, if this end has asked for them. Returns true if it
/// has heard of any.
pub(crate) fn learn(link: &str, heard: &Heard) -> bool {
    let mut state = state();
    let neighbours = state.neighbours.entry(link.to_owned()).or_default();
    let mut has_heard = false;
    heard.drain(|message| {
        has_heard = true;
        neighbours.learn(message.address, message.mac, now());
    });
    if neighbours.take_change() {
        state.publish();
    }
    has_heard
}

/// Notes that frames are to be sent to the next hops to the ends of tunnels.
pub(crate) fn want_hops(link: &str) {
    let view = current();
    let mut state = state();
    for (at, neighbour) in view.tunnels.all().filter_map(|tunnel| view.hop_of(tunnel)) {
        if at.name == link {
            state.want(link, neighbour);
        }
    }
}

/// The addresses that an underlay asks for now.
pub(crate) fn due(link: &str) -> Vec<IpAddr> {
    let mut state = state();
    let neighbours = state.neighbours.entry(link.to_owned()).or_default();
    let due = neighbours.due(now());
    if neighbours.take_change() {
        state.publish();
    }
    due
}

/// The present view.
pub(crate) fn current() -> Arc<View> {
    Arc::clone(&VIEW.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A worker's view, which costs one load to keep up to date.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    generation: u64,
    pub view: Arc<View>,
}

impl Reader {
    /// Takes the present view. Returns true if it is another one.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        // Acquire: pairs with the release in `State::publish`.
        let generation = GENERATION.load(Ordering::Acquire);
        let is_new = generation != self.generation;
        if is_new {
            (self.generation, self.view) = (generation, current());
        }
        is_new
    }
}
