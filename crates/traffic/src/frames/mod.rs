//! The frames that are sent, and the checks of those that arrive.
mod checker;
mod mix;
mod size;
mod stamp;
mod stream;

pub use checker::{Access, Checker, Tally};
pub use mix::{MixError, SizeMix};
pub use size::{FrameSize, MIN_FRAME_BYTES, SizeError};
pub use stamp::{STAMP_BYTES, Stamp};
pub use stream::{Fields, Stream, StreamError};
