//! The state of each queue in words: whether driver or device must act next.
use std::time::Duration;

use frame::RingState;
use serde::Serialize;

/// The state of one queue, as text and as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct RingReport {
    /// The port.
    pub port: String,
    /// Queue pair.
    pub pair: u16,
    /// Whether the queue carries frames from the guest; if not, frames to it.
    pub from_guest: bool,
    /// Whether the queue runs.
    pub runs: bool,
    /// The worker that serves the queue. For a queue to the guest, the first of its workers.
    pub worker: Option<usize>,
    /// Frames passed so far.
    pub frames: u64,
    /// How many seconds no frame has passed. Known from the time when the switch began to watch.
    pub quiet_seconds: Option<f64>,
    /// The ring, if the queue has one that can be read.
    pub ring: Option<Ring>,
    /// The state in words.
    pub words: String,
}

/// The progress of a ring's driver and of the switch.
#[derive(Clone, Debug, Serialize)]
pub struct Ring {
    /// Descriptors.
    pub size: u16,
    /// `split` or `packed`.
    pub layout: &'static str,
    /// Chains that the driver has made available and that the switch has not taken.
    pub available: u16,
    /// The index or slot from which the switch takes the next chain.
    pub next_available: u16,
    /// The index or slot at which the switch gives back the next chain.
    pub next_used: u16,
    /// Whether the driver has enabled the ring.
    pub enabled: bool,
}

impl From<&RingState> for Ring {
    fn from(state: &RingState) -> Self {
        let (layout, next_available, next_used) = state.place();
        let RingState { size, available, enabled, .. } = *state;
        Ring { size, layout, available, next_available, next_used, enabled }
    }
}

/// The data about a queue besides its ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How long no frame has passed.
    pub quiet: Option<Duration>,
    /// Frames dropped since then because the receiver had no buffer.
    pub full_since: u64,
    /// Whether the worker that serves the queue sleeps.
    pub worker_sleeps: bool,
}

/// For a ring in which no buffer ever was: it looks like this, too, where the guest writes to other memory.
const NOT_SHARED: &str = " (if its driver runs, the guest's memory is not shared: give QEMU's memory backend share=on, \
                          and name it in -machine memory-backend=ID)";

/// Shorter than this is no silence.
const SILENCE: Duration = Duration::from_secs(1);

/// Describes a queue from the guest.
pub(crate) fn from_guest(ring: Option<&RingState>, seen: Seen) -> String {
    let silence = seen.quiet.filter(|quiet| *quiet >= SILENCE);
    let Some(ring) = ring else {
        return match silence {
            Some(quiet) => format!("nothing came for {}; the switch waits for the guest", seconds(quiet)),
            None => "frames pass".to_owned(),
        };
    };
    match (ring.available, silence) {
        _ if !ring.enabled => "its driver has disabled it; what comes is dropped".to_owned(),
        (0, Some(quiet)) => format!("guest has sent nothing for {}; the switch waits for it", seconds(quiet)),
        (0, None) => "frames pass; the switch has taken all that there is".to_owned(),
        (n, Some(quiet)) if seen.worker_sleeps => format!(
            "{n} chains wait and the worker sleeps: guest has not kicked for {}; the switch waits for its kick",
            seconds(quiet)
        ),
        (n, Some(quiet)) => {
            format!("{n} chains wait and none was taken for {}; guest waits for the switch", seconds(quiet))
        }
        (n, None) => format!("frames pass; {n} chains wait for the worker"),
    }
}

/// Describes a queue to the guest.
pub(crate) fn to_guest(ring: Option<&RingState>, seen: Seen) -> String {
    let silence = seen.quiet.filter(|quiet| *quiet >= SILENCE);
    let Some(ring) = ring else {
        return match silence {
            Some(quiet) => format!("nothing went for {}", seconds(quiet)),
            None => "frames pass".to_owned(),
        };
    };
    let begin = matches!(ring.place(), (_, 0, 0));
    let remedy = if begin { NOT_SHARED } else { "" };
    match (ring.available, silence) {
        _ if !ring.enabled => "its driver has disabled it; frames for it are dropped".to_owned(),
        (0, Some(quiet)) if seen.full_since > 0 => format!(
            "guest has posted no receive buffers for {}; {} frames were dropped meanwhile; the switch waits for the \
             guest{remedy}",
            seconds(quiet),
            seen.full_since
        ),
        (0, Some(quiet)) => format!(
            "guest has posted no receive buffers; nothing was delivered for {}; the switch waits for the guest{remedy}",
            seconds(quiet)
        ),
        (0, None) => "frames pass; at the moment no receive buffer is posted".to_owned(),
        (n, Some(quiet)) => {
            format!("{n} receive buffers are posted; there was nothing to deliver for {}", seconds(quiet))
        }
        (n, None) => format!("frames pass; {n} receive buffers are posted"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(available: u16) -> RingState {
        RingState::split(256, available, 7, 7)
    }

    #[test]
    fn words_name_who_waits_for_whom() {
        let quiet = |ms| Seen { quiet: Some(Duration::from_millis(ms)), ..Seen::default() };
        let full = Seen { full_since: 12, ..quiet(2100) };
        let words = to_guest(Some(&ring(0)), full);
        assert!(words.starts_with("guest has posted no receive buffers for 2.1 s; 12 frames"), "{words}");
        let words = to_guest(Some(&ring(0)), quiet(2100));
        assert!(words.contains("no receive buffers; nothing was delivered for 2.1 s"), "{words}");
        assert!(!words.contains("share=on"), "there were some before: {words}");
        let untouched = RingState::split(256, 0, 0, 0);
        for seen in [full, quiet(2100)] {
            let words = to_guest(Some(&untouched), seen);
            assert!(words.contains("no receive buffers") && words.contains("share=on"), "{words}");
        }
        assert!(to_guest(Some(&ring(200)), quiet(3000)).contains("200 receive buffers are posted"));
        assert!(to_guest(Some(&ring(200)), quiet(3)).starts_with("frames pass"));
        assert!(from_guest(Some(&ring(0)), quiet(3000)).contains("sent nothing for 3.0 s"));
        let asleep = Seen { worker_sleeps: true, ..quiet(3000) };
        assert!(from_guest(Some(&ring(4)), asleep).contains("has not kicked"), "a lost kick");
        assert!(from_guest(Some(&ring(4)), quiet(3000)).contains("guest waits for the switch"));
        let disabled = RingState { enabled: false, ..ring(4) };
        assert!(from_guest(Some(&disabled), quiet(0)).contains("disabled"));
    }
}
