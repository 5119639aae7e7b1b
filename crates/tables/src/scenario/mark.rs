//! Names of environments for the outputs, with their marks.

use lab::chains::Environment;

/// The name of an environment, with the mark of an emulated CPU.
pub fn marked(environment: &Environment) -> String {
    format!("{}{}", environment.name, if environment.is_emulated { report::EMULATED_MARK } else { "" })
}
