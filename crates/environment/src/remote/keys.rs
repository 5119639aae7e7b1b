//! Keys: an authority that exists only while keys are made signs one certificate for each end. Each end has one file
//! with its private key, its certificate and the authority's certificate.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

/// The file name of the near end's key.
pub const NEAR_FILE: &str = "near.pem";
/// The file name of the far end's key.
pub const FAR_FILE: &str = "far.pem";

/// The name in the far end's certificate, whatever machine the far end runs on: the authority signs no other far end.
pub(super) const FAR_NAME: &str = "far.tautline.invalid";
const NEAR_NAME: &str = "near.tautline.invalid";

/// A certificate is valid from this long before it was made, because the dates of the two machines may differ.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

/// No key file is longer.
const LONGEST_FILE: u64 = 1 << 20;

/// The default folder of keys: `tautline` in `XDG_CONFIG_HOME`, or in `.config` of `HOME`.
///
/// # Errors
/// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
pub fn default_folder() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    folder.map(|folder| folder.join("tautline")).ok_or_else(|| {
        Failure::new(
            "finding the folder of keys",
            "neither XDG_CONFIG_HOME nor HOME is set",
            "name the folder or file",
        )
    })
}

/// Makes both ends' files, valid for `days` days from now. The authority's own key is never written.
///
/// # Errors
/// A file exists already, or cannot be written.
pub fn make(folder: &Path, days: u32) -> Result<[PathBuf; 2], Failure> {
    let now = OffsetDateTime::now_utc();
    let until = now + Duration::from_secs(u64::from(days) * 24 * 3600);
    make_valid(folder, [until, until])
}

/// Makes both ends' files with the end date of each, the near end's first.
///
/// # Errors
/// The causes of [`make`].
pub fn make_valid(folder: &Path, until: [OffsetDateTime; 2]) -> Result<[PathBuf; 2], Failure> {
    let files = [NEAR_FILE, FAR_FILE].map(|name| folder.join(name));
    let made = pair(until);
    let [near, far] = made.map_err(|error| Failure::new("making keys", error, "choose fewer days"))?;
    let failed = |path: &Path, error: std::io::Error| {
        let remedy = "choose another folder, or remove the old keys from both machines first";
        Failure::new(format!("writing {}", path.display()), error, remedy)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(folder, error))?;
    write(&files[0], &near).map_err(|error| failed(&files[0], error))?;
    write(&files[1], &far).map_err(|error| {
        // Half a pair is of no use, and would stand in the way of the next try.
        let _ = std::fs::remove_file(&files[0]);
        failed(&files[1], error)
    })?;
    Ok(files)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// From when keys are valid: a day before they were made, or before their end where that is earlier.
fn from(until: OffsetDateTime) -> OffsetDateTime {
    until.min(OffsetDateTime::now_utc()) - EARLIER
}

/// The texts of the near end's file and the far end's.
fn pair(until: [OffsetDateTime; 2]) -> Result<[String; 2], rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, "tautline agent keys");
    let latest = until[0].max(until[1]);
    (authority.not_before, authority.not_after) = (from(until[0].min(until[1])), latest);
    let root = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let end = |name: &str, until, purpose| {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(vec![name.to_owned()])?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![purpose];
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        (parameters.not_before, parameters.not_after) = (from(until), until);
        let certificate = parameters.signed_by(&key, &issuer)?.pem();
        Ok(format!("{}{certificate}{root}", key.serialize_pem()))
    };
    Ok([
        end(NEAR_NAME, until[0], ExtendedKeyUsagePurpose::ClientAuth)?,
        end(FAR_NAME, until[1], ExtendedKeyUsagePurpose::ServerAuth)?,
    ])
}

/// The contents of an end's key file.
pub(super) struct Keys {
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) roots: RootCertStore,
}

/// Reads an end's file, which must not be accessible to other users.
pub(super) fn load(path: &Path) -> Result<Keys, Failure> {
    let make = "make keys with `tautline agent keys`, and copy far.pem to the far end";
    let failed = |answer: String, remedy: &str| {
        Failure::new(format!("reading the key file {}", path.display()), answer, remedy)
    };
    let mut file = File::open(path).map_err(|error| failed(error.to_string(), make))?;
    let mode = file.metadata().map_err(|error| failed(error.to_string(), make))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed(
            format!("others may read it (mode {:o})", mode & 0o777),
            "chmod 600 it, or make new keys",
        ));
    }
    let mut text = Vec::new();
    Read::by_ref(&mut file)
        .take(LONGEST_FILE)
        .read_to_end(&mut text)
        .map_err(|error| failed(error.to_string(), make))?;
    let no_key = |error| failed(format!("no private key: {error}"), make);
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(no_key)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| failed(error.to_string(), make))?;
    let [certificate, root] = <[CertificateDer<'static>; 2]>::try_from(certificates).map_err(|found| {
        failed(format!("{} certificates instead of its own and the authority's", found.len()), make)
    })?;
    let mut roots = RootCertStore::empty();
    roots.add(root).map_err(|error| failed(error.to_string(), make))?;
    Ok(Keys { key, certificate, roots })
}
