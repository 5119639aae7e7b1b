//! A device to be created, and its name.

/// The name of a device: 1 to 64 letters, digits and `-_.`; the first is a letter or a digit. The kernel allows more,
/// and makes a file and a folder of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// `None` if the text is no name, or the name of `/dev/vduse/control`.
    pub fn new(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let fits = text.len() <= 64 && begins && text.bytes().all(is_plain) && text != "control";
        fits.then(|| Name(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A device to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice<'a> {
    /// The name.
    pub name: &'a Name,
    /// The kind of device (VIRTIO 1.3 §5): 1 is a network device.
    pub device_id: u32,
    /// The offered features.
    pub features: u64,
    /// The number of queues.
    pub queues: u32,
    /// The configuration space, at most 64 bytes.
    pub config: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for good in ["a", "net0", "web-1.a_b", &"x".repeat(64)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "-a", "a/b", "a b", "control", "a\0", "ä", &"x".repeat(65)] {
            assert!(Name::new(bad).is_none(), "{bad:?}");
        }
    }
}
