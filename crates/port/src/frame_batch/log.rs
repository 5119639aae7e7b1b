//! Where it is noted whom the frames of a batch are delivered to.
use super::FrameBatch;
use crate::deliveries::SenderLog;

impl FrameBatch {
    /// Where to note whom these frames are delivered to; `None` if nobody does.
    #[inline(always)]
    pub(crate) fn sender_log(&self) -> Option<&SenderLog> {
        self.log.as_deref()
    }

    #[inline(always)]
    pub(crate) fn sender_log_mut(&mut self) -> Option<&mut SenderLog> {
        self.log.as_deref_mut()
    }

    /// Notes it there from now on.
    pub(crate) fn set_sender_log(&mut self, log: Option<SenderLog>) {
        self.log = log.map(Box::new);
    }
}
