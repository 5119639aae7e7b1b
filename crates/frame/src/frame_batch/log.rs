//! Where it is noted whom the frames of a batch are delivered to.
use deliveries::SenderLog;

use super::FrameBatch;

impl FrameBatch {
    /// Where to note the receivers of these frames; `None` if deliveries are not noted.
    #[inline(always)]
    pub fn sender_log(&self) -> Option<&SenderLog> {
        self.log.as_ref()
    }

    /// The log of the sender, to note the beginning of a burst.
    #[inline(always)]
    pub fn sender_log_mut(&mut self) -> Option<&mut SenderLog> {
        self.log.as_mut()
    }

    /// Notes it there from now on.
    pub fn set_sender_log(&mut self, log: Option<SenderLog>) {
        self.log = log;
    }
}
