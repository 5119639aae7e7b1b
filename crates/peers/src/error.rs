use std::time::Duration;

/// The reason why a peer could not be started, or did not execute a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The requirements that this machine does not meet, each with a remedy.
    #[error("this peer cannot run here; missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// The system refused an operation.
    #[error("{doing}: {error}")]
    System {
        /// What was tried.
        doing: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A program ended early, or refused a command.
    #[error("{doing}: {answer}")]
    Refused {
        /// What was tried.
        doing: String,
        /// The program's answer.
        answer: String,
    },
    /// No answer came within the time limit.
    #[error("{doing}: nothing within {} s; said so far: {said}", .limit.as_secs_f64())]
    TimedOut {
        /// The event that was waited for.
        doing: String,
        /// How long.
        limit: Duration,
        /// The end of the peer's output.
        said: String,
    },
}

impl Error {
    /// Makes the error for use in `map_err`.
    pub(crate) fn system<E: Into<std::io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error: error.into() }
    }

    pub(crate) fn refused(doing: impl Into<String>, answer: impl Into<String>) -> Self {
        Self::Refused { doing: doing.into(), answer: answer.into() }
    }
}
