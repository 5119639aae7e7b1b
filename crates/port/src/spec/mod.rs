//! Ports as people write them: `KIND:TARGET[,key=value]…`. Parsing touches nothing; building comes after.
mod kinds;
mod options;

pub use kinds::{Described, Kind, PortSpec};
pub use options::{Options, SpecError};

/// A port as written, taken apart but not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What comes before the colon.
    pub kind: String,
    /// Path, interface name or whatever the kind asks for.
    pub target: String,
    /// The rest.
    pub options: Options,
}

impl std::str::FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (kind, rest) = text.split_once(':').ok_or_else(|| SpecError::NoKind(text.to_owned()))?;
        let mut parts = rest.split(',');
        let target = parts.next().unwrap_or_default();
        if target.is_empty() {
            return Err(SpecError::NoTarget(text.to_owned()));
        }
        Ok(Spec { kind: kind.to_owned(), target: target.to_owned(), options: Options::parse(parts)? })
    }
}
