//! Paths between two ends through the kernel's network. They are built from real devices in network namespaces, which
//! end with the processes that hold them.

mod absent;
mod card;
mod copies;
mod description;
mod guest_nic;
mod guest_path;
mod layer;
mod namespace;
mod open;
mod ovs;
mod path;
mod switch;

pub use absent::{AbsentPath, absent_paths, no_vduse};
pub use card::Card;
pub use description::{NearEnd, PathDescription};
pub use guest_nic::GuestNic;
pub use layer::{Layer, LayerError};
pub use namespace::Namespace;
pub use open::{OpenPath, Places};
pub use ovs::OvsDpdk;
pub use path::{End, FAR_ADDRESS, NEAR_ADDRESS, Path};
pub use switch::{Switch, UserSpaceSwitch};
