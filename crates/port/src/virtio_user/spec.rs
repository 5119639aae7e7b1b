//! The syntax of a `virtio-user` port.
use super::options::LEAST_BUFFER_BYTES;
use super::{Pages, VirtioUserOptions};
use crate::spec::{Spec, SpecError};

impl TryFrom<Spec> for VirtioUserOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let defaults = VirtioUserOptions::new(spec.target);
        let queue_size = options.number("queue-size", 2..=32768u16)?.unwrap_or(defaults.queue_size);
        let read = VirtioUserOptions {
            server: options.switch("server", defaults.server)?,
            queue_pairs: options.number("queue-pairs", 1..=128u16)?.unwrap_or(defaults.queue_pairs),
            queue_size,
            buffers: options.number("buffers", 1..=32768u16)?.unwrap_or(queue_size),
            buffer_bytes: options
                .number("buffer-bytes", LEAST_BUFFER_BYTES..=65536)?
                .unwrap_or(defaults.buffer_bytes),
            packed: options.switch("packed", defaults.packed)?,
            in_order: options.switch("in-order", defaults.in_order)?,
            mergeable: options.switch("mergeable", defaults.mergeable)?,
            event_idx: options.switch("event-idx", defaults.event_idx)?,
            offloads: options.switch("offloads", defaults.offloads)?,
            mtu_bytes: options.number("mtu", 68..=65535u16)?,
            pages: match options.text("pages") {
                None => defaults.pages,
                Some(value) => match value.as_str() {
                    "small" => Pages::Small,
                    "2M" => Pages::Huge2M,
                    "1G" => Pages::Huge1G,
                    _ => {
                        let expected = "write small, 2M or 1G".to_owned();
                        return Err(SpecError::Value { key: "pages", value, expected });
                    }
                },
            },
            path: defaults.path,
        };
        options.finish("virtio-user")?;
        Ok(read)
    }
}
