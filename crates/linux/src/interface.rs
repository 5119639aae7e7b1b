//! A network interface's settings, through the calls of netdevice(7), so that the program `ip` is not needed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Setter, Updater, ioctl};

/// An interface of the calling thread's network namespace.
#[derive(Debug)]
pub struct Interface {
    name: [libc::c_char; libc::IFNAMSIZ],
    /// The socket for the calls; any socket of the namespace can be used.
    socket: UdpSocket,
}

impl Interface {
    /// The interface of this name. The function does not check that the interface exists.
    ///
    /// # Errors
    /// The name is empty, has 16 bytes or more, or holds a zero byte; or the system refuses a UDP socket.
    pub fn named(name: &str) -> io::Result<Self> {
        let mut bytes = [0; libc::IFNAMSIZ];
        // The last byte stays zero.
        if name.is_empty() || name.len() >= bytes.len() || name.contains('\0') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name:?} is no interface's name"),
            ));
        }
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char; // signed or not, as the architecture has it
        }
        Ok(Interface { name: bytes, socket: UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))? })
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: all zeros is a valid `ifreq`: integers, bytes and a union of such.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    /// Asks for something about the interface.
    ///
    /// # Safety
    /// `CALL` must be one of netdevice(7) that reads or writes one `ifreq` and nothing else.
    unsafe fn ask<const CALL: Opcode>(&self, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the request is live, and the caller promises that the call takes no more.
        Ok(unsafe { ioctl(&self.socket, Updater::<CALL, _>::new(request)) }?)
    }

    /// The interface's index.
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`).
    pub fn index(&self) -> io::Result<u32> {
        let mut request = self.request();
        // SAFETY: SIOCGIFINDEX fills in one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCGIFINDEX as Opcode }>(&mut request) }?;
        // SAFETY: the call filled in this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex }.cast_unsigned())
    }

    /// The longest IP packet in bytes.
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`).
    pub fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request();
        // SAFETY: SIOCGIFMTU fills in one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCGIFMTU as Opcode }>(&mut request) }?;
        // SAFETY: the call filled in this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned())
    }

    /// The interface's Ethernet address.
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`).
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let mut request = self.request();
        // SAFETY: SIOCGIFHWADDR fills in one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCGIFHWADDR as Opcode }>(&mut request) }?;
        // SAFETY: the call filled in this member of the union.
        let bytes = unsafe { request.ifr_ifru.ifru_hwaddr }.sa_data;
        Ok(std::array::from_fn(|at| bytes[at] as u8)) // signed or not, as the architecture has it
    }

    /// Whether the interface was set up by its administrator.
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`).
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_UP as libc::c_short != 0)
    }

    /// Whether the interface is up and has a carrier.
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`).
    pub fn is_running(&self) -> io::Result<bool> {
        const BOTH: libc::c_short = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        Ok(self.flags()? & BOTH == BOTH)
    }

    fn flags(&self) -> io::Result<libc::c_short> {
        let mut request = self.request();
        // SAFETY: SIOCGIFFLAGS fills in one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCGIFFLAGS as Opcode }>(&mut request) }?;
        // SAFETY: the call filled in this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Number of receive queues, those combined with a transmit queue included (`ETHTOOL_GCHANNELS`).
    ///
    /// # Errors
    /// The namespace has no interface of this name (`ENODEV`), or its driver does not report channels (`EOPNOTSUPP`).
    pub fn receive_queues(&self) -> io::Result<u32> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        /// `struct ethtool_channels`: command; most, then current of each: receiving, sending, other, combined.
        type Channels = [u32; 9];
        let mut channels: Channels = [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: the command writes one `ethtool_channels`.
        unsafe { self.ethtool(&mut channels) }?;
        let [.., receiving, _, _, combined] = channels;
        Ok(receiving + combined)
    }

    /// Asks the driver by one of ethtool's commands, whose number and arguments are in `words`.
    ///
    /// # Safety
    /// The command must write no more than `words` holds.
    unsafe fn ethtool(&self, words: &mut [u32]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: SIOCETHTOOL reads one `ifreq`; the words are live, and the caller promises that they are enough.
        unsafe { self.ask::<{ libc::SIOCETHTOOL as Opcode }>(&mut request) }
    }

    /// The name of the interface's driver, and the name of its device on a bus, which is empty for a software
    /// interface (`ETHTOOL_GDRVINFO`).
    ///
    /// # Errors
    /// The kernel's error: the interface does not exist, or has no driver that reports this.
    pub fn driver(&self) -> io::Result<(String, String)> {
        const ETHTOOL_GDRVINFO: u32 = 3;
        /// `struct ethtool_drvinfo`: command; texts of 32 bytes: driver, version, firmware, bus, ROM; six words more,
        /// and 12 bytes.
        const WORDS: usize = 1 + 5 * 8 + 3 + 5;
        let mut words = [0; WORDS];
        words[0] = ETHTOOL_GDRVINFO;
        // SAFETY: the command writes one `ethtool_drvinfo`.
        unsafe { self.ethtool(&mut words) }?;
        Ok((text(&words[1..9]), text(&words[25..33])))
    }

    /// Switches these features off or on. Their names are those of `ethtool -k` in the kernel (`rx-vlan-hw-parse`).
    /// Returns which of them changed. Names that the kernel does not know are left out.
    ///
    /// # Errors
    /// The kernel's error: the interface does not exist, or this process may not change it.
    pub fn switch_features(&self, names: &[&'static str], on: bool) -> io::Result<Vec<&'static str>> {
        const ETHTOOL_SFEATURES: u32 = 0x3b;
        let there = self.feature_names()?;
        let index = |name: &&str| there.iter().position(|other| other == name);
        let known: Vec<_> = names.iter().filter_map(|name| Some((*name, index(name)?))).collect();
        let before = self.active_features(there.len())?;
        let blocks = there.len().div_ceil(32);
        // `struct ethtool_sfeatures`: command, blocks; of each block which are meant, and which of them are on.
        let mut set = vec![0; 2 + 2 * blocks];
        (set[0], set[1]) = (ETHTOOL_SFEATURES, blocks as u32);
        for (_, index) in &known {
            let block = 2 + 2 * (index / 32);
            set[block] |= 1 << (index % 32);
            set[block + 1] |= u32::from(on) << (index % 32);
        }
        // SAFETY: the command reads as many blocks as are there, and writes nothing.
        unsafe { self.ethtool(&mut set) }?;
        let after = self.active_features(there.len())?;
        let changed = known.into_iter().filter(|(_, index)| before[*index] != after[*index]);
        Ok(changed.map(|(name, _)| name).collect())
    }

    /// Which of these features are on, by the kernel's names.
    ///
    /// # Errors
    /// The kernel's error if the interface does not exist.
    pub fn features_on(&self, names: &[&'static str]) -> io::Result<Vec<&'static str>> {
        let there = self.feature_names()?;
        let active = self.active_features(there.len())?;
        let is_on = |name: &str| there.iter().zip(&active).any(|(other, on)| *on && other == name);
        Ok(names.iter().copied().filter(|name| is_on(name)).collect())
    }

    /// Names of all features, in the order of their bits (`ETHTOOL_GSTRINGS`).
    fn feature_names(&self) -> io::Result<Vec<String>> {
        const ETHTOOL_GSTRINGS: u32 = 0x1b;
        const ETHTOOL_GSSET_INFO: u32 = 0x37;
        const ETH_SS_FEATURES: u32 = 4;
        /// Words of one name.
        const NAME: usize = 8;
        // `struct ethtool_sset_info`: command, nothing, a mask of sets in two words; their sizes.
        let mut sets = [0u32; 5];
        sets[0] = ETHTOOL_GSSET_INFO;
        let mask = (1u64 << ETH_SS_FEATURES).to_ne_bytes();
        for (word, bytes) in sets[2..4].iter_mut().zip(mask.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        // SAFETY: the command writes one size for the one set in the mask.
        unsafe { self.ethtool(&mut sets) }?;
        let count = sets[4];
        // `struct ethtool_gstrings`: command, set, how many; the names.
        let mut strings = vec![0; 3 + count as usize * NAME];
        strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count]);
        // SAFETY: the command writes all names of the set; their number is the kernel's own constant, asked above.
        unsafe { self.ethtool(&mut strings) }?;
        Ok(strings[3..].chunks_exact(NAME).map(text).collect())
    }

    /// The features that are on, of the first `count` (`ETHTOOL_GFEATURES`).
    fn active_features(&self, count: usize) -> io::Result<Vec<bool>> {
        const ETHTOOL_GFEATURES: u32 = 0x3a;
        let blocks = count.div_ceil(32);
        // `struct ethtool_gfeatures`: command, blocks; of each block which can be, are asked to be, are, and never
        // can be.
        let mut get = vec![0; 2 + 4 * blocks];
        (get[0], get[1]) = (ETHTOOL_GFEATURES, blocks as u32);
        // SAFETY: the command writes no more blocks than it was told are there.
        unsafe { self.ethtool(&mut get) }?;
        Ok((0..count).map(|index| get[2 + 4 * (index / 32) + 2] >> (index % 32) & 1 == 1).collect())
    }

    /// Sets the longest IP packet in bytes.
    ///
    /// # Errors
    /// No interface has this name, the caller lacks `CAP_NET_ADMIN`, or the driver does not take this length.
    pub fn set_mtu(&self, bytes: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
        // SAFETY: SIOCSIFMTU reads one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCSIFMTU as Opcode }>(&mut request) }
    }

    /// Sets the interface's Ethernet address.
    ///
    /// # Errors
    /// No interface has this name, the caller lacks `CAP_NET_ADMIN`, the address is a multicast address, or the
    /// driver does not change addresses (some only while the interface is down).
    pub fn set_mac(&self, address: [u8; 6]) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_hwaddr =
            libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: socket_address(0, &address) };
        // SAFETY: SIOCSIFHWADDR reads one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCSIFHWADDR as Opcode }>(&mut request) }
    }

    /// Sets the interface up. If it is up already, this takes no privilege.
    ///
    /// # Errors
    /// No interface has this name, the caller lacks `CAP_NET_ADMIN`, or the driver cannot start the device.
    pub fn set_up(&self) -> io::Result<()> {
        let (flags, up) = (self.flags()?, libc::IFF_UP as libc::c_short);
        if flags & up == up {
            return Ok(());
        }
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = flags | up;
        // SAFETY: SIOCSIFFLAGS reads one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCSIFFLAGS as Opcode }>(&mut request) }
    }

    /// Gives the interface an IP address with a network prefix of `prefix_bits` bits.
    ///
    /// # Errors
    /// No interface has this name, the caller lacks `CAP_NET_ADMIN`, or the kernel refuses the address: the prefix is
    /// longer than an IPv6 address, the interface has this IPv6 address already, or IPv6 is disabled.
    pub fn set_address(&self, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        match address {
            IpAddr::V4(address) => self.set_v4(address, prefix_bits),
            IpAddr::V6(address) => self.set_v6(address, prefix_bits),
        }
    }

    fn set_v4(&self, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
        let with = |address: Ipv4Addr| {
            let mut request = self.request();
            // `sockaddr_in` behind its family: the port, then the address.
            let bytes = socket_address(2, &address.octets());
            request.ifr_ifru.ifru_addr =
                libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: bytes };
            request
        };
        let mask = u32::MAX.checked_shl(32u32.saturating_sub(u32::from(prefix_bits))).unwrap_or(0);
        // SAFETY: SIOCSIFADDR reads one `ifreq` on an IPv4 socket.
        unsafe { self.ask::<{ libc::SIOCSIFADDR as Opcode }>(&mut with(address)) }?;
        // SAFETY: SIOCSIFNETMASK reads one `ifreq`.
        unsafe { self.ask::<{ libc::SIOCSIFNETMASK as Opcode }>(&mut with(mask.into())) }
    }

    fn set_v6(&self, address: Ipv6Addr, prefix_bits: u8) -> io::Result<()> {
        let request = libc::in6_ifreq {
            ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
            ifr6_prefixlen: u32::from(prefix_bits),
            ifr6_ifindex: self.index()?.cast_signed(),
        };
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        // SAFETY: on an IPv6 socket SIOCSIFADDR reads one `in6_ifreq` (ipv6(7)), which is live.
        let set = unsafe { Setter::<{ libc::SIOCSIFADDR as Opcode }, _>::new(request) };
        // SAFETY: as above.
        Ok(unsafe { ioctl(socket.as_fd(), set) }?)
    }
}

/// A text that ends with a zero byte or with its words.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The bytes of a socket's address behind its family.
fn socket_address(offset: usize, address: &[u8]) -> [libc::c_char; 14] {
    let mut bytes = [0; 14];
    for (to, from) in bytes[offset..].iter_mut().zip(address) {
        *to = *from as libc::c_char;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_and_an_interface_that_is_not_there_is_an_error() {
        for bad in ["", "a\0b", "an-interface-with-a-long-name"] {
            assert_eq!(Interface::named(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad:?}");
        }
        assert!(Interface::named("none-such").unwrap().index().is_err());
        assert!(Interface::named("none-such").unwrap().set_up().is_err());
        assert!(Interface::named("none-such").unwrap().driver().is_err());
        assert!(Interface::named("none-such").unwrap().switch_features(&["loopback"], true).is_err());
    }

    #[test]
    fn a_new_namespace_s_loopback_comes_up_and_takes_settings() {
        // In a thread of its own, which keeps the namespace to itself.
        let settle = || -> Option<io::Result<()>> {
            use rustix::thread::UnshareFlags;
            // An ordinary user needs a user namespace for it, which a thread of several cannot enter.
            crate::namespace::unshare(UnshareFlags::NEWNET).ok()?;
            let set = || {
                let lo = Interface::named("lo")?;
                assert_eq!(lo.index()?, 1);
                let reaches =
                    || UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("127.0.0.1:9"));
                assert!(reaches().is_err() && !lo.is_up()?, "not up yet");
                lo.set_up()?;
                assert!(lo.is_up()? && lo.is_running()? && lo.mac()? == [0; 6]);
                lo.set_up()?;
                reaches()?;
                lo.set_mtu(1400)?;
                assert_eq!(lo.driver().map_or_else(|_| String::new(), |(_, bus)| bus), "", "it is no device");
                let cut = ["tx-tcp-segmentation", "no-such-feature"];
                assert_eq!(lo.features_on(&cut)?, ["tx-tcp-segmentation"]);
                assert_eq!(lo.switch_features(&cut, false)?, ["tx-tcp-segmentation"]);
                assert!(lo.features_on(&cut)?.is_empty());
                assert!(lo.switch_features(&cut, false)?.is_empty(), "it was off already");
                assert_eq!(lo.switch_features(&cut, true)?, ["tx-tcp-segmentation"]);
                assert_eq!(lo.features_on(&["loopback", "tx-tcp-segmentation"])?.len(), 2);
                // What cannot be changed is left as it is.
                assert!(lo.switch_features(&["loopback"], false).is_ok_and(|changed| changed.is_empty()));
                lo.set_address("10.1.2.3".parse().unwrap(), 24)?;
                lo.set_address("fd00::1".parse().unwrap(), 64)?;
                UdpSocket::bind("10.1.2.3:0")?;
                // The address is usable when the kernel has found that no other station has it.
                let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
                while UdpSocket::bind("[fd00::1]:0").is_err() && std::time::Instant::now() < until {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                UdpSocket::bind("[fd00::1]:0").map(drop)
            };
            Some(set())
        };
        match std::thread::spawn(settle).join().unwrap() {
            Some(set) => set.unwrap(),
            None => assert!(!rustix::process::geteuid().is_root(), "root may make a network namespace"),
        }
    }
}
