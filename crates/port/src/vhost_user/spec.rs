//! The syntax of a `vhost-user` port.
use memory::Backing;
use vhost_device::Role;

use super::options::{MAX_QUEUE_PAIRS, VhostUserOptions};
use crate::net::options::NetOptions;
use crate::spec::{Spec, SpecError};

impl TryFrom<Spec> for VhostUserOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let defaults = VhostUserOptions::new(spec.target);
        let queue_pairs = options.number("queue-pairs", 1..=MAX_QUEUE_PAIRS)?;
        let control_queue = options.switch("control-queue", defaults.net.control_queue)?;
        let net = defaults.net.read(&mut options)?;
        let read = VhostUserOptions {
            role: if options.switch("server", true)? { Role::Server } else { Role::Client },
            net: NetOptions { queue_pairs: queue_pairs.unwrap_or(net.queue_pairs), control_queue, ..net },
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
