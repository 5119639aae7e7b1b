//! The configuration space of a network device (VIRTIO 1.3 §5.1.4).
use super::VhostUserOptions;

/// Length in bytes up to `supported_hash_types`; what comes after is read as zeros.
const BYTES: usize = 24;

/// The bytes of this range. `mtu_bytes` is what the front-end has set last, if it has.
pub(super) fn read(
    options: &VhostUserOptions,
    mtu_bytes: Option<u16>,
    offset: u32,
    size_bytes: u32,
) -> Vec<u8> {
    let mut space = [0; BYTES];
    if let Some(mac) = options.mac {
        space[..6].copy_from_slice(&mac.0);
    }
    // `status`, bytes 6 and 7, counts with NET_STATUS only.
    space[8..10].copy_from_slice(&options.queue_pairs.to_le_bytes());
    if let Some(mtu) = mtu_bytes.or(options.mtu) {
        space[10..12].copy_from_slice(&mtu.to_le_bytes());
    }
    // Speed unknown: all ones; duplex unknown: 0xff.
    space[12..17].fill(0xff);
    let (offset, size) = (offset as usize, size_bytes as usize);
    (offset..offset.saturating_add(size)).map(|at| space.get(at).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        let options = VhostUserOptions {
            mac: Some("52:54:00:00:00:01".parse().unwrap()),
            mtu: Some(1500),
            queue_pairs: 3,
            ..VhostUserOptions::new("unused")
        };
        let space = read(&options, None, 0, 60);
        assert_eq!(&space[..12], [0x52, 0x54, 0, 0, 0, 1, 0, 0, 3, 0, 0xdc, 0x05]);
        assert_eq!(read(&options, Some(9000), 10, 2), 9000u16.to_le_bytes());
        assert_eq!(read(&options, None, u32::MAX, 1), [0]);
    }
}
