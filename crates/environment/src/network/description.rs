use std::fmt;

use super::{GuestNic, Layer};

/// The place where the near end of a path runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NearEnd {
    /// The network namespace in which the path begins.
    Host,
    /// A container that joins this namespace.
    Container,
    /// A guest with this network interface.
    Guest(GuestNic),
}

/// The description of a path: all that is needed to start it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathDescription {
    /// The place where the near end runs.
    pub near: NearEnd,
    /// The layers between the ends, from the near end to the far end.
    pub layers: Vec<Layer>,
}

impl PathDescription {
    /// Every path that is compared, in the order in which they are shown: each path comes after the path to which it
    /// adds one part.
    pub fn all() -> Vec<Self> {
        use Layer::*;
        let of = |near, paths: &[&[Layer]]| -> Vec<Self> {
            paths.iter().map(|layers| PathDescription { near, layers: layers.to_vec() }).collect()
        };
        let mut all = of(
            NearEnd::Host,
            &[
                &[Loopback],
                &[Veth],
                &[Veth, Bridge],
                &[Veth, Bridge, Nftables],
                &[Veth, Bridge, Nftables, ConnectionTracking],
                &[Veth, Bridge, Nftables, ConnectionTracking, Vxlan],
                &[Veth, Macvlan],
                &[Switch],
            ],
        );
        all.extend(of(NearEnd::Container, &[&[Veth], &[Veth, Bridge], &[Switch]]));
        let guest = |nic, layers| of(NearEnd::Guest(nic), &[layers]);
        all.extend(guest(GuestNic::E1000, &[Tap]));
        all.extend(guest(GuestNic::Virtio, &[Tap]));
        all.extend(guest(GuestNic::Virtio, &[Veth, Bridge]));
        all.extend(guest(GuestNic::VhostNet, &[Tap]));
        all.extend(guest(GuestNic::VhostNet, &[Veth, Macvtap]));
        all.extend(guest(GuestNic::VhostUser, &[Switch]));
        all.extend(guest(GuestNic::VhostUserPacked, &[Switch]));
        all.extend(guest(GuestNic::VhostUser, &[OvsDpdk]));
        all
    }

    /// The path over a card that is assigned to a guest, if there is a card.
    pub fn over_card() -> Self {
        PathDescription { near: NearEnd::Guest(GuestNic::Vfio), layers: vec![Layer::Wire] }
    }

    /// The paths over devices of the kernel without TAPs, if the kernel has VDUSE for this user.
    pub fn over_vduse() -> [Self; 3] {
        [NearEnd::Host, NearEnd::Container, NearEnd::Guest(GuestNic::Vdpa)]
            .map(|near| PathDescription { near, layers: vec![Layer::Vduse] })
    }

    /// Whether the path uses something that exists only once, so that only one run at a time can build it.
    pub fn is_exclusive(&self) -> bool {
        self.layers.contains(&Layer::Wire)
    }

    /// The names of the path's parts.
    pub fn pieces(&self) -> Vec<String> {
        let near: &[&str] = match self.near {
            NearEnd::Host => &[],
            NearEnd::Container => &["container"],
            NearEnd::Guest(nic) => nic.pieces(),
        };
        let near = near.iter().map(|piece| (*piece).to_owned());
        near.chain(self.layers.iter().map(Layer::to_string)).collect()
    }

    /// The path's name within metrics.
    pub fn name(&self) -> String {
        self.pieces().join("_")
    }

    /// The path with one part less: without its container or guest, or else without its last layer.
    pub fn adds_to(&self) -> Option<Self> {
        let layers = self.layers.clone();
        match (self.near, &self.layers[..]) {
            // Without its guest the path has no near end.
            (NearEnd::Guest(_), [Layer::Tap | Layer::OvsDpdk | Layer::Wire] | [.., Layer::Macvtap]) => None,
            (NearEnd::Container | NearEnd::Guest(_), _) => {
                Some(PathDescription { near: NearEnd::Host, layers })
            }
            (NearEnd::Host, [all_but_one @ .., _]) if !all_but_one.is_empty() => {
                Some(PathDescription { near: NearEnd::Host, layers: all_but_one.to_vec() })
            }
            (NearEnd::Host, _) => None,
        }
    }
}

impl fmt::Display for PathDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pieces().join(" + "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_rung_stands_behind_the_one_it_adds_to() {
        let all = PathDescription::all();
        for (place, path) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other.name() != path.name()), "{path}");
            if let Some(below) = path.adds_to() {
                assert!(all[..place].contains(&below), "{path} adds to {below}");
            }
        }
        let packed = all.iter().find(|path| path.near == NearEnd::Guest(GuestNic::VhostUserPacked)).unwrap();
        assert_eq!(
            (packed.name().as_str(), packed.to_string().as_str()),
            ("guest_vhost-user_packed_switch", "guest + vhost-user + packed + switch")
        );
        assert_eq!(packed.adds_to().map(|below| below.name()).as_deref(), Some("switch"));
        let [host, container, guest] = PathDescription::over_vduse();
        assert_eq!((guest.name().as_str(), guest.adds_to().as_ref()), ("guest_vdpa_vduse", Some(&host)));
        assert_eq!((container.to_string().as_str(), container.adds_to()), ("container + vduse", Some(host)));
        let card = PathDescription::over_card();
        assert_eq!((card.name().as_str(), card.adds_to()), ("guest_vfio_wire", None));
        assert!(card.is_exclusive() && !packed.is_exclusive());
    }
}
