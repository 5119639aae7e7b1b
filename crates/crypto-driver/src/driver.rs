//! Sessions and requests over a running ring.
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vhost_user::codec::crypto::{CreateCryptoSession, CryptoForm, CryptoSetup};
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::session::frontend::Answer;
use virtio::crypto::Status;
use virtqueue::{Piece, Request as Chain, Used};

use crate::Options;
use crate::connect::{FrontEnd, Ring};
use crate::error::{DriverError, system};
use crate::memory::pieces;

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The slot from which the request was submitted.
    pub slot: u16,
    /// The device's status.
    pub status: Status,
    /// The used length that the device reports, including the status byte.
    pub written: u32,
}

/// The pieces of a request.
#[derive(Clone, Debug, Default)]
struct Slot {
    readable: Vec<Piece>,
    writable: Vec<Piece>,
    result_bytes: usize,
}

/// A driver and its front-end, connected to a device.
pub struct Driver {
    front_end: FrontEnd,
    ring: Ring,
    slots: Vec<Slot>,
    used: Vec<Used>,
    pieces: u16,
    patience: Duration,
}

impl Driver {
    /// Connects to a device and starts its first data queue.
    ///
    /// # Errors
    /// The back-end does not listen, does not answer in time, is no crypto device, or lacks required features; or
    /// this system has no memory or descriptors left.
    pub fn connect(options: &Options) -> Result<Self, DriverError> {
        let mut front_end = FrontEnd::connect(options)?;
        let ring = front_end.start(options)?;
        let slots = vec![Slot::default(); ring.memory.plan.slots.into()];
        let (pieces, patience) = (options.pieces(), options.patience);
        Ok(Self { front_end, ring, slots, used: Vec::with_capacity(64), pieces, patience })
    }

    /// The processes that work on requests: this one, and the device's if it is visible in this PID namespace.
    pub fn processes(&self) -> Vec<u32> {
        let device = self.front_end.device().filter(|device| *device != std::process::id());
        device.into_iter().chain([std::process::id()]).collect()
    }

    /// Creates a session and returns its number.
    ///
    /// # Errors
    /// [`DriverError::NoSession`] if the device refuses this set-up. Otherwise the back-end has disconnected, or
    /// breaks the protocol.
    pub fn create(&mut self, setup: &CryptoSetup) -> Result<u64, DriverError> {
        let create = CreateCryptoSession { form: CryptoForm::OperationFirst, setup: Some(setup.clone()) };
        match self.front_end.ask(Request::CreateCryptoSession(Box::new(create)), vec![])? {
            Some(Answer::CryptoSession(Some(number))) => Ok(number),
            Some(Answer::CryptoSession(None)) => Err(DriverError::NoSession),
            _ => Err(DriverError::Surprise),
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// The back-end has disconnected, refuses, or breaks the protocol.
    pub fn close(&mut self, number: u64) -> Result<(), DriverError> {
        self.front_end.tell(Request::CloseCryptoSession(number), vec![])
    }

    /// Writes a request to a slot, with room for a result of `result_bytes`. The request can be submitted any number
    /// of times.
    ///
    /// # Errors
    /// The request or its result is longer than [`Options`] allows.
    pub fn prepare(&mut self, slot: u16, request: &[u8], result_bytes: usize) -> Result<(), DriverError> {
        let plan = &self.ring.memory.plan;
        for (bytes, room) in [(request.len(), plan.request_bytes), (result_bytes, plan.result_bytes)] {
            if bytes > room {
                return Err(DriverError::TooLong { bytes, room });
            }
        }
        let (request_at, result_at) = (plan.request_at(slot), plan.result_at(slot));
        self.ring.memory.slice(request_at, request.len()).write(request);
        let mut writable = pieces(result_at, result_bytes, self.pieces);
        // The status lies apart, as in Linux's driver.
        writable.extend(pieces(result_at + result_bytes as u64, 1, 1));
        let readable = pieces(request_at, request.len(), self.pieces);
        self.slots[usize::from(slot)] = Slot { readable, writable, result_bytes };
        Ok(())
    }

    /// Makes the requests of these slots available, and kicks the device if it waits. None of them may be
    /// outstanding.
    ///
    /// # Errors
    /// The queue has no room.
    pub fn submit(&mut self, slots: impl IntoIterator<Item = u16>) -> Result<(), DriverError> {
        for slot in slots {
            let Slot { readable, writable, .. } = &self.slots[usize::from(slot)];
            let chain = Chain { readable, writable, cookie: slot.into() };
            if self.ring.queue.add_requests(&[chain]) != 1 {
                return Err(DriverError::Full);
            }
        }
        if self.ring.queue.needs_kick() {
            self.ring.kick.notify();
        }
        Ok(())
    }

    /// Waits until at least one request has completed, and appends all completed ones.
    ///
    /// # Errors
    /// No request completed in time, the device broke the ring, or its status is invalid.
    pub fn wait(&mut self, completed: &mut Vec<Completed>) -> Result<(), DriverError> {
        self.used.clear();
        let deadline = Instant::now() + self.patience;
        while self.ring.queue.reclaim(&mut self.used, 64)? == 0 {
            if !self.ring.queue.enable_calls() {
                self.sleep(deadline)?;
            }
            self.ring.queue.disable_calls();
        }
        self.complete(completed)
    }

    /// Appends the completed requests, if any, without waiting.
    ///
    /// # Errors
    /// The device broke the ring, or its status is invalid.
    pub fn take(&mut self, completed: &mut Vec<Completed>) -> Result<(), DriverError> {
        self.used.clear();
        self.ring.queue.reclaim(&mut self.used, 64)?;
        self.complete(completed)
    }

    fn complete(&self, completed: &mut Vec<Completed>) -> Result<(), DriverError> {
        for Used { cookie, written } in &self.used {
            // The cookie is this driver's own, not the device's.
            let slot = *cookie as u16;
            let Slot { result_bytes, .. } = self.slots[usize::from(slot)];
            let mut code = [0];
            self.ring
                .memory
                .slice(self.ring.memory.plan.result_at(slot) + result_bytes as u64, 1)
                .read(&mut code);
            let written = *written;
            let status = Status::from_code(code[0]);
            let status = status.ok_or(DriverError::Status { status: code[0], written })?;
            if status == Status::Ok && written as usize != result_bytes + 1 {
                return Err(DriverError::Status { status: code[0], written });
            }
            completed.push(Completed { slot, status, written });
        }
        Ok(())
    }

    fn sleep(&self, deadline: Instant) -> Result<(), DriverError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(DriverError::Silent(self.patience.as_millis()));
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.ring.call, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("wait for the device")(errno.into())),
        }
        self.ring.call.drain();
        Ok(())
    }

    /// The result in a slot.
    pub fn result(&self, slot: u16) -> Vec<u8> {
        let mut result = vec![0; self.slots[usize::from(slot)].result_bytes];
        self.ring.memory.slice(self.ring.memory.plan.result_at(slot), result.len()).read(&mut result);
        result
    }

    /// Submits one request and waits for it. No other request may be outstanding.
    ///
    /// # Errors
    /// The causes of [`Self::prepare`], [`Self::submit`] and [`Self::wait`].
    pub fn run(&mut self, request: &[u8], result_bytes: usize) -> Result<(Status, Vec<u8>), DriverError> {
        self.prepare(0, request, result_bytes)?;
        self.submit([0])?;
        let mut completed = Vec::new();
        self.wait(&mut completed)?;
        Ok((completed[0].status, self.result(0)))
    }
}
