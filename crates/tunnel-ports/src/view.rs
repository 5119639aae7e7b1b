//! The workers' view of underlays and tunnels.
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use port::SharedFd;
use tunnels::{Ends, Mac, Message, OptionMap, Routes, Settings};

use crate::heard::Heard;
use crate::inbox::Inbox;
use crate::queue::Entrance;

/// An underlay.
#[derive(Debug)]
pub(crate) struct Link {
    /// The name of its interface.
    pub name: String,
    /// The Ethernet address.
    pub mac: Mac,
    /// The longest IP packet in bytes.
    pub mtu: usize,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The known neighbours, in ascending order.
    pub neighbours: Vec<(IpAddr, Mac)>,
    /// The queue of frames that enter the underlay's network.
    pub entrance: Arc<Entrance>,
    /// The descriptor that is written when an Ethernet address must be requested, or was heard.
    pub waker: SharedFd,
    /// What was heard about neighbours.
    pub heard: Arc<Heard>,
}

impl Link {
    /// The Ethernet address of a neighbour.
    pub fn neighbour(&self, address: IpAddr) -> Option<Mac> {
        let at = self.neighbours.binary_search_by_key(&address, |(known, _)| *known).ok()?;
        Some(self.neighbours[at].1)
    }

    /// Takes note of a message about a neighbour.
    pub fn hear(&self, message: Message) {
        if self.heard.add(message) {
            self.wake();
        }
    }

    /// Wakes the control side of the underlay.
    pub fn wake(&self) {
        // A full counter is readable too.
        let _ = rustix::io::write(self.waker.as_fd(), &1_u64.to_ne_bytes());
    }
}

/// A tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub settings: Settings,
    /// The network of the port, whose bridge says which options are which fields.
    pub network: String,
    /// The queue of received frames.
    pub entrance: Arc<Entrance>,
    /// Where packets of BFD go, if the tunnel has a session with its other end.
    pub inbox: Option<Arc<Inbox>>,
}

/// Underlays and tunnels at one moment.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The underlays.
    pub links: Vec<Arc<Link>>,
    /// The routes, whose links are indices of `links`.
    pub routes: Routes,
    /// The tunnels.
    pub tunnels: Ends<Arc<Tunnel>>,
    /// Geneve options, by network.
    pub options: BTreeMap<String, Arc<[OptionMap]>>,
}

impl View {
    /// The options that a network's flows know. The options of a bridge without a network hold for all other networks.
    pub fn options_of(&self, network: &str) -> &[OptionMap] {
        let found = self.options.get(network).or_else(|| self.options.get(""));
        found.map_or(&[], |options| options)
    }

    /// The underlay of the next hop to the end of a tunnel that has one end, and the next hop.
    pub fn hop_of(&self, tunnel: &Tunnel) -> Option<(&Link, IpAddr)> {
        let hop = self.routes.hop(tunnel.settings.remote?, tunnel.settings.local)?;
        Some((self.links.get(hop.link)?, hop.neighbour))
    }

    /// The underlay with this interface.
    pub fn link(&self, name: &str) -> Option<&Arc<Link>> {
        self.links.iter().find(|link| link.name == name)
    }
}
