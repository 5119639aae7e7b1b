//! The device's configuration space (VIRTIO 1.3 §5.1.4).
use super::MacAddress;

/// Whether the link carries both directions at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplex {
    /// One direction at a time.
    Half,
    /// Both.
    Full,
    /// Not known.
    #[default]
    Unknown,
}

/// `virtio_net_config`. Each field is valid only with the feature in parentheses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetConfig {
    /// The device's address (`MAC`).
    pub mac: MacAddress,
    /// The link is up (`STATUS`).
    pub link_up: bool,
    /// The driver is asked to announce itself (`GUEST_ANNOUNCE`).
    pub announce: bool,
    /// The number of queue pairs (`MQ`).
    pub max_queue_pairs: u16,
    /// The longest payload of a frame in bytes (`MTU`).
    pub mtu_bytes: u16,
    /// Speed in Mbit/s, if known (`SPEED_DUPLEX`).
    pub speed_mbit_s: Option<u32>,
    /// Whether the link is full or half duplex (`SPEED_DUPLEX`).
    pub duplex: Duplex,
}

/// The requested part of the configuration does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes at {offset} of a configuration of {} bytes (VIRTIO 1.3 §5.1.4)", NetConfig::BYTES)]
pub struct ConfigOutside {
    /// The offset in bytes from the configuration's start.
    pub offset: u32,
    /// The number of bytes requested.
    pub size: u32,
}

impl NetConfig {
    /// The length in bytes, including the fields of receive-side scaling, which are zero here.
    pub const BYTES: usize = 24;
    const LINK_UP: u16 = 1;
    const ANNOUNCE: u16 = 2;
    const SPEED_UNKNOWN: u32 = 0xffff_ffff;

    /// The bytes that the driver reads.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let link_up = if self.link_up { Self::LINK_UP } else { 0 };
        let announce = if self.announce { Self::ANNOUNCE } else { 0 };
        let mut bytes = [0; Self::BYTES];
        bytes[0..6].copy_from_slice(&self.mac.0);
        bytes[6..8].copy_from_slice(&(link_up | announce).to_le_bytes());
        bytes[8..10].copy_from_slice(&self.max_queue_pairs.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.mtu_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.speed_mbit_s.unwrap_or(Self::SPEED_UNKNOWN).to_le_bytes());
        bytes[16] = match self.duplex {
            Duplex::Half => 0,
            Duplex::Full => 1,
            Duplex::Unknown => 0xff,
        };
        bytes
    }

    /// Reads the bytes of a device. Values that the specification does not know become "unknown".
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let [a, b, c, d, e, f, ..] = *bytes;
        let speed = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        NetConfig {
            mac: MacAddress([a, b, c, d, e, f]),
            link_up: u16_at(6) & Self::LINK_UP != 0,
            announce: u16_at(6) & Self::ANNOUNCE != 0,
            max_queue_pairs: u16_at(8),
            mtu_bytes: u16_at(10),
            // The highest bit belongs to no known speed.
            speed_mbit_s: Some(speed).filter(|speed| *speed <= 0x7fff_ffff),
            duplex: match bytes[16] {
                0 => Duplex::Half,
                1 => Duplex::Full,
                _ => Duplex::Unknown,
            },
        }
    }

    /// Fills `into` with the bytes from `offset` on, as GET_CONFIG of vhost-user asks for.
    ///
    /// # Errors
    /// `offset + into.len()` exceeds [`NetConfig::BYTES`]; `into` is unchanged.
    pub fn read(&self, offset: u32, into: &mut [u8]) -> Result<(), ConfigOutside> {
        let outside = ConfigOutside { offset, size: u32::try_from(into.len()).unwrap_or(u32::MAX) };
        let bytes = self.to_bytes();
        let start = usize::try_from(offset).map_err(|_| outside)?;
        let part = start.checked_add(into.len()).and_then(|end| bytes.get(start..end)).ok_or(outside)?;
        into.copy_from_slice(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIG: NetConfig = NetConfig {
        mac: MacAddress([0x52, 0x54, 0, 1, 2, 3]),
        link_up: true,
        announce: true,
        max_queue_pairs: 0x102,
        mtu_bytes: 9000,
        speed_mbit_s: Some(100_000),
        duplex: Duplex::Full,
    };

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        let bytes =
            [0x52, 0x54, 0, 1, 2, 3, 3, 0, 2, 1, 0x28, 0x23, 0xa0, 0x86, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(CONFIG.to_bytes(), bytes);
        assert_eq!(NetConfig::from_bytes(&bytes), CONFIG);
        let unknown = NetConfig::default().to_bytes();
        assert_eq!(unknown[6..17], [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(NetConfig::from_bytes(&unknown), NetConfig::default());
        assert_eq!(NetConfig { link_up: true, ..NetConfig::default() }.to_bytes()[6], 1);
        assert_eq!(NetConfig { announce: true, ..NetConfig::default() }.to_bytes()[6], 2);
    }

    #[test]
    fn parts_are_read_and_nothing_beyond() {
        let mut mtu = [0; 2];
        CONFIG.read(10, &mut mtu).unwrap();
        assert_eq!(u16::from_le_bytes(mtu), 9000);
        let mut all = [0; 24];
        CONFIG.read(0, &mut all).unwrap();
        assert_eq!(all, CONFIG.to_bytes());
        CONFIG.read(24, &mut []).unwrap();
        let outside = |offset, size| Err(ConfigOutside { offset, size });
        assert_eq!(CONFIG.read(23, &mut [0; 2]), outside(23, 2));
        assert_eq!(CONFIG.read(0, &mut [0; 25]), outside(0, 25));
        assert_eq!(CONFIG.read(u32::MAX, &mut [0; 2]), outside(u32::MAX, 2));
    }

    proptest! {
        #[test]
        fn any_devices_bytes_are_understood(bytes: [u8; 24]) {
            let config = NetConfig::from_bytes(&bytes);
            prop_assert_eq!(NetConfig::from_bytes(&config.to_bytes()), config);
        }
    }
}
