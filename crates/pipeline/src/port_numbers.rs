//! The OpenFlow numbers of the ports of a network.
use crate::PortId;

/// The ports of a network by their OpenFlow numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNumbers {
    /// The numbers in ascending order.
    numbers: Box<[u16]>,
    /// The port of each number, at the same place.
    ports: Box<[PortId]>,
    /// The numbers of tunnels, in ascending order.
    tunnels: Box<[u16]>,
    /// The numbers of ports whose frames do not arrive, in ascending order.
    silent: Box<[u16]>,
}

impl PortNumbers {
    /// These ports. Of two ports with one number, the first one has it.
    pub fn new(ports: impl IntoIterator<Item = (u16, PortId)>) -> Self {
        let mut all: Vec<_> = ports.into_iter().collect();
        all.sort_by_key(|(number, _)| *number);
        all.dedup_by_key(|(number, _)| *number);
        let (numbers, ports): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Self { numbers: numbers.into(), ports: ports.into(), ..Self::default() }
    }

    /// With these numbers of tunnels, to which frames are sent with the tunnel fields that flows have set.
    #[must_use]
    pub fn with_tunnels(self, tunnels: impl IntoIterator<Item = u16>) -> Self {
        let mut tunnels: Vec<_> = tunnels.into_iter().collect();
        tunnels.sort_unstable();
        Self { tunnels: tunnels.into(), ..self }
    }

    /// With these numbers of ports whose frames do not arrive at the other end: bundles and groups choose other ports.
    #[must_use]
    pub fn with_silent(self, silent: impl IntoIterator<Item = u16>) -> Self {
        let mut silent: Vec<_> = silent.into_iter().collect();
        silent.sort_unstable();
        Self { silent: silent.into(), ..self }
    }

    /// Whether there is a port with this number, whose frames arrive as far as is known.
    pub fn is_live(&self, number: u16) -> bool {
        self.port(number).is_some() && self.silent.binary_search(&number).is_err()
    }

    /// Whether the port with this number is a tunnel.
    pub fn is_tunnel(&self, number: u16) -> bool {
        self.tunnels.binary_search(&number).is_ok()
    }

    /// All numbers, in ascending order.
    pub fn numbers(&self) -> &[u16] {
        &self.numbers
    }

    /// The port with this number.
    pub fn port(&self, number: u16) -> Option<PortId> {
        self.numbers.binary_search(&number).ok().map(|at| self.ports[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_its_port_and_the_first_of_two_keeps_it() {
        let ports = PortNumbers::new([(9, PortId(0)), (2, PortId(1)), (9, PortId(2))]);
        assert_eq!(ports.numbers(), [2, 9]);
        assert_eq!([2, 9, 3].map(|number| ports.port(number)), [Some(PortId(1)), Some(PortId(0)), None]);
        let ports = ports.with_silent([9]);
        assert_eq!([2, 9, 3].map(|number| ports.is_live(number)), [true, false, false]);
    }
}
