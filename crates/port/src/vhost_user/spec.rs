//! The syntax of a `vhost-user` port.
use memory::Backing;
use vhost_device::Role;

use super::options::{MAX_QUEUE_PAIRS, VhostUserOptions};
use crate::spec::{Spec, SpecError};

impl TryFrom<Spec> for VhostUserOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let defaults = VhostUserOptions::new(spec.target);
        let pairs = options.number("queue-pairs", 1..=MAX_QUEUE_PAIRS)?;
        let read = VhostUserOptions {
            role: if options.switch("server", true)? { Role::Server } else { Role::Client },
            queue_pairs: pairs.unwrap_or(defaults.queue_pairs),
            mtu: options.number("mtu", 68..=65535u16)?,
            mac: options.value("mac")?,
            packed: options.switch("packed", defaults.packed)?,
            in_order: options.switch("in-order", defaults.in_order)?,
            mergeable: options.switch("mergeable", defaults.mergeable)?,
            event_idx: options.switch("event-idx", defaults.event_idx)?,
            indirect: options.switch("indirect", defaults.indirect)?,
            offloads: options.switch("offloads", defaults.offloads)?,
            control_queue: options.switch("control-queue", defaults.control_queue)?,
            memory_bytes: options.size("memory", 1 << 20..=1 << 46)?.unwrap_or(defaults.memory_bytes),
            memory_backing: match options.text("memory-backing") {
                None => defaults.memory_backing,
                Some(value) => backing_of(&value).ok_or_else(|| SpecError::Value {
                    key: "memory-backing",
                    value,
                    expected: "write ram or any".into(),
                })?,
            },
            ..defaults
        };
        options.finish("vhost-user")?;
        Ok(read)
    }
}

/// Parses the value of `memory-backing=`.
fn backing_of(text: &str) -> Option<Backing> {
    match text {
        "ram" => Some(Backing::Ram),
        "any" => Some(Backing::Any),
        _ => None,
    }
}
