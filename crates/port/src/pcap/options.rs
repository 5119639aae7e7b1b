//! The options of a capture port.
use std::path::PathBuf;
use std::str::FromStr;

use crate::spec::{Spec, SpecError};

/// How often a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// This many times, at least once.
    Times(u64),
    /// Until the port ends.
    Forever,
}

impl FromStr for Rounds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match (text, text.parse()) {
            ("forever", _) => Ok(Rounds::Forever),
            (_, Ok(times @ 1..)) => Ok(Rounds::Times(times)),
            _ => Err("write how often, from 1 on, or forever"),
        }
    }
}

/// How fast a capture is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// As fast as the switch takes frames. Frames for a slower receiver are dropped and counted.
    Fast,
    /// With the captured times between frames.
    Original,
}

impl FromStr for Timing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "fast" => Ok(Timing::Fast),
            "original" => Ok(Timing::Original),
            _ => Err("write fast or original"),
        }
    }
}

/// `pcap:FILE` with `loop=N|forever`, `timing=original|fast`, `record=FILE` and `snaplen=BYTES`;
/// `pcap:-,record=FILE` replays nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcapOptions {
    /// The capture to replay.
    pub replay: Option<PathBuf>,
    /// How often.
    pub rounds: Rounds,
    /// How fast.
    pub timing: Timing,
    /// The file that records frames sent to the port. An existing file is overwritten.
    pub record: Option<PathBuf>,
    /// The most bytes of each frame that are recorded.
    pub snapshot_bytes: u32,
}

impl PcapOptions {
    /// The default of tcpdump.
    pub const SNAPSHOT_BYTES: u32 = 262_144;

    /// Replays a capture once, with its own timing.
    pub fn replay(file: impl Into<PathBuf>) -> Self {
        PcapOptions {
            replay: Some(file.into()),
            rounds: Rounds::Times(1),
            timing: Timing::Original,
            record: None,
            snapshot_bytes: Self::SNAPSHOT_BYTES,
        }
    }

    /// Records whole frames, and replays nothing.
    pub fn record(file: impl Into<PathBuf>) -> Self {
        PcapOptions { replay: None, record: Some(file.into()), ..Self::replay("") }
    }
}

impl TryFrom<Spec> for PcapOptions {
    type Error = SpecError;

    fn try_from(spec: Spec) -> Result<Self, SpecError> {
        let mut options = spec.options;
        let replay = (spec.target != "-").then(|| PathBuf::from(&spec.target));
        let record = options.text("record").map(PathBuf::from);
        if replay.is_none() && record.is_none() {
            let expected = "name a file to record to, or one to replay in place of -".into();
            return Err(SpecError::Value { key: "record", value: String::new(), expected });
        }
        let read = PcapOptions {
            replay,
            rounds: options.value("loop")?.unwrap_or(Rounds::Times(1)),
            timing: options.value("timing")?.unwrap_or(Timing::Original),
            record,
            snapshot_bytes: options
                .number("snaplen", 14..=Self::SNAPSHOT_BYTES)?
                .unwrap_or(Self::SNAPSHOT_BYTES),
        };
        options.finish("pcap")?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PcapOptions, SpecError> {
        text.parse::<Spec>().and_then(PcapOptions::try_from)
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("pcap:a.pcap").unwrap(), PcapOptions::replay("a.pcap"));
        assert_eq!(read("pcap:-,record=b.pcap").unwrap(), PcapOptions::record("b.pcap"));
        let both = read("pcap:a,loop=forever,timing=fast,record=b,snaplen=96").unwrap();
        let expected = PcapOptions {
            rounds: Rounds::Forever,
            timing: Timing::Fast,
            record: Some("b".into()),
            snapshot_bytes: 96,
            ..PcapOptions::replay("a")
        };
        assert_eq!(both, expected);
        for (text, said) in [
            ("pcap:-", "record to"),
            ("pcap:a,loop=0", "from 1 on"),
            ("pcap:a,timing=slow", "fast or original"),
            ("pcap:a,snaplen=0", "14 to 262144"),
            ("pcap:a,rate=5", "no option 'rate'"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
