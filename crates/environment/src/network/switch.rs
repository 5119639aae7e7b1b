use std::process::Stdio;
use std::time::{Duration, Instant};

use linux::{Child, OutputFile};
use measure::Failure;

use super::Namespace;
use crate::{Agent, spawn};

/// `tautline switch` between two namespaces: a process of its own that makes both TAP devices and ends with them.
#[derive(Debug)]
pub struct Switch {
    process: Child,
}

/// How long it may take until its devices are there.
const START_LIMIT: Duration = Duration::from_secs(20);

impl Switch {
    /// The device of the near end.
    pub const NEAR_DEVICE: &str = "tap0";
    /// The device of the far end.
    pub const FAR_DEVICE: &str = "tap1";

    /// Starts it in the near end's namespace, and hands the far end its device.
    pub(super) fn start(near: &Namespace, far: &Namespace, agent: &Agent) -> Result<Self, Failure> {
        let mut command = near.command(&agent.binary)?;
        command.arg("switch");
        for (name, device) in [("near", Self::NEAR_DEVICE), ("far", Self::FAR_DEVICE)] {
            command.args(["--port", &format!("{name}=tap:{device}")]);
        }
        let tried = format!("starting the switch between two namespaces: {command:?}");
        let failed =
            |answer: String| Failure::new(&tried, answer, "open /dev/net/tun to this user, or run as root");
        let output = OutputFile::new().map_err(|error| failed(error.to_string()))?;
        let stdio = || output.stdio().map_err(|error| failed(error.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stdio()?);
        let process = spawn::spawn(&mut command).map_err(|error| failed(error.to_string()))?;
        let mut switch = Switch { process };
        let until = Instant::now() + START_LIMIT;
        for device in [Self::NEAR_DEVICE, Self::FAR_DEVICE] {
            while near.ip(&format!("link show dev {device}")).is_err() {
                let ended = switch.process.try_wait().ok().flatten();
                if ended.is_some() || Instant::now() > until {
                    let said = output.tail(4096).unwrap_or_default();
                    let how =
                        ended.map_or("its devices are not there".to_owned(), |status| status.to_string());
                    return Err(failed(format!("{how}; its last output: {}", said.trim())));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        near.ip(&format!("link set {} netns {}", Self::FAR_DEVICE, far.holder()))?;
        near.ip(&format!("link set {} up", Self::NEAR_DEVICE))?;
        far.ip(&format!("link set {} up", Self::FAR_DEVICE))?;
        Ok(switch)
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}
