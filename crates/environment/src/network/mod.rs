//! Ways from one end to another through the kernel's network: what a packet's path consists of, built for real in
//! network namespaces that go with the processes that hold them.

mod absent;
mod description;
mod layer;
mod namespace;
mod open;
mod path;
mod switch;

pub use absent::{AbsentPath, absent_paths};
pub use description::{NearEnd, PathDescription};
pub use layer::{Layer, LayerError};
pub use namespace::Namespace;
pub use open::OpenPath;
pub use path::{End, FAR_ADDRESS, NEAR_ADDRESS, Path};
pub use switch::Switch;
