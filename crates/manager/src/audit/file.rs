//! The file of the audit log.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

/// The mode of a new file.
const MODE: u32 = 0o600;

/// The pause between two attempts to write to a full FIFO.
const FIFO_POLL: Duration = Duration::from_millis(10);

/// The output of the audit log, by its path.
pub(super) struct Output {
    path: PathBuf,
    sink: Sink,
    /// True if the output has only a part of the last line. The next line then begins with a line
    /// end.
    is_torn: bool,
}

enum Sink {
    Stdout,
    File {
        file: File,
        id: FileId,
    },
    /// The path could not be opened again after a rotation.
    Closed,
}

/// Device and inode: two paths with the same ones name the same file.
#[derive(PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl Output {
    /// Opens a file to append to it; `-` is standard output.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let sink = if path == Path::new("-") { Sink::Stdout } else { open(path)? };
        Ok(Self { path: path.to_owned(), sink, is_torn: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line with its line end. Opens the path first if it no longer names the open file.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let is_current = match &self.sink {
            Sink::Stdout => true,
            Sink::File { id, .. } => std::fs::metadata(&self.path).is_ok_and(|it| FileId::of(&it) == *id),
            Sink::Closed => false,
        };
        if !is_current {
            self.sink = Sink::Closed;
            self.is_torn = false;
            self.sink = open(&self.path)?;
        }
        if self.is_torn {
            self.write(b"\n")?;
            self.is_torn = false;
        }
        self.write(line)
    }

    /// Writes a part of a line, as happens when a disk becomes full.
    #[cfg(test)]
    pub(super) fn tear(&mut self, part: &[u8]) {
        self.write(part).unwrap();
        self.is_torn = true;
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match &mut self.sink {
                Sink::Stdout => io::stdout().lock().write(bytes),
                Sink::File { file, .. } => file.write(bytes),
                Sink::Closed => Err(ErrorKind::NotFound.into()),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = bytes.get(count..).unwrap_or_default();
                    self.is_torn = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A FIFO or a terminal is full. Only the audit log's thread waits for it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FIFO_POLL),
                Err(error) => return Err(error),
            }
        }
        self.is_torn = false;
        match &self.sink {
            // Rust buffers standard output by line, so this has nothing to do unless it failed
            // before.
            Sink::Stdout => io::stdout().flush(),
            _ => Ok(()),
        }
    }
}

/// Opens a file without blocking: a FIFO that nobody reads is an error.
fn open(path: &Path) -> io::Result<Sink> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match std::fs::metadata(path) {
        Ok(metadata) if metadata.file_type().is_fifo() => {
            io::Error::new(error.kind(), format!("it is a FIFO that no process reads ({error})"))
        }
        _ => error,
    })?;
    let id = FileId::of(&file.metadata()?);
    Ok(Sink::File { file, id })
}
