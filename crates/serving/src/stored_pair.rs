//! Stores the generated pair in a certificate directory, so that a crash or a full disk leaves both
//! files or none.

use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio_rustls::rustls::crypto::CryptoProvider;

use crate::certificate::{certified_key, read};
use crate::error::ServingError;
use crate::self_signed;

/// Creates the pair if it is missing. As in upstream, a directory with only one of the files is an
/// error. An empty file counts as missing.
pub(crate) fn store_if_missing(
    files: &(PathBuf, PathBuf),
    address: IpAddr,
    provider: &CryptoProvider,
    now: Timestamp,
) -> Result<(), ServingError> {
    let (certificate, key) = files;
    let one_of_two = |path: &Path, other: &Path| ServingError::Content {
        path: path.to_owned(),
        why: format!("exists without {}; remove it, or add the other file", other.display()),
    };
    match (exists(certificate)?, exists(key)?) {
        (true, true) => return Ok(()),
        (true, false) => return Err(one_of_two(certificate, key)),
        (false, true) if was_interrupted(files, provider) => {
            return rename(&temporary(certificate), certificate);
        }
        (false, true) => return Err(one_of_two(key, certificate)),
        (false, false) => {}
    }
    let pair = self_signed::generate(address, now)?;
    let stored = write(&temporary(key), &pair.key, 0o600)
        .and_then(|()| write(&temporary(certificate), &pair.certificate, 0o644))
        .and_then(|()| rename(&temporary(key), key))
        .and_then(|()| rename(&temporary(certificate), certificate).inspect_err(|_| remove(key)));
    if let Err(error) = stored {
        remove(&temporary(key));
        remove(&temporary(certificate));
        return Err(error);
    }
    tracing::info!(path = %certificate.display(), "a self-signed serving certificate was generated");
    Ok(())
}

/// Returns true if a process ended after it renamed the key and before it renamed the certificate.
fn was_interrupted((certificate, key): &(PathBuf, PathBuf), provider: &CryptoProvider) -> bool {
    let certificate = temporary(certificate);
    let (Ok(content), Ok(key_content)) = (read(&certificate), read(key)) else { return false };
    certified_key(&(certificate, key.clone()), &content, &key_content, provider).is_ok()
}

fn exists(path: &Path) -> Result<bool, ServingError> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(found.len() > 0),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(why) => Err(ServingError::File { action: "read", path: path.to_owned(), why }),
    }
}

/// Returns the path of the file that [`rename`] renames to `path` when it is complete.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Writes a file to the disk. Nobody can read it before it has its permissions; on Windows they are
/// those of the folder.
fn write(path: &Path, content: &str, mode: u32) -> Result<(), ServingError> {
    let write = || -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        // A process that crashed may have left one.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        let mut file = options.open(path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|why| ServingError::File { action: "write", path: path.to_owned(), why })
}

/// Renames a file, and writes the new name to the disk.
fn rename(from: &Path, to: &Path) -> Result<(), ServingError> {
    let rename = || -> io::Result<()> {
        std::fs::rename(from, to)?;
        // Windows opens no directory as a file, and writes the name with it.
        match to.parent().filter(|_| cfg!(unix)) {
            Some(directory) => std::fs::File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    };
    rename().map_err(|why| ServingError::File { action: "write", path: to.to_owned(), why })
}

/// Removes a file after an error. It ignores errors of its own, so that the caller shows that one.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv4Addr;

    use tempfile::TempDir;
    use tokio_rustls::rustls::crypto::ring::default_provider;

    use super::*;

    struct Directory(TempDir);

    impl Directory {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn files(&self) -> (PathBuf, PathBuf) {
            (self.0.path().join("x.crt"), self.0.path().join("x.key"))
        }

        fn store(&self) -> Result<(), ServingError> {
            let address = Ipv4Addr::LOCALHOST.into();
            store_if_missing(&self.files(), address, &default_provider(), Timestamp::UNIX_EPOCH)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.0.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }

        #[track_caller]
        fn has_a_pair(&self) {
            let files = self.files();
            let (certificate, key) = (read(&files.0).unwrap(), read(&files.1).unwrap());
            certified_key(&files, &certificate, &key, &default_provider()).unwrap();
            assert_eq!(self.names(), ["x.crt", "x.key"]);
        }
    }

    #[test]
    fn empty_files_and_files_of_a_crash_are_replaced() {
        let left: [&[(&str, &str)]; 4] = [
            &[],
            &[("x.crt", ""), ("x.key", "")],
            &[("x.crt", "")],
            &[("x.crt.tmp", "half"), ("x.key.tmp", "half")],
        ];
        for left in left {
            let directory = Directory::new();
            for (name, content) in left {
                fs::write(directory.0.path().join(name), content).unwrap();
            }
            directory.store().unwrap();
            directory.has_a_pair();
        }
    }

    #[test]
    fn a_crash_between_the_two_files_is_mended_by_the_next_start() {
        let directory = Directory::new();
        directory.store().unwrap();
        let (certificate, _) = directory.files();
        let before = fs::read(&certificate).unwrap();
        fs::rename(&certificate, temporary(&certificate)).unwrap();
        directory.store().unwrap();
        assert_eq!(fs::read(&certificate).unwrap(), before);
        directory.has_a_pair();
    }

    #[test]
    fn a_key_without_its_certificate_is_an_error() {
        let (directory, other) = (Directory::new(), Directory::new());
        directory.store().unwrap();
        other.store().unwrap();
        let (certificate, key) = directory.files();
        fs::rename(other.files().0, temporary(&certificate)).unwrap();
        fs::remove_file(&certificate).unwrap();
        let before = fs::read(&key).unwrap();
        let error = directory.store().unwrap_err().to_string();
        assert!(error.contains("exists without"), "{error}");
        assert_eq!(fs::read(&key).unwrap(), before);
    }

    #[test]
    fn an_error_leaves_nothing_behind() {
        let directory = Directory::new();
        // The process can neither remove a directory as a file, nor replace it by one.
        let obstacle = temporary(&directory.files().0);
        fs::create_dir(&obstacle).unwrap();
        assert!(matches!(directory.store(), Err(ServingError::File { action: "write", .. })));
        assert_eq!(directory.names(), ["x.crt.tmp"]);
        fs::remove_dir(&obstacle).unwrap();
        directory.store().unwrap();
        directory.has_a_pair();
    }
}
