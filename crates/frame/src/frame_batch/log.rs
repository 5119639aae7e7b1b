//! The log of deliveries of a batch's frames.
use deliveries::SenderLog;

use super::FrameBatch;

impl FrameBatch {
    /// The log in which the receivers of these frames are noted; `None` if deliveries are not noted.
    #[inline(always)]
    pub fn sender_log(&self) -> Option<&SenderLog> {
        self.log.as_ref()
    }

    /// The log of the sender, for noting the beginning of a burst.
    #[inline(always)]
    pub fn sender_log_mut(&mut self) -> Option<&mut SenderLog> {
        self.log.as_mut()
    }

    /// Sets the log for deliveries from now on.
    pub fn set_sender_log(&mut self, log: Option<SenderLog>) {
        self.log = log;
    }
}
