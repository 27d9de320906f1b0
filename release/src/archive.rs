//! Archives that are the same for the same files: sorted, of one owner, with one time.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use tar::{Builder, EntryType, Header};

/// A file of an archive.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) path: String,
    mode: u32,
    contents: Vec<u8>,
}

impl Entry {
    /// Returns a file that is read.
    pub(crate) fn file(path: &str, contents: Vec<u8>) -> Self {
        Self { path: path.to_owned(), mode: 0o644, contents }
    }

    /// Returns a file that is executed.
    pub(crate) fn program(path: &str, contents: Vec<u8>) -> Self {
        Self { path: path.to_owned(), mode: 0o755, contents }
    }
}

/// Returns a tar archive. `time` is in seconds since 1970.
pub(crate) fn tar(mut entries: Vec<Entry>, time: u64) -> Result<Vec<u8>> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut archive = Builder::new(Vec::new());
    for Entry { path, mode, contents } in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(contents.len() as u64);
        header.set_mode(mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path, &*contents)?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses with a header that names no file, no time and no system.
pub(crate) fn gzip(data: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = GzBuilder::new().write(Vec::new(), Compression::best());
    compressor.write_all(data)?;
    Ok(compressor.finish()?)
}

pub(crate) fn tar_gz(entries: Vec<Entry>, time: u64) -> Result<Vec<u8>> {
    gzip(&tar(entries, time)?)
}

/// Returns the SHA-256 sum in hexadecimal digits.
pub(crate) fn sha256(data: &[u8]) -> String {
    digest(&SHA256, data).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_files_changes_nothing() {
        let (a, b) = (Entry::file("a", b"1".to_vec()), Entry::program("b", b"2".to_vec()));
        let one = tar_gz(vec![a.clone(), b.clone()], 1_000).unwrap();
        assert_eq!(tar_gz(vec![b.clone(), a.clone()], 1_000).unwrap(), one);
        assert_ne!(tar_gz(vec![a, b], 2_000).unwrap(), one, "the time is that of the commit");
        // The flags and the time of the header, and the number for an unknown system.
        assert_eq!(one[3..8], [0; 5]);
        assert_eq!(one[9], 255);
    }

    #[test]
    fn a_sum_is_that_of_sha256sum() {
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), want);
    }
}
