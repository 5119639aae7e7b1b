//! The cables of this process.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::SharedFd;
use crate::in_memory::{InMemorySink, InMemorySource, QueueOptions, queue};

/// Frames that wait in each direction.
const SLOTS: u16 = 512;

/// By name. A cable is here while a port is at one of its ends.
static CABLES: Mutex<BTreeMap<String, Cable>> = Mutex::new(BTreeMap::new());

fn cables() -> MutexGuard<'static, BTreeMap<String, Cable>> {
    CABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queues of one end: from the other end, and to it.
pub(super) type Queues = (InMemorySource, InMemorySink);

type Cable = [Option<Plugged>; 2];

/// The state of an end with a port.
struct Plugged {
    waker: SharedFd,
    found: Found,
}

/// What happened at the other end since the last look, in this order.
#[derive(Default)]
pub(super) struct Found {
    /// The other end has gone.
    pub is_cut: bool,
    /// The queues to another end, which has come.
    pub queues: Option<Queues>,
}

/// A port's place at a cable, which becomes free when this is dropped.
#[derive(Debug)]
pub(super) struct End {
    cable: String,
    side: usize,
    waker: SharedFd,
}

impl End {
    /// Takes a free end. `waker`, an eventfd, is written when the other end comes or goes.
    ///
    /// # Errors
    /// Both ends are taken, or the memory of the queues cannot be made.
    pub fn plug_in(name: &str, waker: SharedFd) -> io::Result<Self> {
        let mut cables = cables();
        let cable = cables.entry(name.to_owned()).or_default();
        let Some(side) = cable.iter().position(Option::is_none) else {
            return Err(io::Error::other("two ports are at its ends already"));
        };
        let mut found = Found::default();
        if let Some(other) = &mut cable[1 - side] {
            let options = QueueOptions { slots: SLOTS, ..QueueOptions::default() };
            let ((to_other, from_this), (to_this, from_other)) = (queue(options)?, queue(options)?);
            found.queues = Some((from_other, to_other));
            other.found.queues = Some((from_this, to_this));
            wake(&other.waker);
        }
        cable[side] = Some(Plugged { waker: waker.clone(), found });
        Ok(End { cable: name.to_owned(), side, waker })
    }

    /// The descriptor that is readable when something has happened.
    pub fn waker(&self) -> &SharedFd {
        &self.waker
    }

    /// What has happened at the other end.
    pub fn look(&self) -> Found {
        let mut cables = cables();
        let place = cables.get_mut(&self.cable).and_then(|cable| cable[self.side].as_mut());
        place.map(|place| std::mem::take(&mut place.found)).unwrap_or_default()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut cables = cables();
        let Some(cable) = cables.get_mut(&self.cable) else { return };
        cable[self.side] = None;
        match &mut cable[1 - self.side] {
            Some(other) => {
                other.found = Found { is_cut: true, queues: None };
                wake(&other.waker);
            }
            None => drop(cables.remove(&self.cable)),
        }
    }
}

fn wake(waker: &SharedFd) {
    // A full counter wakes the other end too.
    let _ = rustix::io::write(waker.as_fd(), &1_u64.to_ne_bytes());
}
