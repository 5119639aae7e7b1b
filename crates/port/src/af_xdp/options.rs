//! The options of an AF_XDP port.
use std::str::FromStr;

use crate::spec::{Spec, SpecError};

/// The most queue pairs of a port; no card has more queues.
pub const MAX_QUEUE_PAIRS: u16 = 256;

/// Where the redirecting program runs, and whether the kernel copies frames. The words are those of Open vSwitch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpModeOption {
    /// The first of the other modes that works.
    #[default]
    BestEffort,
    /// The program runs in the driver; the card reads and writes our memory.
    NativeWithZeroCopy,
    /// The program runs in the driver; the kernel copies each frame.
    Native,
    /// The program runs in the network stack; the kernel copies each frame.
    Generic,
}

impl FromStr for XdpModeOption {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "best-effort" => XdpModeOption::BestEffort,
            "native-with-zerocopy" => XdpModeOption::NativeWithZeroCopy,
            "native" => XdpModeOption::Native,
            "generic" => XdpModeOption::Generic,
            _ => return Err("write best-effort, native-with-zerocopy, native or generic"),
        })
    }
}

/// `af-xdp:IFACE` with `queue-pairs=N`, `start-queue=N`, `queue-size=N`, `xdp-mode=MODE`, `busy-poll=on|off` and
/// `driver=NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpOptions {
    /// The interface. Frames of the used queues no longer reach the network stack.
    pub interface: String,
    /// The number of the interface's queues to use.
    pub queue_pairs: u16,
    /// The first queue to use.
    pub start_queue: u16,
    /// Frames that each ring holds.
    pub queue_size: u16,
    /// How frames reach this process.
    pub xdp_mode: XdpModeOption,
    /// Whether workers poll the interface's queues themselves, without its interrupts.
    pub busy_poll: bool,
    /// The only driver whose interfaces are opened, such as `veth`; `None` for all drivers.
    pub driver: Option<String>,
}

impl AfXdpOptions {
    /// The first queue of an interface, in the first mode that works.
    pub fn new(interface: impl Into<String>) -> Self {
        AfXdpOptions {
            interface: interface.into(),
            queue_pairs: 1,
            start_queue: 0,
            queue_size: 2048,
            xdp_mode: XdpModeOption::BestEffort,
            busy_poll: false,
            driver: None,
        }
    }
}

impl TryFrom<Spec> for AfXdpOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let usual = AfXdpOptions::new(spec.target);
        let queue_size = options.number("queue-size", 64..=32_768u16)?.unwrap_or(usual.queue_size);
        if !queue_size.is_power_of_two() {
            return Err(SpecError::Value {
                key: "queue-size",
                value: queue_size.to_string(),
                expected: "write a power of two from 64 to 32768".into(),
            });
        }
        let read = AfXdpOptions {
            queue_pairs: options.number("queue-pairs", 1..=MAX_QUEUE_PAIRS)?.unwrap_or(usual.queue_pairs),
            start_queue: options.number("start-queue", 0..=MAX_QUEUE_PAIRS - 1)?.unwrap_or(usual.start_queue),
            queue_size,
            xdp_mode: options.value("xdp-mode")?.unwrap_or(usual.xdp_mode),
            busy_poll: options.switch("busy-poll", usual.busy_poll)?,
            driver: options.text("driver"),
            ..usual
        };
        options.finish("af-xdp")?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AfXdpOptions, SpecError> {
        text.parse::<Spec>().and_then(AfXdpOptions::try_from)
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("af-xdp:eth0").unwrap(), AfXdpOptions::new("eth0"));
        let all =
            "af-xdp:eth0,queue-pairs=4,start-queue=2,queue-size=512,xdp-mode=native,busy-poll=on,driver=veth";
        let expected = AfXdpOptions {
            queue_pairs: 4,
            start_queue: 2,
            queue_size: 512,
            xdp_mode: XdpModeOption::Native,
            busy_poll: true,
            driver: Some("veth".to_owned()),
            ..AfXdpOptions::new("eth0")
        };
        assert_eq!(read(all).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        for (text, said) in [
            ("af-xdp:e,queue-pairs=0", "1 to 256"),
            ("af-xdp:e,start-queue=256", "0 to 255"),
            ("af-xdp:e,queue-size=100", "power of two"),
            ("af-xdp:e,xdp-mode=drv", "native-with-zerocopy"),
            ("af-xdp:e,busy-poll=64", "on or off"),
            ("af-xdp:e,mtu=9000", "no option 'mtu'"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
