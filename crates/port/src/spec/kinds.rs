//! The kinds of port.
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Spec, SpecError};
use crate::af_xdp::{AfXdp, AfXdpOptions};
use crate::patch::{Patch, PatchOptions};
use crate::pcap::{Pcap, PcapOptions};
use crate::tap::{Tap, TapOptions};
use crate::vduse::{VduseOptions, VdusePort};
use crate::vhost_user::{VhostUser, VhostUserOptions};
use crate::virtio_user::{VirtioUser, VirtioUserOptions};
use crate::{CachePolicy, Port, PortError};

/// A port that is described and not yet made.
#[derive(Clone, Debug)]
pub enum PortSpec {
    /// `vhost-user:PATH`: the device of a guest.
    VhostUser(VhostUserOptions),
    /// `virtio-user:PATH`: the driver for a device of another program.
    VirtioUser(VirtioUserOptions),
    /// `vduse:NAME`: a device for the kernel's own driver.
    Vduse(VduseOptions),
    /// `tap:NAME`: the kernel's network stack.
    Tap(TapOptions),
    /// `af-xdp:IFACE`: a network card, without the kernel's network stack.
    AfXdp(AfXdpOptions),
    /// `pcap:FILE`: frames from one file, and to another.
    Pcap(PcapOptions),
    /// `patch:CABLE`: the other port of the switch that names this cable.
    Patch(PatchOptions),
    /// A [`Kind`] of another crate.
    Other(Described),
}

const KINDS: &str =
    "vhost-user:PATH, virtio-user:PATH, vduse:NAME, tap:NAME, af-xdp:IFACE, pcap:FILE, patch:CABLE";

/// A kind of port that another crate implements.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The syntax of a port of this kind, with its target: `vhost-user:PATH`.
    pub form: &'static str,
    /// Reads a port of this kind. Must not open anything.
    pub read: fn(Spec) -> Result<Described, SpecError>,
}

impl Kind {
    fn name(&self) -> &str {
        self.form.split(':').next().unwrap_or_default()
    }
}

/// A port of a [`Kind`] that was read and is not yet made.
#[derive(Clone)]
pub struct Described(Arc<Build>);

type Build = dyn Fn() -> Result<Box<dyn Port>, PortError> + Send + Sync;

impl Described {
    /// `build` makes the port. The port opens nothing before it is started.
    pub fn new(build: impl Fn() -> Result<Box<dyn Port>, PortError> + Send + Sync + 'static) -> Self {
        Described(Arc::new(build))
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Described")
    }
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse::<Spec>()?.try_into()
    }
}

impl TryFrom<Spec> for PortSpec {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        PortSpec::of(spec, &[])
    }
}

impl PortSpec {
    /// Reads a port of this crate's kinds, or of `others`.
    ///
    /// # Errors
    /// The kind is unknown, or does not take the target or an option.
    pub fn of(spec: Spec, others: &[Kind]) -> Result<Self, SpecError> {
        Ok(match spec.kind.as_str() {
            "vhost-user" => PortSpec::VhostUser(spec.try_into()?),
            "virtio-user" => PortSpec::VirtioUser(spec.try_into()?),
            "vduse" => PortSpec::Vduse(spec.try_into()?),
            "tap" => PortSpec::Tap(spec.try_into()?),
            "af-xdp" => PortSpec::AfXdp(spec.try_into()?),
            "pcap" => PortSpec::Pcap(spec.try_into()?),
            "patch" => PortSpec::Patch(spec.try_into()?),
            name => match others.iter().find(|kind| kind.name() == name) {
                Some(kind) => PortSpec::Other((kind.read)(spec)?),
                None => {
                    let forms = std::iter::once(KINDS).chain(others.iter().map(|kind| kind.form));
                    let known = forms.collect::<Vec<_>>().join(", ");
                    return Err(SpecError::UnknownKind { kind: spec.kind, known });
                }
            },
        })
    }

    /// Fixes the cache policy of the port's device queues. Kinds of port without such queues ignore it.
    pub fn set_cache_policy(&mut self, policy: CachePolicy) {
        match self {
            PortSpec::VhostUser(options) => options.net.cache_policy = policy,
            PortSpec::Vduse(options) => options.net.cache_policy = policy,
            _ => {}
        }
    }

    /// Makes the port. It opens nothing before it is started.
    ///
    /// # Errors
    /// An option of a vhost-user, virtio-user or vduse port is outside its range ([`VhostUser::new`],
    /// [`VirtioUser::new`], [`VdusePort::new`]), or the kind is another crate's and refuses the port. The other kinds never fail here.
    pub fn build(self) -> Result<Box<dyn Port>, PortError> {
        Ok(match self {
            PortSpec::VhostUser(options) => Box::new(VhostUser::new(options)?),
            PortSpec::VirtioUser(options) => Box::new(VirtioUser::new(options)?),
            PortSpec::Vduse(options) => Box::new(VdusePort::new(options)?),
            PortSpec::Tap(options) => Box::new(Tap::new(options)),
            PortSpec::AfXdp(options) => Box::new(AfXdp::new(options)),
            PortSpec::Pcap(options) => Box::new(Pcap::new(options)),
            PortSpec::Patch(options) => Box::new(Patch::new(options)),
            PortSpec::Other(Described(build)) => return build(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_reads_its_own_options() {
        for text in [
            "vhost-user:/tmp/a,server=off,queue-pairs=2,mtu=9000,mac=52:54:00:00:00:01,packed=off,in-order=off",
            "vhost-user:/tmp/a,mergeable=off,event-idx=off,indirect=off,offloads=off",
            "virtio-user:/tmp/a,server=on,queue-size=512,buffers=100,pages=2M,buffer-bytes=4096",
            "vduse:net0,packed=on,driver=none",
            "tap:tap0,queue-pairs=2",
            "af-xdp:eth0,queue-pairs=2,xdp-mode=native",
            "patch:a=b",
        ] {
            assert!(text.parse::<PortSpec>().map(|spec| spec.build().is_ok()).unwrap(), "{text}");
        }
        for (text, said) in [
            ("vhost-user:/tmp/a,queue-pairs=128", "1 to 127"),
            ("vhost-user:/tmp/a,speed=9", "no option 'speed'"),
            ("virtio-user:/tmp/a,pages=4K", "small, 2M or 1G"),
            ("patch:a,mtu=1500", "no option 'mtu'"),
            ("virtio:/tmp/a", "virtio-user:PATH"),
        ] {
            let error = text.parse::<PortSpec>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
