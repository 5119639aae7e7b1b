//! Hands a device from one process to another: its open file, and the positions of its rings.
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use linux::vduse::Device as KernelDevice;
use serde::{Deserialize, Serialize};
use vhost_user::vring::{RingLayout, VringBase};
use virtio::Features;

use super::session::Bases;
use super::{Vduse, file_of};
use crate::device::Device;
use crate::tokens::{LINK, MEMORY, PEER};
use crate::{Context as _, DeviceError, HandOverState, Interest, watch_memory};

/// A device in words. The open file is the first of [`HandOverState::files`].
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Words {
    name: String,
    made: Option<String>,
    is_packed: bool,
    /// The positions of rings as in SET_VRING_BASE, by their index.
    bases: BTreeMap<usize, u32>,
}

impl Words {
    fn bases(&self) -> Bases {
        let layout = if self.is_packed { RingLayout::Packed } else { RingLayout::Split };
        let bases = self
            .bases
            .iter()
            .filter_map(|(index, base)| VringBase::from_wire(layout, *base).map(|base| (*index, base)));
        Bases::HandedOver(bases.collect())
    }
}

impl<D: Device> Vduse<D> {
    /// Stops and returns the state that another process needs to continue. The state does not change until
    /// [`Vduse::leave`] or [`Vduse::resume`] is called.
    ///
    /// # Errors
    /// The device is not open, or its state cannot be written. [`Vduse::resume`] must be called then.
    pub fn hand_over(&mut self, context: &mut D::Context<'_>) -> Result<HandOverState, DeviceError> {
        self.stands_still = true;
        let failed = |why: &dyn std::fmt::Display| {
            let what = format!("hand {} over to another process", self.shared.log.name());
            DeviceError::new(what, why, "start the new switch without --take-over")
        };
        for token in [LINK, PEER, MEMORY] {
            context.unwatch(token);
        }
        let Some(session) = &mut self.session else { return Err(failed(&"it is not open")) };
        let words = Words {
            name: self.options.name.as_str().to_owned(),
            made: self.made.clone(),
            is_packed: session.engine.features.contains(Features::RING_PACKED),
            bases: session.park(context).into_iter().map(|(index, base)| (index, base.to_wire())).collect(),
        };
        let words = serde_json::to_value(words).map_err(|error| failed(&error))?;
        Ok(HandOverState { words, files: vec![file_of(session)] })
    }

    /// Continues after [`Vduse::hand_over`], because the other process did not.
    pub fn resume(&mut self, context: &mut D::Context<'_>) {
        self.stands_still = false;
        let Some(session) = &mut self.session else { return context.after(LINK, super::RETRY_INTERVAL) };
        let bases = Bases::HandedOver(session.park(context));
        let went_on = session.start_again(&bases, context);
        let watched = context.watch(PEER, &file_of(session), Interest::Readable).and_then(|()| {
            self.memory.as_ref().map_or(Ok(()), |memory| watch_memory(MEMORY, memory, context))
        });
        if let Err(refusal) = went_on {
            self.shared.log.log(context, refusal);
        }
        if let Err(error) = watched {
            self.shared.log.log(context, format_args!("requests of the kernel go unseen: {error}"));
        }
        if let Some(change) = &self.change
            && let Err(error) = context.watch(LINK, change.done().shared(), Interest::Readable)
        {
            self.shared.log.log(context, error);
        }
    }

    /// Continues the device of another process from its state, instead of [`Vduse::start`].
    ///
    /// # Errors
    /// The state cannot be read, or the device has other options than in the other process.
    pub fn take_over(
        &mut self,
        state: HandOverState,
        context: &mut D::Context<'_>,
    ) -> Result<(), DeviceError> {
        let failed = |why: &dyn std::fmt::Display| {
            let remedy = "give this port the same options as in the running switch, which continues";
            DeviceError::new(format!("continue with {}", self.shared.log.name()), why, remedy)
        };
        let words: Words = serde_json::from_value(state.words).map_err(|error| failed(&error))?;
        if words.name != self.options.name.as_str() {
            return Err(failed(&format_args!("it is {} in the running switch", words.name)));
        }
        let file = state.files.first().ok_or_else(|| failed(&"the device's file did not come along"))?;
        let file = file.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
        self.memory = Some(self.new_memory(context)?);
        self.made = words.made.clone();
        let kernel = Arc::new(Arc::new(KernelDevice::adopt(file)));
        self.serve(kernel, Some(&words.bases()), context)?;
        if self.made.is_none() {
            self.add(context);
        }
        Ok(())
    }

    /// Gives up all that [`Vduse::hand_over`] has passed to another process.
    pub fn leave(&mut self) {
        self.session = None;
    }
}
