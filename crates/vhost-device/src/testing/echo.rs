//! A kind of device other than a network card. The device uses only what `vhost-device` exports, and no other file of the
//! crate depends on the device.
use vhost_user::bits::ProtocolFeatures;
use vhost_user::session::Refusal;
use virtio::Features;
use virtqueue::{DeviceQueue, PopError, RingError};

use crate::{BurstQueue, Context, Device, EventFd, Notifiers, RingSet};

/// A device whose one queue gives back the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

impl Device for Echo {
    type Kind = ();
    type Queue = BurstQueue;
    type Context<'a> = dyn Context + 'a;

    fn features(&self) -> Features {
        Features::VERSION_1.union(Features::RING_PACKED)
    }

    fn protocol_features(&self) -> ProtocolFeatures {
        ProtocolFeatures::CONFIG
    }

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

    fn queue(
        &self,
        (): (),
        queue: Box<dyn DeviceQueue>,
        notifiers: Notifiers,
    ) -> Result<BurstQueue, Refusal> {
        Ok(BurstQueue::new(queue, notifiers, 1))
    }

    fn set_features(&mut self, _: Features) {}

    fn serve(
        &mut self,
        BurstQueue { queue, burst, notifiers }: &mut BurstQueue,
        _: &mut dyn RingSet<Self>,
        _: &mut Self::Context<'_>,
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
