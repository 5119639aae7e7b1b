//! Whether a back-end still serves a correct front-end.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use virtio::Features;

use crate::family::Family;
use crate::front_end::Session;
use crate::message::id;

/// Pause before it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// The state of a back-end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// The back-end answers.
    Serves,
    /// No process listens on its socket any more, so it has ended.
    Gone,
    /// The back-end does not serve a correct session in time.
    Silent,
    /// The back-end wrote into memory that it does not have, or no longer has.
    WroteElsewhere,
}

/// Tries until the back-end answers, at most for `patience`.
pub fn of(path: &Path, patience: Duration) -> Health {
    let until = Instant::now() + patience;
    loop {
        let asked = Session::begin(path, Features::empty()).and_then(|mut session| {
            session.start_queue(0, None)?;
            session.start_queue(1, None)?;
            session.front_end.ask(id::GET_FEATURES)
        });
        let error = match asked {
            Ok(_) => return Health::Serves,
            Err(error) => error,
        };
        if Instant::now() >= until {
            let gone = [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound].contains(&error.kind());
            return if gone { Health::Gone } else { Health::Silent };
        }
        std::thread::sleep(AGAIN);
    }
}

/// The families of cases that suit the back-end at this path. If the back-end does not answer, those for every
/// back-end.
pub fn families_of(path: &Path) -> Vec<Family> {
    let has_crypto = Session::begin(path, Features::empty()).is_ok_and(|session| session.has_crypto);
    let crypto: &[Family] = if has_crypto { &Family::CRYPTO } else { &[] };
    [&Family::ALL[..], crypto].concat()
}
