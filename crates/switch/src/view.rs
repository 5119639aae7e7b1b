//! A running switch in the hands of its operator: to look at, and to change.
use std::sync::mpsc::{Receiver, channel};

use port::Port;

use crate::changes::ChangeError;
use crate::control::Control;
use crate::copies::{Copied, CopiesId};
use crate::{PortOptions, RingReport, Snapshot};

/// A running switch.
pub struct View<'a> {
    pub(crate) control: &'a mut Control,
}

impl View<'_> {
    /// How it stands.
    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot(None)
    }

    /// How each queue stands. Workers wait for this no longer than for each other.
    pub fn rings(&self) -> Vec<RingReport> {
        self.control.rings()
    }

    /// Adds a port that learns, and starts it. One that cannot start is not there afterwards.
    pub fn add_port(
        &mut self,
        name: &str,
        port: Box<dyn Port>,
        options: PortOptions,
    ) -> Result<(), ChangeError> {
        self.control.add_port(name, port, options)
    }

    /// Ends a port and forgets it.
    pub fn remove_port(&mut self, name: &str) -> Result<(), ChangeError> {
        self.control.remove_port(name)
    }

    /// Other limits hold for a port.
    pub fn set_port_options(&mut self, name: &str, options: PortOptions) -> Result<(), ChangeError> {
        self.control.set_port_options(name, options)
    }

    /// Copies all that passes a port, in both directions; of queues that come later too.
    pub fn copy_port(&mut self, name: &str) -> Result<(CopiesId, Receiver<Copied>), ChangeError> {
        let (feed, copied) = channel();
        Ok((self.control.copy_port(name, feed)?, copied))
    }

    /// Ends that.
    pub fn end_copies(&mut self, id: CopiesId) {
        self.control.end_copies(id);
    }

    /// Copies what a port sends and receives to another, which does nothing else from now on.
    pub fn mirror(&mut self, from: &str, to: &str) -> Result<(), ChangeError> {
        self.control.mirror(from, to)
    }
}
