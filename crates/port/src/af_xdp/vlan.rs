//! VLAN tags. AF_XDP passes on only the bytes of a frame. A tag that the kernel or the card keeps elsewhere is lost,
//! and the frame then looks untagged.
//!
//! A card strips tags until it is told not to (`rx-vlan-offload`). A software interface has no such option: the
//! sender keeps the tag outside of the frame (`tx-vlan-offload` of a veth's other end), or the stack removed it on
//! the way. For such interfaces, an XDP program in native mode can put the tag back
//! ([`linux::xdp::Redirect::load_keeping_tags`]).
use linux::interface::Interface;

/// The kernel's names of `rx-vlan-offload` and of the same for outer tags (802.1ad).
const STRIPPING: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Keeps an interface's stripping of VLAN tags off until this is dropped.
#[derive(Debug)]
pub(super) struct Stripping {
    interface: Interface,
    index: u32,
    was_on: Vec<&'static str>,
}

impl Stripping {
    /// Switches stripping off where it is on. `None` if there is nothing to restore.
    pub fn off(name: &str) -> Option<Self> {
        let interface = Interface::named(name).ok()?;
        let index = interface.index().ok()?;
        let was_on = interface.switch_features(&STRIPPING, false).ok()?;
        (!was_on.is_empty()).then_some(Stripping { interface, index, was_on })
    }
}

impl Drop for Stripping {
    fn drop(&mut self) {
        // Another one may have the name by now. An interface that was removed has nothing to restore.
        if self.interface.index().is_ok_and(|index| index == self.index) {
            let _ = self.interface.switch_features(&self.was_on, true);
        }
    }
}

/// Whether the interface has no device behind it: a veth, a bridge, a macvlan.
pub(super) fn is_software(interface: &Interface) -> bool {
    interface.driver().is_ok_and(|(_, bus)| bus.is_empty())
}

/// A warning that tags are lost because no program puts them back, and what the user can do.
pub(super) fn lost_tags(name: &str, interface: &Interface, is_software: bool) -> Option<String> {
    let (what, remedy) = match interface.driver() {
        Ok((driver, _)) if driver == "veth" => (
            "the other end of this veth may leave VLAN tags beside its frames",
            "use xdp-mode=native or best-effort on Linux 6.8 or later with BTF, or run there: ethtool -K IFACE txvlan off \
             tx-vlan-stag-hw-insert off"
                .to_owned(),
        ),
        _ if is_software => (
            "the network stack takes VLAN tags out of frames before they get here",
            "give the port the interface below it".to_owned(),
        ),
        _ if interface.features_on(&STRIPPING).is_ok_and(|on| on.is_empty()) => return None,
        _ => (
            "its driver strips VLAN tags, and could not be told not to",
            format!("ethtool -K {name} rxvlan off"),
        ),
    };
    Some(format!("{what}: tagged frames come in untagged, and mix with untagged ones; {remedy}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use linux::namespace::{UnshareFlags, unshare};

    use super::*;

    /// On a veth, which has such a switch, though it is a dummy.
    #[test]
    fn stripping_is_switched_off_and_put_back_as_it_was() {
        let tried = std::thread::spawn(|| {
            unshare(UnshareFlags::NEWNET).ok()?;
            let run = |line: &str| {
                let mut words = line.split_whitespace();
                assert!(
                    Command::new(words.next().unwrap()).args(words).status().unwrap().success(),
                    "{line}"
                );
            };
            run("ip link add v0 type veth peer name v1");
            let on = || Interface::named("v0").unwrap().features_on(&STRIPPING).unwrap();
            for was_on in [&STRIPPING[..], &STRIPPING[1..]] {
                assert_eq!(on(), was_on);
                let off = Stripping::off("v0").unwrap();
                assert!(on().is_empty());
                assert!(Stripping::off("v0").is_none(), "it is off already");
                drop(off);
                assert_eq!(on(), was_on);
                Interface::named("v0").unwrap().switch_features(&STRIPPING[..1], false).unwrap();
            }
            // Another interface with the same name keeps what it has.
            let off = Stripping::off("v0").unwrap();
            run("ip link delete v0");
            run("ip link add v0 type veth peer name v1");
            Interface::named("v0").unwrap().switch_features(&STRIPPING, false).unwrap();
            drop(off);
            assert!(on().is_empty());
            assert!(Stripping::off("none-such").is_none());
            Some(())
        });
        assert!(tried.join().unwrap().is_some() || !rustix::process::geteuid().is_root());
    }
}
