//! What machine this is: every result carries its environment (rule 11).

use serde::{Deserialize, Serialize};

/// The facts about a machine that a reader needs to judge a figure. Texts are as the system gave them; an
/// empty text means that it could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus_online: usize,
    /// Machine architecture, as `uname -m`.
    pub architecture: String,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release and version.
    pub kernel: String,
    /// Kernel command line.
    pub command_line: String,
    /// Hypervisor this machine itself runs under, where it tells.
    pub hypervisor: String,
    /// Clock source in use.
    pub clocksource: String,
    /// Transparent huge pages mode.
    pub transparent_huge_pages: String,
    /// CPU frequency governor; empty where there is none.
    pub governor: String,
    /// CPUs isolated from the scheduler.
    pub isolated_cpus: String,
    /// Mitigations: name and state.
    pub mitigations: Vec<(String, String)>,
    /// Name of the distribution.
    pub distribution: String,
}
