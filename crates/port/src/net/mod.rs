//! The network device of one driver, for the kinds of port whose peer is a driver: MTU, announcements, filters,
//! offloads, pairs, and the file in which deliveries are noted.
mod commands;
pub(crate) mod control;
pub(crate) mod deliveries;
pub(crate) mod offer;
pub(crate) mod options;
pub(crate) mod port;
pub(crate) mod queue;

use std::sync::Arc;

use frame::Side;
use vhost_device::{Device, DeviceMessage, Log, Notifiers, RingQueue, RingSet, not_offered};
use vhost_user::bits::ProtocolFeatures;
use vhost_user::session::Refusal;
use virtio::net::control::ReceiveFilter;
use virtio::net::{Accepts, HeaderLayout, NetConfig};
use virtio::{Features, NetFeatures};
use virtqueue::{DeviceQueue, IndirectFlags, RingError};

use crate::PortContext;
use control::ControlQueue;
use net_queues::device::{FromGuest, ToGuest, ToGuestOptions};
use port::NetShared;
use queue::{Kind, NetQueue, as_sink, direction, own_sink};

/// The bytes that an MTU does not count: the Ethernet header, and one VLAN tag.
const BEYOND_MTU_BYTES: u32 = 14 + 4;

#[derive(Clone)]
pub(crate) struct NetDevice {
    log: Arc<Log>,
    port: Arc<NetShared>,
    features: Features,
    mtu_bytes: Option<u16>,
    /// The filter that the driver has set on the control queue.
    filter: Option<Box<ReceiveFilter>>,
    /// The offloads that are on, if the driver has set them on the control queue.
    guest_offloads: Option<Features>,
    /// The number of pairs in use, if the driver has set it on the control queue; if not, the enabled pairs are used.
    used_pairs: Option<u16>,
}

impl NetDevice {
    pub fn new(log: Arc<Log>, port: Arc<NetShared>) -> Self {
        NetDevice {
            log,
            mtu_bytes: port.options.mtu,
            port,
            features: Features::empty(),
            filter: None,
            guest_offloads: None,
            used_pairs: None,
        }
    }

    /// The front-end narrows the operator's limit, but does not widen it.
    fn set_mtu(
        &mut self,
        mtu_bytes: u16,
        rings: &mut dyn RingSet<Self>,
        context: &mut dyn PortContext,
    ) -> Result<bool, Refusal> {
        if let Some(limit) = self.port.options.mtu.filter(|limit| mtu_bytes > *limit) {
            return Err(Refusal::new(format!(
                "an MTU of {mtu_bytes} is above the {limit} of this port; give its card host_mtu={limit} at the most, or \
                 the port a larger mtu="
            )));
        }
        let former = self.mtu_bytes.replace(mtu_bytes);
        let max = self.max_frame_bytes();
        self.change_sinks(rings, context, |sink| sink.set_max_frame_bytes(max));
        Ok(former != self.mtu_bytes)
    }

    fn max_frame_bytes(&self) -> Option<u32> {
        self.mtu_bytes.map(|mtu| u32::from(mtu) + BEYOND_MTU_BYTES)
    }

    fn header_layout(&self) -> HeaderLayout {
        let full =
            self.features.contains(Features::VERSION_1) || self.features.contains(NetFeatures::MRG_RXBUF);
        if full { HeaderLayout::Full } else { HeaderLayout::Legacy }
    }

    fn accepts(&self) -> Accepts {
        Accepts::of_driver(self.guest_offloads.unwrap_or(self.features))
    }

    fn change_sinks(
        &self,
        rings: &mut dyn RingSet<Self>,
        context: &mut dyn PortContext,
        mut how: impl FnMut(&mut ToGuest),
    ) {
        let sinks =
            rings.kinds().into_iter().filter(|(_, kind)| matches!(kind, Kind::Data(_, Side::ToGuest)));
        let sinks: Vec<usize> = sinks.map(|(index, _)| index).collect();
        rings
            .change(&sinks, self, context, &mut |_, running| as_sink(running).into_iter().for_each(&mut how));
    }

    fn use_pairs(
        &mut self,
        pairs: Option<u16>,
        rings: &mut dyn RingSet<Self>,
        context: &mut dyn PortContext,
    ) {
        self.used_pairs = pairs;
        rings.settle(self, context);
    }

    /// Whether frames go to the guest through this ring: it is enabled, and the driver uses its pair.
    fn is_used(&self, (kind, enabled): (Kind, bool)) -> bool {
        match kind {
            Kind::Data(pair, Side::ToGuest) => enabled && self.used_pairs.is_none_or(|used| pair < used),
            _ => false,
        }
    }

    /// Goes on where the options and the control queue leave it.
    fn sink(&self, queue: Box<dyn DeviceQueue>, pair: u16, setup: Notifiers) -> Result<ToGuest, Refusal> {
        let options = ToGuestOptions {
            layout: self.header_layout(),
            accepts: self.accepts(),
            mergeable: self.features.contains(NetFeatures::MRG_RXBUF),
            max_frame_bytes: self.max_frame_bytes(),
        };
        let counters = self.port.counters(pair, Side::ToGuest).ok_or_else(not_offered)?;
        let mut sink = ToGuest::new(queue, options, setup.call, setup.enabled, Arc::clone(counters));
        sink.set_cache_policy(self.port.options.cache_policy);
        if let Some(area) = self.port.deliveries.get() {
            sink.note_deliveries(area, pair);
        }
        sink.set_filter(self.filter.clone());
        Ok(sink)
    }

    fn source(&self, queue: Box<dyn DeviceQueue>, pair: u16, setup: Notifiers) -> Result<FromGuest, Refusal> {
        let Notifiers { kick, call, enabled } = setup;
        let counters = Arc::clone(self.port.counters(pair, Side::FromGuest).ok_or_else(not_offered)?);
        let mut source = FromGuest::new(queue, self.header_layout(), kick, call, enabled, counters);
        source.set_cache_policy(self.port.options.cache_policy);
        if let Some(area) = self.port.deliveries.get() {
            source.note_deliveries(area, pair);
        }
        Ok(source)
    }
}

impl Device for NetDevice {
    type Kind = Kind;
    type Queue = NetQueue;
    type Context<'a> = dyn PortContext + 'a;

    fn features(&self) -> Features {
        offer::features(&self.port.options)
    }

    fn protocol_features(&self) -> ProtocolFeatures {
        offer::protocol_features(&self.port.options)
    }

    fn queue_count(&self) -> u16 {
        offer::queue_count(&self.port.options)
    }

    /// QEMU and DPDK count pairs there (vhost-user text: "the number of queues", device by device).
    fn reported_queues(&self) -> u16 {
        self.port.options.queue_pairs
    }

    fn kind(&self, index: usize) -> Kind {
        Kind::of(index, self.port.options.queue_pairs, self.features)
    }

    fn name(kind: Kind) -> String {
        match kind {
            Kind::Data(pair, side) => format!("queue {} the guest, pair {pair}", direction(side)),
            Kind::Control => "control queue".to_owned(),
        }
    }

    fn is_served_here(kind: Kind) -> bool {
        kind == Kind::Control
    }

    fn indirect_flags(kind: Kind) -> IndirectFlags {
        match kind {
            Kind::Data(_, Side::FromGuest) => IndirectFlags::AllReadable,
            Kind::Data(_, Side::ToGuest) | Kind::Control => IndirectFlags::Trusted,
        }
    }

    fn queue(&self, kind: Kind, queue: Box<dyn DeviceQueue>, setup: Notifiers) -> Result<NetQueue, Refusal> {
        match kind {
            Kind::Data(pair, Side::FromGuest) => {
                self.source(queue, pair, setup).map(Box::new).map(NetQueue::Source)
            }
            Kind::Data(pair, Side::ToGuest) => {
                self.sink(queue, pair, setup).map(Box::new).map(NetQueue::Sink)
            }
            Kind::Control => {
                let kick = setup.kick.ok_or_else(not_offered)?;
                let control = ControlQueue::new(queue, kick, setup.call, setup.enabled);
                Ok(NetQueue::Control(Box::new(control)))
            }
        }
    }

    /// Sinks of disabled rings are not attached while others are enabled: frames are spread over the sinks that are
    /// attached, and would be lost in those.
    fn is_attached(&self, ring: (Kind, bool), rings: &[(Kind, bool)]) -> bool {
        match ring.0 {
            Kind::Data(_, Side::FromGuest) => true,
            Kind::Data(_, Side::ToGuest) => {
                self.is_used(ring) || !rings.iter().any(|ring| self.is_used(*ring))
            }
            Kind::Control => false,
        }
    }

    fn attach(queues: Vec<(Kind, NetQueue)>, context: &mut Self::Context<'_>) {
        let of_workers = |(kind, queue): (Kind, NetQueue)| match kind {
            Kind::Data(pair, _) => Some((pair, queue.for_workers()?)),
            Kind::Control => None,
        };
        context.attach(queues.into_iter().filter_map(of_workers).collect());
    }

    fn detach(kinds: &[Kind], context: &mut Self::Context<'_>) -> Vec<Option<NetQueue>> {
        let place = |kind: &Kind| match kind {
            Kind::Data(pair, side) => Some((*pair, *side)),
            Kind::Control => None,
        };
        let places: Vec<(u16, Side)> = kinds.iter().filter_map(place).collect();
        context.detach(&places).into_iter().map(|queue| queue.and_then(NetQueue::from_workers)).collect()
    }

    fn change(kind: Kind, context: &mut Self::Context<'_>, how: &mut dyn FnMut(&mut dyn RingQueue)) -> bool {
        let Kind::Data(pair, Side::ToGuest) = kind else { return false };
        context.change_sink(pair, Box::new(|sink| own_sink(sink).into_iter().for_each(|own| how(own))))
    }

    fn started(&mut self, kind: Kind, rings: &mut dyn RingSet<Self>, context: &mut Self::Context<'_>) {
        if kind == Kind::Control && self.features.contains(NetFeatures::MQ) {
            // §5.1.5: one pair is in use until the driver asks for more.
            self.use_pairs(self.used_pairs.or(Some(1)), rings, context);
        }
    }

    fn set_features(&mut self, features: Features) {
        self.features = features;
    }

    /// Back to what holds before any command (VIRTIO 1.3 §5.1.5).
    fn reset(&mut self, rings: &mut dyn RingSet<Self>, context: &mut Self::Context<'_>) {
        (self.filter, self.guest_offloads) = (None, None);
        self.use_pairs(None, rings, context);
        let accepts = self.accepts();
        self.change_sinks(rings, context, |sink| {
            sink.set_filter(None);
            sink.set_accepts(accepts);
        });
    }

    fn serve(
        &mut self,
        queue: &mut NetQueue,
        rings: &mut dyn RingSet<Self>,
        context: &mut Self::Context<'_>,
    ) -> Result<bool, RingError> {
        let NetQueue::Control(control) = queue else { return Ok(false) };
        control.serve(|command| self.handle_command(command, rings, context))
    }

    fn message(
        &mut self,
        message: DeviceMessage,
        rings: &mut dyn RingSet<Self>,
        context: &mut Self::Context<'_>,
    ) -> Result<bool, Refusal> {
        match message {
            DeviceMessage::Mtu(mtu_bytes) => self.set_mtu(mtu_bytes, rings, context),
            DeviceMessage::Announce(address) => {
                if self.port.may_announce() {
                    context.announce(address);
                } else {
                    // A refusal would cost a front-end that cannot hear it its connection.
                    let what =
                        format_args!("announcement of {address} left out: too many of them (SEND_RARP)");
                    self.log.warn(context, what);
                }
                Ok(false)
            }
        }
    }

    fn config(&self) -> Vec<u8> {
        let options = &self.port.options;
        let own = self.filter.as_ref().map(|filter| filter.own_address());
        let config = NetConfig {
            mac: own.or(options.mac).unwrap_or_default(),
            link_up: true,
            max_queue_pairs: options.queue_pairs,
            mtu_bytes: self.mtu_bytes.unwrap_or(0),
            ..NetConfig::default()
        };
        config.to_bytes().to_vec()
    }

    fn state(&self) -> Vec<Vec<u8>> {
        self.commands()
    }

    fn restore(&mut self, state: &[Vec<u8>], rings: &mut dyn RingSet<Self>, context: &mut Self::Context<'_>) {
        for command in state {
            self.handle_command(command, rings, context);
        }
    }

    fn resumed(queue: &mut dyn RingQueue) {
        if let Some(sink) = as_sink(queue) {
            sink.note_start();
        }
    }

    fn advice(&self) -> Option<String> {
        let pairs = self.port.options.queue_pairs;
        Some(format!(
            "if it asks for more queue pairs than this port's {pairs}, start the port with queue-pairs=N; if its guest ran \
             with another switch before, start the port with the options of that one: a running guest gives no feature up"
        ))
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (feature, word) in [
            (NetFeatures::MRG_RXBUF, "mergeable"),
            (NetFeatures::CSUM, "sends with offloads"),
            (NetFeatures::GUEST_CSUM, "takes offloads"),
        ] {
            if self.features.contains(feature) {
                words.push(word.to_owned());
            }
        }
        words.extend(self.mtu_bytes.map(|mtu| format!("MTU {mtu}")));
        words.extend(self.used_pairs.map(|pairs| format!("{pairs} pairs in use")));
        words
    }
}
