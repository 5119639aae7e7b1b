//! Reads results files of any schema.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// A results file that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("reading results from {path}: {source}; give a file that {writer} wrote")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// The command that writes such files.
        writer: &'static str,
    },
    /// The file is not JSON of the right form.
    #[error("{path} is not a results file: {source}; give a file that {writer} wrote")]
    Form {
        /// The file.
        path: PathBuf,
        /// The place and kind of the error.
        source: serde_json::Error,
        /// The command that writes such files.
        writer: &'static str,
    },
    /// The file has another schema version.
    #[error("{path} has schema {found:?}; this version reads {schema:?}: use the version that wrote it")]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
        /// The schema that can be read.
        schema: &'static str,
    },
}

/// Reads a file of this schema, which the command `writer` writes.
///
/// # Errors
/// The file cannot be read, is not JSON, or has another schema or form.
pub fn load<T: DeserializeOwned>(
    path: &Path,
    schema: &'static str,
    writer: &'static str,
) -> Result<T, LoadError> {
    let text = fs::read(path).map_err(|source| LoadError::Read { path: path.into(), source, writer })?;
    let form = |source| LoadError::Form { path: path.into(), source, writer };
    // The schema first: a file of another version fails on that, not on some field.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(form)?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(found) if found == schema => serde_json::from_value(value).map_err(form),
        found => Err(LoadError::Schema { path: path.into(), found: found.unwrap_or("none").into(), schema }),
    }
}
