//! Another kind of device than a network card: one queue, whose buffers come back with what was read from them. The
//! engine serves it as it is.
use std::sync::Arc;

use memory::{Address, Backing, PeerMemory};
use vhost_user::SharedFd;
use vhost_user::session::Refusal;
use vhost_user::session::backend::{Kick, SharedRegion, VringConfig};
use vhost_user::vring::{VringAddresses, VringBase};
use virtio::{Features, QueueSize, RingLayout};
use virtqueue::{
    Burst, DeviceQueue, Piece, PopError, Position, QueueConfig, Request, RingError, RingFeatures,
};

use super::contract::{Device, Notifiers, ParkedQueue, RingQueue, RingSet};
use super::engine::{Engine, StartedRing};
use super::shared::Shared;
use super::tokens;
use crate::PortContext;
use crate::device::{EventFd, StoppedAt};
use crate::testing::TestContext;
use crate::testing::guest_memory::{
    DATA, DATA_BYTES, GuestMemory, RINGS, RINGS_BYTES, USER, event_fd, ring_at,
};

#[derive(Clone)]
struct Echo;

struct EchoQueue {
    queue: Box<dyn DeviceQueue>,
    burst: Burst,
    notifiers: Notifiers,
}

impl RingQueue for EchoQueue {
    fn queue(&mut self) -> &mut dyn DeviceQueue {
        &mut *self.queue
    }

    fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        self.queue = queue;
        self.burst.release();
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.notifiers.enabled = enabled;
    }

    fn set_kick(&mut self, kick: Option<EventFd>) {
        self.notifiers.kick = kick;
    }

    fn set_call(&mut self, call: Option<EventFd>) {
        self.notifiers.call = call;
    }

    fn stopped_at(&self) -> Arc<StoppedAt> {
        Arc::default()
    }
}

impl ParkedQueue for EchoQueue {
    fn ring_queue(&mut self) -> &mut dyn RingQueue {
        self
    }
}

impl Device for Echo {
    type Kind = ();
    type Queue = EchoQueue;

    fn queue_count(&self) -> u16 {
        1
    }

    fn kind(&self, _: usize) {}

    fn name((): ()) -> String {
        "echo queue".to_owned()
    }

    fn is_served_here((): ()) -> bool {
        true
    }

    fn queue(&self, (): (), queue: Box<dyn DeviceQueue>, notifiers: Notifiers) -> Result<EchoQueue, Refusal> {
        Ok(EchoQueue { queue, burst: Burst::new(1), notifiers })
    }

    fn set_features(&mut self, _: Features) {}

    fn serve(
        &mut self,
        EchoQueue { queue, burst, notifiers }: &mut EchoQueue,
        _: &mut dyn RingSet<Self>,
        _: &mut dyn PortContext,
    ) -> Result<bool, RingError> {
        notifiers.kick.iter().for_each(|kick| _ = kick.drain());
        loop {
            match queue.pop(burst, 1) {
                Ok(0) if queue.enable_kicks() => continue,
                Ok(0) | Err(PopError::Miss { .. }) => return Ok(false),
                Ok(_) => {}
                Err(PopError::Malformed(error)) => return Err(error),
            }
            let chain = burst.chain(0);
            let mut bytes = vec![0; chain.readable_bytes() as usize];
            chain.read(0, &mut bytes);
            let written = chain.write(0, &bytes);
            burst.set_written(0, written as u32);
            queue.add_used_all(burst);
            notifiers.call.iter().for_each(EventFd::notify);
        }
    }

    fn config(&self) -> Vec<u8> {
        vec![7]
    }
}

#[test]
fn the_engine_serves_a_device_that_is_no_network_card() {
    let guest = GuestMemory::new(c"echo", &[(RINGS, RINGS_BYTES), (DATA, DATA_BYTES)]);
    let (descriptors, driver_area, device_area) = ring_at(0);
    let mut driver = QueueConfig {
        features: RingFeatures::plain(RingLayout::Split),
        size: 16,
        descriptors: Address::Guest(descriptors),
        driver_area: Address::Guest(driver_area),
        device_area: Address::Guest(device_area),
        position: Position::start(RingLayout::Split),
    }
    .activate_driver(&guest.space, None)
    .unwrap();
    let mut context = TestContext::new();
    let shared = Arc::new(Shared::new("echo".to_owned()));
    let memory = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
    let mut engine = Engine::new(Echo, shared, memory);
    let regions = guest.regions.iter().map(|(region, file)| SharedRegion {
        region: *region,
        file: SharedFd::new(file.try_clone().unwrap()),
    });
    let space = engine.memory.table(regions.collect()).unwrap();
    engine.set_space(space, &mut context).unwrap();
    let call = EventFd::new().unwrap();
    let started = |kick| StartedRing {
        index: 0,
        config: VringConfig {
            layout: RingLayout::Split,
            size: QueueSize::new(RingLayout::Split, 16).unwrap(),
            addresses: VringAddresses {
                descriptor: USER + descriptors,
                driver: USER + driver_area,
                device: USER + device_area,
            },
            log: None,
            base: VringBase::Split { next_available: 0 },
        },
        kick,
        call: Some(call.shared().clone()),
        err: None,
        enabled: true,
    };
    let refused = engine.start(started(Kick::Poll), &mut context).unwrap_err();
    assert_eq!(refused.to_string(), "echo queue: a kick eventfd is needed");
    engine.start(started(Kick::Event(event_fd().into())), &mut context).unwrap();
    assert_eq!(context.watched(), 1);

    guest.write(DATA, b"what is read comes back");
    let readable = [Piece { address: DATA, len: 23 }];
    let writable = [Piece { address: DATA + 4096, len: 64 }];
    assert_eq!(driver.add_requests(&[Request { readable: &readable, writable: &writable, cookie: 5 }]), 1);
    let index = tokens::kicked(tokens::kick(0)).unwrap();
    engine.serve(index, &mut context).map_err(|(_, error)| error).unwrap();
    let mut used = Vec::new();
    assert_eq!(driver.reclaim(&mut used, 16), Ok(1));
    assert_eq!((used[0].cookie, used[0].written), (5, 23));
    assert_eq!(guest.read(DATA + 4096, 23), b"what is read comes back");
    assert_eq!(call.drain(), 1, "the driver was told");

    assert_eq!(
        (engine.read_config(0, 3), engine.stop(0, &mut context)),
        (vec![7, 0, 0], VringBase::Split { next_available: 1 })
    );
    assert_eq!(context.watched(), 0);
}
