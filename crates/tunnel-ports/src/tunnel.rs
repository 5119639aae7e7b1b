//! A tunnel as a port.
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use frame::{PairCounters, QueueCounters, QueueError, Side};
use port::in_memory::QueueOptions;
use port::{Port, PortContext, PortError, Token};
use tunnels::Settings;

use crate::encapsulator::Encapsulator;
use crate::inbox::Inbox;
use crate::monitor::Monitor;
use crate::queue::shared;
use crate::registry;
use crate::source::TunnelSource;
use crate::view::Tunnel;

/// The only queue pair.
const PAIR: u16 = 0;
/// Received frames that wait, and the longest of them with its metadata.
const SLOTS: u16 = 256;
const FRAME_BYTES: u32 = 10 << 10;

/// A tunnel as a port of one queue pair.
pub(crate) struct TunnelPort {
    settings: Settings,
    network: String,
    counters: PairCounters,
    tunnel: Option<Arc<Tunnel>>,
    monitor: Option<Monitor>,
}

impl TunnelPort {
    /// A tunnel that is not there before the port is started.
    pub fn new(settings: Settings, network: String) -> Self {
        TunnelPort { settings, network, counters: PairCounters::default(), tunnel: None, monitor: None }
    }

    /// The other end, in words.
    fn remote(&self) -> String {
        self.settings.remote.map_or("the ends that flows name".to_owned(), |remote| remote.to_string())
    }

    fn attach(&mut self, context: &mut dyn PortContext) -> io::Result<()> {
        let options = QueueOptions { slots: SLOTS, frame_bytes: FRAME_BYTES, ..QueueOptions::default() };
        let (entrance, source) = shared(options)?;
        let inbox = self.settings.bfd.map(|_| Inbox::new()).transpose()?.map(Arc::new);
        let (settings, network) = (self.settings.clone(), self.network.clone());
        let tunnel = Tunnel { settings, network, entrance, inbox };
        let tunnel = Arc::new(tunnel);
        let sink =
            |counters: &Arc<QueueCounters>| Encapsulator::new(Arc::clone(&tunnel), Arc::clone(counters));
        let monitor = match (self.settings.bfd, &tunnel.inbox) {
            (Some(timing), Some(inbox)) => {
                // With counters of its own: the worker writes those of the port, and a counter has one writer.
                Some(Monitor::new(timing, Arc::clone(inbox), sink(&Arc::default())?.of_session()))
            }
            _ => None,
        };
        let sink = sink(&self.counters.to_guest)?;
        registry::add_tunnel(&tunnel).map_err(io::Error::other)?;
        self.tunnel = Some(tunnel);
        let source = TunnelSource::new(source, Arc::clone(&self.counters.from_guest));
        context.attach_source(PAIR, Box::new(source));
        context.attach_sink(PAIR, Box::new(sink));
        self.monitor = monitor;
        self.monitor.as_mut().map_or(Ok(()), |monitor| monitor.start(context))
    }
}

impl Port for TunnelPort {
    fn queue_pairs(&self) -> u16 {
        1
    }

    fn describe(&self) -> String {
        let kind = self.settings.kind.name();
        let way = match (self.egress(), self.settings.remote) {
            (Some(by), _) => format!(" by {by}"),
            (None, Some(_)) => ", no route".to_owned(),
            (None, None) => String::new(),
        };
        format!("{kind} tunnel to {}{way}", self.remote())
    }

    fn egress(&self) -> Option<String> {
        let view = registry::current();
        let hop = view.routes.hop(self.settings.remote?, self.settings.local)?;
        Some(view.links.get(hop.link)?.name.clone())
    }

    fn forwards(&self) -> bool {
        self.monitor.as_ref().is_none_or(Monitor::forwards)
    }

    fn session(&self) -> BTreeMap<&'static str, String> {
        self.monitor.as_ref().map(Monitor::status).unwrap_or_default()
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        (pair == PAIR).then(|| Arc::clone(self.counters.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.attach(context).map_err(|error| {
            let what = format!("make a {} tunnel to {}", self.settings.kind.name(), self.remote());
            PortError::new(what, error, "give it another key, or remove the other tunnel with these ends")
        })
    }

    fn ready(&mut self, _token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if let Some(monitor) = &mut self.monitor {
            monitor.run(context);
        }
        Ok(())
    }

    fn stopped(&mut self, _pair: u16, _side: Side, why: QueueError, context: &mut dyn PortContext) {
        context.log(&format_args!("tunnel to {}: a queue stopped: {why}", self.remote()));
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        if let Some(monitor) = self.monitor.take() {
            monitor.end(context);
        }
        if let Some(tunnel) = self.tunnel.take() {
            registry::remove_tunnel(&tunnel);
        }
        context.detach_source(PAIR);
        context.detach_sink(PAIR);
    }
}
