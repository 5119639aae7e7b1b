//! The file in which a port notes its deliveries for the next process.
use std::io;
use std::sync::Arc;

use deliveries::{Area, DeliveryFile};
use vhost_device::{FREE_TOKENS, Log, watch_memory};
use vhost_user::SharedFd;

use crate::{PortContext, PortState, Token};

/// The token for a truncation of the file.
pub(crate) const DELIVERIES: Token = Token(FREE_TOKENS.start);

/// The place of the file in [`PortState::files`], as a field of [`PortState::words`].
const FIELD: &str = "deliveries";

/// The file, or nothing if it cannot be made. Without it, frames may be delivered twice after a crash.
#[derive(Default)]
pub(crate) struct Deliveries(Option<DeliveryFile>);

impl Deliveries {
    /// Takes the result of opening the file.
    pub fn of(file: io::Result<Option<DeliveryFile>>, log: &Log, context: &mut dyn PortContext) -> Self {
        let watched = file.and_then(|file| {
            if let Some(file) = &file {
                watch_memory(DELIVERIES, file.memory(), context)?;
            }
            Ok(file)
        });
        Deliveries(watched.unwrap_or_else(|error| {
            let what = "deliveries cannot be noted, so a frame may come twice if this switch crashes";
            log.log(context, format_args!("{what}: {error}"));
            None
        }))
    }

    /// The words of the file, for the queues of the port.
    pub fn area(&self) -> Option<&Arc<Area>> {
        self.0.as_ref().map(DeliveryFile::area)
    }

    /// The file and the offset behind the words, for more that must outlive the process.
    pub fn behind(&self) -> Option<(SharedFd, u64)> {
        let file = self.0.as_ref()?;
        Some((SharedFd::new(Arc::clone(file.descriptor())), file.behind()))
    }

    /// If the file was truncated, notes deliveries in memory instead, which is lost in a crash.
    pub fn check(&self, log: &Log, context: &mut dyn PortContext) {
        if let Some(file) = &self.0
            && file.memory().take_loss().is_some()
        {
            let what = format!(
                "{} was truncated by another program: a frame may come twice if this switch crashes, until the port is \
                 started again",
                file.path().display()
            );
            log.log(context, what);
        }
    }

    /// Watches the file again, after an interruption.
    pub fn watch_again(&self, log: &Log, context: &mut dyn PortContext) {
        if let Some(file) = &self.0
            && let Err(error) = watch_memory(DELIVERIES, file.memory(), context)
        {
            log.log(context, format_args!("a truncation of {} goes unseen: {error}", file.path().display()));
        }
    }

    /// Adds the file to the state for another process.
    pub fn put(&self, state: &mut PortState) {
        if let Some(file) = &self.0 {
            state.words[FIELD] = state.files.len().into();
            state.files.push(SharedFd::new(Arc::clone(file.descriptor())));
        }
    }

    /// The file that another process has handed over.
    pub fn come_along(state: &PortState) -> Option<io::Result<SharedFd>> {
        let at = state.words.get(FIELD)?.as_u64()?;
        let file = usize::try_from(at).ok().and_then(|at| state.files.get(at)).cloned();
        Some(file.ok_or_else(|| io::Error::other(format!("descriptor {at} did not come along"))))
    }

    /// Closes the file without removing it, because another process continues with it.
    pub fn leave(&mut self) {
        if let Some(file) = self.0.take() {
            file.leave();
        }
    }
}
