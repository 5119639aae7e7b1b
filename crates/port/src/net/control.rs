//! The control queue (VIRTIO 1.3 §5.1.6.5). The thread that serves the socket serves it too.
use vhost_device::Turn;
use virtio::net::control::{Ack, MAX_COMMAND_BYTES};
use virtqueue::{Burst, DeviceQueue, PopError, RingError};

use net_queues::device::EventFd;

/// A running control queue.
pub(crate) struct ControlQueue {
    queue: Box<dyn DeviceQueue>,
    burst: Burst,
    /// The driver's part of the present command.
    command: Vec<u8>,
    enabled: bool,
    kick: EventFd,
    call: Option<EventFd>,
}

impl ControlQueue {
    pub fn new(queue: Box<dyn DeviceQueue>, kick: EventFd, call: Option<EventFd>, enabled: bool) -> Self {
        ControlQueue { queue, burst: Burst::new(1), command: Vec::new(), enabled, kick, call }
    }

    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub fn set_kick(&mut self, kick: EventFd) {
        self.kick = kick;
    }

    pub fn set_call(&mut self, call: Option<EventFd>) {
        self.call = call;
    }

    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        &mut *self.queue
    }

    pub fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        self.queue = queue;
        self.burst.release();
    }

    /// Answers the available commands with the results of `handle_command`, up to the limit of one turn. Returns true
    /// if more may be left.
    ///
    /// # Errors
    /// The ring is malformed. It stays stopped.
    pub fn serve(&mut self, mut handle_command: impl FnMut(&[u8]) -> Ack) -> Result<bool, RingError> {
        self.kick.drain();
        let turn = Turn::begin();
        while !turn.is_over() {
            match self.queue.pop(&mut self.burst, 1) {
                Ok(0) if self.queue.enable_kicks() => continue,
                // ACCESS_PLATFORM is not offered, so there is no translation to wait for.
                Ok(0) | Err(PopError::Miss { .. }) => return Ok(false),
                Ok(_) => {}
                Err(PopError::Malformed(error)) => return Err(error),
            }
            let chain = self.burst.chain(0);
            let bytes = chain.readable_bytes() as usize;
            // A command without room for its answer is not obeyed, because the driver could not know.
            let ack = if self.enabled && bytes <= MAX_COMMAND_BYTES && chain.writable_bytes() > 0 {
                self.command.resize(bytes, 0);
                let read = chain.read(0, &mut self.command);
                handle_command(&self.command[..read])
            } else {
                Ack::Error
            };
            let written = chain.write(0, &[ack as u8]);
            self.burst.set_written(0, written as u32);
            self.queue.add_used_all(&mut self.burst);
            if let Some(call) = &self.call
                && self.queue.needs_call()
            {
                call.notify();
            }
        }
        Ok(true)
    }
}
