//! Opens the inputs of a list: a file, a pipe, or standard input.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::is_zip;
use fetchmill_store::durable;

/// Time after which a read from an empty pipe returns, so that the thread can check whether the job is ending.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Same for a range of a shared job. This time is shorter because it passes once per block of lines: the worker writes
/// nothing more until these lines are listed.
const PATIENCE_OF_RANGE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Opens a list file, or standard input if there is no path.
pub(super) fn open(path: Option<&Path>) -> Result<File> {
    let Some(path) = path else {
        let stdin = std::io::stdin();
        let own = stdin.as_fd().try_clone_to_owned();
        return own.map(File::from).map_err(|error| Error::storage("read", "standard input", error));
    };
    File::open(path).map_err(|error| cannot_open(path, &error))
}

pub(super) fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::NotFound => "; to list a server, give http://HOST:PORT",
        _ => "",
    };
    Error::Usage(format!("cannot open the list {}: {error}{hint}", path.display()))
}

/// Returns the size of a regular file, or `None` for a pipe, whose size is unknown.
pub(super) fn length(file: &File) -> Option<u64> {
    file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// Returns whether a regular file is a zip archive.
pub(super) fn is_zip_file(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt as _;

    let mut head = [0; 4];
    let count = file.read_at(&mut head, 0)?;
    Ok(is_zip(&head[..count]))
}

/// Writes a stream to an unnamed file in the folder for temporary files.
pub(super) fn buffer_to_file(mut stream: impl Read) -> std::io::Result<File> {
    let mut file = durable::nameless_file(&std::env::temp_dir())?;
    std::io::copy(&mut stream, &mut file)?;
    Ok(file)
}

/// Pipe whose reads do not block forever. A read returns `WouldBlock` if nothing arrives for a short time.
#[derive(Debug)]
pub(super) struct PollingInput {
    file: File,
    patience: Timespec,
}

impl PollingInput {
    /// Creates the input for a pipe. `is_range` means that a worker of a shared job writes to the pipe.
    pub(super) fn new(file: File, is_range: bool) -> Self {
        PollingInput { file, patience: if is_range { PATIENCE_OF_RANGE } else { PATIENCE } }
    }
}

impl Read for PollingInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut descriptors = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut descriptors, Some(&self.patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            Ok(_) => self.file.read(buffer),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_empty_pipe_says_so_and_gives_what_comes() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut patient = PollingInput::new(File::from(std::os::fd::OwnedFd::from(reader)), false);
        let mut buffer = [0; 8];

        assert_eq!(patient.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        writer.write_all(b"ab").unwrap();
        assert_eq!(patient.read(&mut buffer).unwrap(), 2);
        drop(writer);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_range_is_polled_more_often() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut of_range = PollingInput::new(File::from(std::os::fd::OwnedFd::from(reader)), true);
        let is_quick = |_| {
            let started = std::time::Instant::now();
            of_range.read(&mut [0; 8]).unwrap_err();
            started.elapsed() < std::time::Duration::from_millis(50)
        };

        assert!((0..100).any(is_quick));
    }

    #[test]
    fn a_list_that_is_not_there_is_told() {
        let error = open(Some(Path::new("/nowhere/urls.txt"))).unwrap_err();

        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("http://HOST:PORT"), "{error}");
    }
}
