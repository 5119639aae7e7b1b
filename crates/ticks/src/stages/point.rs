//! The stages, and one tick's times.

use serde::{Deserialize, Serialize};

/// A stage, named by its end. It begins where the previous stage ends. The first begins when the tick is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The source has sent the tick; this stage is the delay of its timer.
    Sent,
    /// KVM has received the interrupt through the eventfd and its irqfd.
    Irqfd,
    /// The virtual CPU enters the guest with the interrupt, or enters it while the guest has its interrupts off.
    Injection,
    /// The guest's kernel handles the interrupt.
    Handler,
    /// The receiver runs in user space.
    Receiver,
    /// The tick's work is done.
    Work,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 6] =
        [Self::Sent, Self::Irqfd, Self::Injection, Self::Handler, Self::Receiver, Self::Work];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Irqfd => "irqfd",
            Self::Injection => "injection",
            Self::Handler => "guest's handler",
            Self::Receiver => "receiver runs",
            Self::Work => "work done",
        }
    }

    /// The published budget of the stage, µs (QorIQ T4240, 2015): 30 for an interrupt up to the driver, 10 for a
    /// driver. The first stages and the work itself have no published budget.
    pub fn published_us(self) -> Option<f64> {
        match self {
            Self::Handler => Some(30.0),
            Self::Receiver => Some(10.0),
            _ => None,
        }
    }
}

/// When each stage of a tick ended, ns of the source's clock. `None` if the end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points {
    /// The tick's number.
    pub number: u64,
    /// When the tick was due.
    pub due_ns: u64,
    /// The ends by stage, in order.
    pub ended_ns: [Option<u64>; 6],
}

impl Points {
    /// When a stage ended.
    pub fn ended(&self, stage: Stage) -> Option<u64> {
        self.ended_ns[stage as usize]
    }

    /// The begin and end of a stage, if its end and an earlier one are known.
    pub fn span(&self, stage: Stage) -> Option<(u64, u64)> {
        let ended = self.ended(stage)?;
        let before = self.ended_ns[..stage as usize].iter().rev().find_map(|time| *time);
        Some((before.unwrap_or(self.due_ns), ended))
    }

    /// How long a stage took, ns.
    pub fn ns(&self, stage: Stage) -> Option<u64> {
        self.span(stage).map(|(began, ended)| ended.saturating_sub(began))
    }

    /// The time from due to the receiver running, ns.
    pub fn latency_ns(&self) -> u64 {
        self.ended(Stage::Receiver).map_or(0, |ended| ended.saturating_sub(self.due_ns))
    }
}
