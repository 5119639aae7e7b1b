//! The options of a VDUSE port, and their syntax.
use vhost_device::DEFAULT_LIMIT_BYTES;
use vhost_device::vduse::{self, Driver, Name};

use crate::net::options::{FrontEnd, NetOptions};
use crate::spec::{Spec, SpecError};

/// A network device (VIRTIO 1.3 §5.1).
const NETWORK: u32 = 1;

/// The options of a `vduse:` port. [`VduseOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct VduseOptions {
    /// The device's name in the kernel.
    pub name: Name,
    /// The driver that the device is given to; `None` if the operator adds the device to the bus.
    pub driver: Option<Driver>,
    /// The most descriptors of a queue.
    pub queue_size: u16,
    /// The network device.
    pub net: NetOptions,
    /// Bytes of memory that a driver may share.
    pub memory_bytes: u64,
}

impl VduseOptions {
    /// A network interface of this kernel, with everything offered.
    pub fn new(name: Name) -> Self {
        VduseOptions {
            name,
            driver: Some(Driver::Kernel),
            queue_size: 256,
            net: NetOptions::new(FrontEnd::Kernel),
            memory_bytes: DEFAULT_LIMIT_BYTES,
        }
    }

    /// The options of the kernel's device.
    pub(super) fn device(&self) -> vduse::VduseOptions {
        vduse::VduseOptions {
            name: self.name.clone(),
            device_id: NETWORK,
            queue_size: self.queue_size,
            driver: self.driver,
            memory_bytes: self.memory_bytes,
        }
    }
}

impl TryFrom<Spec> for VduseOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let name = Name::new(&spec.target).ok_or_else(|| SpecError::Value {
            key: "vduse",
            value: spec.target.clone(),
            expected: "write a name of 1 to 64 letters, digits and -_. for the kernel's device".into(),
        })?;
        if let Some(value) = options.text("queue-pairs").filter(|value| value != "1") {
            let expected =
                "write 1: the kernel takes no control queue, without which a driver has one pair".into();
            return Err(SpecError::Value { key: "queue-pairs", value, expected });
        }
        let defaults = VduseOptions::new(name);
        let read = VduseOptions {
            driver: match options.text("driver").as_deref() {
                None | Some("virtio_vdpa") => Some(Driver::Kernel),
                Some("vhost_vdpa") => Some(Driver::Vhost),
                Some("none") => None,
                Some(value) => {
                    let expected = "write virtio_vdpa, vhost_vdpa or none".into();
                    return Err(SpecError::Value { key: "driver", value: value.into(), expected });
                }
            },
            queue_size: queue_size(options.number("queue-size", 2..=32768u16)?, defaults.queue_size)?,
            net: defaults.net.read(&mut options)?,
            memory_bytes: options.size("memory", 1 << 27..=1 << 46)?.unwrap_or(defaults.memory_bytes),
            ..defaults
        };
        options.finish("vduse")?;
        Ok(read)
    }
}

fn queue_size(written: Option<u16>, default: u16) -> Result<u16, SpecError> {
    match written {
        Some(size) if !size.is_power_of_two() => Err(SpecError::Value {
            key: "queue-size",
            value: size.to_string(),
            expected: "write a power of two".into(),
        }),
        written => Ok(written.unwrap_or(default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<VduseOptions, SpecError> {
        text.parse::<Spec>().and_then(VduseOptions::try_from)
    }

    #[test]
    fn options_are_read() {
        let all =
            read("vduse:net0,driver=vhost_vdpa,queue-size=1024,mtu=9000,packed=on,offloads=off").unwrap();
        assert_eq!((all.name.as_str(), all.driver, all.queue_size), ("net0", Some(Driver::Vhost), 1024));
        assert_eq!((all.net.mtu, all.net.packed, all.net.offloads), (Some(9000), true, false));
        assert_eq!(read("vduse:a,driver=none").unwrap().driver, None);
        assert_eq!(read("vduse:a,queue-pairs=1").unwrap().net.queue_pairs, 1);
        assert_eq!(read("vduse:a").unwrap().driver, Some(Driver::Kernel));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (text, said) in [
            ("vduse:a/b", "letters"),
            ("vduse:control", "letters"),
            ("vduse:a,driver=vfio", "virtio_vdpa, vhost_vdpa or none"),
            ("vduse:a,queue-size=100", "power of two"),
            ("vduse:a,mtu=67", "68 to 65535"),
            ("vduse:a,queue-pairs=2", "the kernel takes no control queue"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
