//! An environment of a plan.

use environment::Spec;
use environment::spec::{SpecError, split_list};

/// One environment of an experiment.
#[derive(Clone, Debug)]
pub struct PlannedEnvironment {
    /// The environment's name. In a comparison, the second environment of a kind has a number; in other experiments the
    /// name is the text.
    pub name: String,
    /// The environment in the syntax of the command line.
    pub text: String,
    /// The kind and settings of the environment.
    pub spec: Spec,
}

/// Why a list of environments cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentsError {
    /// A text that names no environment.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An environment that the experiment cannot use.
    #[error("{text}: {why}; leave it out")]
    Refused {
        /// The environment, as it was written.
        text: String,
        /// The reason.
        why: &'static str,
    },
}

impl PlannedEnvironment {
    /// The environments of a list, each with its text as its name. `refused` says why an experiment cannot use one.
    ///
    /// # Errors
    /// A text names no environment, or an environment is refused.
    pub fn read_list(
        list: &str,
        refused: impl Fn(&Spec) -> Option<&'static str>,
    ) -> Result<Vec<Self>, EnvironmentsError> {
        let read = |text: String| {
            let spec: Spec = text.parse()?;
            match refused(&spec) {
                None => Ok(PlannedEnvironment { name: text.clone(), text, spec }),
                Some(why) => Err(EnvironmentsError::Refused { text, why }),
            }
        };
        split_list(list).into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_what_cannot_be_is_refused() {
        let read =
            |list| PlannedEnvironment::read_list(list, |spec| (*spec == Spec::Host).then_some("no host"));
        let names: Vec<String> =
            read("vm:memory=2048,container").unwrap().into_iter().map(|place| place.name).collect();
        assert_eq!(names, ["vm:memory=2048", "container"]);
        assert_eq!(read("container,host").unwrap_err().to_string(), "host: no host; leave it out");
        assert!(read("moon").unwrap_err().to_string().contains("write host"));
    }
}
