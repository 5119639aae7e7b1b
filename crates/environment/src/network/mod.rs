//! Ways from one end to another through the kernel's network: what a packet's path consists of, built for real in
//! network namespaces that go with the processes that hold them.

mod layer;
mod namespace;
mod path;

pub use layer::{Layer, LayerError};
pub use namespace::Namespace;
pub use path::{End, FAR_ADDRESS, NEAR_ADDRESS, Path};
