//! Commands of the control queue (VIRTIO 1.3 §5.1.6.5): the effect of each, and the commands that lead to the present
//! state.
use vhost_device::RingSet;
use virtio::net::control::{Ack, Command, ReceiveFilter};

use super::NetDevice;
use crate::PortContext;

impl NetDevice {
    /// The commands that set the present state of the control queue.
    pub(super) fn commands(&self) -> Vec<Vec<u8>> {
        let mut commands = Vec::new();
        if let Some(filter) = &self.filter {
            commands = filter.commands(self.features);
        }
        if let Some(on) = self.guest_offloads {
            commands.push([&[5, 0][..], &on.bits().to_le_bytes()].concat());
        }
        if let Some(pairs) = self.used_pairs {
            commands.push([&[4, 0][..], &pairs.to_le_bytes()].concat());
        }
        commands
    }

    pub(super) fn handle_command(
        &mut self,
        command: &[u8],
        rings: &mut dyn RingSet<Self>,
        context: &mut dyn PortContext,
    ) -> Ack {
        match Command::parse(command, self.features, self.port.options.queue_pairs) {
            Ok(Command::Filter(change)) => {
                let own = self.port.options.mac.unwrap_or_default();
                let features = self.features;
                let fresh = || Box::new(ReceiveFilter::new(own, features));
                self.filter.get_or_insert_with(fresh).apply(&change);
                self.change_sinks(rings, context, |sink| sink.set_filter(self.filter.clone()));
            }
            // The device never asks for an announcement.
            Ok(Command::AnnounceAck) => {}
            Ok(Command::QueuePairs(pairs)) => self.use_pairs(Some(pairs), rings, context),
            Ok(Command::GuestOffloads(on)) => {
                self.guest_offloads = Some(on);
                let accepts = self.accepts();
                self.change_sinks(rings, context, |sink| sink.set_accepts(accepts));
            }
            Err(error) => {
                self.log.warn(context, format_args!("control command refused: {error}"));
                return Ack::Error;
            }
        }
        Ack::Ok
    }
}
