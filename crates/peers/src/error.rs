use std::time::Duration;

/// Why a peer could not be started, or did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What this machine lacks, each with the way to get it.
    #[error("this peer cannot run here; missing: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// The system refused something.
    #[error("{doing}: {error}")]
    System {
        /// What was tried.
        doing: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A program ended early, or said no.
    #[error("{doing}: {answer}")]
    Refused {
        /// What was tried.
        doing: String,
        /// What the program said.
        answer: String,
    },
    /// Nothing came within the time allowed.
    #[error("{doing}: nothing within {} s; said so far: {said}", .limit.as_secs_f64())]
    TimedOut {
        /// What was waited for.
        doing: String,
        /// How long.
        limit: Duration,
        /// The end of what the peer had said.
        said: String,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn system<E: Into<std::io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error: error.into() }
    }

    pub(crate) fn refused(doing: impl Into<String>, answer: impl Into<String>) -> Self {
        Self::Refused { doing: doing.into(), answer: answer.into() }
    }
}
