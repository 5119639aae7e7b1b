//! Ports in the syntax of the command line: `KIND:TARGET[,key=value]…`. Parsing opens and makes nothing; that is left
//! to building.
mod kinds;
mod options;

pub use kinds::{Described, Kind, PortSpec};
pub use options::{Options, SpecError};

/// A port in its parts, which are not interpreted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The text before the colon.
    pub kind: String,
    /// A path, the name of an interface, or another target of the kind.
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
