//! A socket as the commands of devices name it.
use std::path::PathBuf;

/// A name, the path of a vhost-user socket, and what a user says of the device behind it: `NAME=vhost-user:PATH[,OPTION…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSocket<'a> {
    /// The name at the beginning of log lines.
    pub name: &'a str,
    /// Path of the socket.
    pub path: PathBuf,
    /// The options, each a text without comma.
    pub options: Vec<&'a str>,
}

impl<'a> NamedSocket<'a> {
    /// Takes a text apart.
    ///
    /// # Errors
    /// There is no name, or no path.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let (name, target) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("it has no name")?;
        let mut parts = target.split(',');
        let path = parts.next().and_then(|target| target.strip_prefix("vhost-user:"));
        let path = path.filter(|path| !path.is_empty()).ok_or("it names no vhost-user:PATH")?;
        Ok(Self { name, path: path.into(), options: parts.collect() })
    }
}
