//! Messages about a worker whose thread was abandoned.
use crate::error::WHERE;
use crate::worker_event::{Cause, Replaced};
use crate::{PortId, QueueId};

/// The remedy for a port that is ended because of a panic or a stuck worker.
pub(crate) const REMEDY: &str =
    "the port is ended, all others continue; start the switch again to use it again";

/// The remark if either of two ports can be the cause.
const EITHER: &str = "; the memory or descriptors of either can be the cause: a port that this happens to with \
                      another one too, or three times, is ended";

/// Describes an incident: what happened, where, and what the user can check.
pub(crate) fn describe<'a>(replaced: &Replaced, name: impl Fn(PortId) -> &'a str) -> String {
    let queue = |queue: QueueId, direction: &str| {
        format!("'{}' ({direction} the guest, queue pair {})", name(queue.port), queue.pair)
    };
    let place = match (replaced.position.source, replaced.position.sink) {
        (None, None) => "a burst".to_owned(),
        (Some(source), None) => queue(source, "from"),
        (None, Some(sink)) => queue(sink, "to"),
        (Some(source), Some(sink)) => {
            format!("a burst from {} at {}", queue(source, "from"), queue(sink, "to"))
        }
    };
    let either = match (replaced.position.source, replaced.position.sink) {
        (Some(_), Some(_)) => EITHER,
        _ => "",
    };
    let worker = replaced.worker;
    match &replaced.cause {
        Cause::Stuck(time, thread) => {
            let (process, time) = (std::process::id(), time.as_secs_f32());
            let look = format!("see where it hangs with 'cat /proc/{process}/task/{thread}/stack'");
            match replaced.position.source.or(replaced.position.sink) {
                None => format!("{place} took longer than {time:.1} s; another thread does its work now"),
                Some(_) => {
                    format!("worker {worker} has not come back from {place} for {time:.1} s; {look}{either}")
                }
            }
        }
        Cause::Panic(message) => {
            format!("worker {worker} panicked in {place}: {message}; {WHERE}{either}")
        }
    }
}
