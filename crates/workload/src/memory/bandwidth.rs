//! Measures the bandwidth of reading, writing and copying an array well beyond the last cache, in small pages.

use measure::Failure;

use super::arena::Arenas;
use super::streams::{ARRAY_BYTES, CHUNK_BYTES, Streams, Traffic};
use crate::batch::{self, Measured, Pace, Scale, timed};
use crate::trial::Trial;

/// Measures the bandwidth of one kind of traffic.
pub(crate) fn measure(
    traffic: Traffic,
    trial: &Trial,
    pace: &mut Pace,
    arenas: &mut Arenas,
) -> Result<Measured, Failure> {
    if arenas.streams.is_none() {
        arenas.make_room(2 * ARRAY_BYTES)?;
    }
    let streams = match &mut arenas.streams {
        Some(streams) => streams,
        none => none.insert(Streams::new()?),
    };
    batch::measure(trial.budget, Scale::per_second(CHUNK_BYTES as f64), pace, |units| {
        timed(|| {
            let right = (0..units).fold(true, |right, _| right & streams.run(traffic));
            if right { Ok(()) } else { Err(wrong_content()) }
        })
    })
}

fn wrong_content() -> Failure {
    Failure::new(
        "checking what memory holds",
        "it is not what was written",
        "do not trust this memory: run a memory test",
    )
}
