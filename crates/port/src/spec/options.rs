//! The `key=value` part of a port.
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Why a text does not describe a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text has no colon.
    #[error("'{0}' names no kind of port; write KIND:TARGET, for example vhost-user:/tmp/port0.sock")]
    NoKind(String),
    /// Nothing follows the colon.
    #[error("'{0}' has nothing after the colon; write KIND:TARGET, for example tap:tap0")]
    NoTarget(String),
    /// No kind of port has this name.
    #[error("there is no port of kind '{kind}'; there are {known}")]
    UnknownKind {
        /// As written.
        kind: String,
        /// The known kinds.
        known: String,
    },
    /// An option that is no `key=value`.
    #[error("option '{0}' is not key=value")]
    NotAnOption(String),
    /// A key is given twice.
    #[error("option '{0}' is there twice")]
    Twice(String),
    /// A key that this kind of port does not know.
    #[error("a {kind} port has no option '{key}'; it has {known}")]
    UnknownKey {
        /// Kind of the port.
        kind: &'static str,
        /// As written.
        key: String,
        /// The known keys.
        known: String,
    },
    /// A value that does not fit its key.
    #[error("option {key}={value}: {expected}")]
    Value {
        /// The option.
        key: &'static str,
        /// As written.
        value: String,
        /// The accepted values.
        expected: String,
    },
}

/// Options of a port. The kind takes each of its options out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    left: Vec<(String, String)>,
    asked: Vec<&'static str>,
}

impl Options {
    /// Options that were read elsewhere. Each key occurs once.
    pub fn new(options: impl IntoIterator<Item = (String, String)>) -> Self {
        Options { left: options.into_iter().collect(), asked: Vec::new() }
    }

    /// The options that nothing has taken yet, as they were written.
    pub fn left(&self) -> impl Iterator<Item = (&str, &str)> {
        self.left.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(super) fn parse<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Self, SpecError> {
        let mut left: Vec<(String, String)> = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| SpecError::NotAnOption(part.to_owned()))?;
            if left.iter().any(|(other, _)| other == key) {
                return Err(SpecError::Twice(key.to_owned()));
            }
            left.push((key.to_owned(), value.to_owned()));
        }
        Ok(Options { left, asked: Vec::new() })
    }

    /// Takes the option `key` as text.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.asked.push(key);
        let at = self.left.iter().position(|(other, _)| other == key)?;
        Some(self.left.remove(at).1)
    }

    /// Takes the option `key`: `on` or `off`, or the default if the option is absent.
    ///
    /// # Errors
    /// The value is neither `on` nor `off`.
    pub fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, SpecError> {
        match self.text(key).as_deref() {
            None => Ok(default),
            Some("on") => Ok(true),
            Some("off") => Ok(false),
            Some(value) => {
                Err(SpecError::Value { key, value: value.into(), expected: "write on or off".into() })
            }
        }
    }

    /// Takes the option `key`: a number within `bounds`, or `None` if the option is absent.
    ///
    /// # Errors
    /// The value is no number, or outside of `bounds`.
    pub fn number<T>(&mut self, key: &'static str, bounds: RangeInclusive<T>) -> Result<Option<T>, SpecError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(value) = self.text(key) else { return Ok(None) };
        match value.parse() {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("write a number from {} to {}", bounds.start(), bounds.end());
                Err(SpecError::Value { key, value, expected })
            }
        }
    }

    /// Takes the option `key`: bytes within `bounds`, such as 4096, 512M or 1T, or `None` if the option is absent.
    /// K, M, G and T are powers of 1024.
    ///
    /// # Errors
    /// The value is no such size, or outside of `bounds`.
    pub fn size(&mut self, key: &'static str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, SpecError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        match parse_size(&value) {
            Some(bytes) if bounds.contains(&bytes) => Ok(Some(bytes)),
            _ => {
                let [least, most] = [bounds.start(), bounds.end()].map(|bytes| format_size(*bytes));
                let expected = format!("write a size from {least} to {most}, for example 64G");
                Err(SpecError::Value { key, value, expected })
            }
        }
    }

    /// Takes the option `key`: any value that `T` can be parsed from, or `None` if the option is absent.
    ///
    /// # Errors
    /// `T` cannot be parsed from the value; its message becomes the error's.
    pub fn value<T>(&mut self, key: &'static str) -> Result<Option<T>, SpecError>
    where
        T: FromStr,
        T::Err: Display,
    {
        let Some(value) = self.text(key) else { return Ok(None) };
        match value.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) => Err(SpecError::Value { key, value, expected: T::Err::to_string(&error) }),
        }
    }

    /// Checks that every option was taken.
    ///
    /// # Errors
    /// An option is left that the kind does not have. The error names the options of the kind.
    pub fn finish(self, kind: &'static str) -> Result<(), SpecError> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((key, _)) => Err(SpecError::UnknownKey { kind, key, known: self.asked.join(", ") }),
        }
    }
}

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

fn parse_size(text: &str) -> Option<u64> {
    let unit = UNITS.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    // `parse` alone would take a plus sign.
    let count: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    count.checked_mul(1 << shift)
}

fn format_size(bytes: u64) -> String {
    let unit = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::super::Spec;
    use super::*;

    fn options(text: &str) -> Options {
        text.parse::<Spec>().unwrap().options
    }

    #[test]
    fn a_port_is_taken_apart() {
        let mut spec: Spec = "vhost-user:/run/a.sock,queue-pairs=2,packed=off".parse().unwrap();
        assert_eq!((spec.kind.as_str(), spec.target.as_str()), ("vhost-user", "/run/a.sock"));
        assert_eq!(spec.options.number("queue-pairs", 1..=128u16), Ok(Some(2)));
        assert_eq!(spec.options.switch("packed", true), Ok(false));
        assert_eq!(spec.options.switch("mergeable", true), Ok(true));
        assert_eq!(spec.options.finish("vhost-user"), Ok(()));
    }

    #[test]
    fn sizes_have_units() {
        let read =
            |text: &str| options(&format!("vhost-user:/a,memory={text}")).size("memory", 1024..=1 << 46);
        assert_eq!(read("4096"), Ok(Some(4096)));
        assert_eq!(read("3K"), Ok(Some(3072)));
        assert_eq!(read("64G"), Ok(Some(64 << 30)));
        assert_eq!(read("64T"), Ok(Some(1 << 46)));
        for wrong in ["", "G", "-1", "+1G", "1g", "65T", "1023", "99999999999T", "1.5G"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("from 1K to 64T"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert!(error("tap0").contains("no kind"));
        assert!(error("tap:").contains("nothing after"));
        assert!(error("tap:t,on").contains("'on' is not key=value"));
        assert!(error("tap:t,a=1,a=2").contains("'a' is there twice"));
        let mut wrong = options("tap:t,pairs=0,up=maybe,mac=5");
        assert!(wrong.number("pairs", 1..=8u16).unwrap_err().to_string().contains("from 1 to 8"));
        assert!(wrong.switch("up", true).unwrap_err().to_string().contains("on or off"));
        let mac = wrong.value::<virtio::net::MacAddress>("mac").unwrap_err().to_string();
        assert!(mac.contains("52:54:00"), "{mac}");
        let mut unknown = options("tap:t,quues=2");
        unknown.text("queue-pairs");
        let error = unknown.finish("tap").unwrap_err().to_string();
        assert!(error.contains("'quues'") && error.contains("queue-pairs"), "{error}");
    }
}
