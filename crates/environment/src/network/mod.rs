//! Ways from one end to another through the kernel's network: what a packet's path consists of, built for real in
//! network namespaces that go with the processes that hold them.

mod absent;
mod card;
mod description;
mod guest_nic;
mod guest_path;
mod layer;
mod namespace;
mod open;
mod ovs;
mod path;
mod switch;

pub use absent::{AbsentPath, absent_paths};
pub use card::Card;
pub use description::{NearEnd, PathDescription};
pub use guest_nic::GuestNic;
pub use layer::{Layer, LayerError};
pub use namespace::Namespace;
pub use open::{OpenPath, Places};
pub use ovs::OvsDpdk;
pub use path::{End, FAR_ADDRESS, NEAR_ADDRESS, Path};
pub use switch::{Switch, UserSpaceSwitch};
