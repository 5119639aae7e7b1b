//! A guest whose kernel has tunnel devices.
use super::{Kernel, Settings};

const MODULES: &[&str] = &["geneve", "vxlan", "ip_gre", "ip6_gre"];

impl Settings {
    /// Boots the distribution's generic kernel with the devices `geneve`, `vxlan`, `gretap` and `ip6gretap`: cloud kernels
    /// lack those of GRE.
    pub fn tunnels(self) -> Self {
        Settings { kernel: Kernel::Generic, modules: MODULES, ..self }
    }
}
