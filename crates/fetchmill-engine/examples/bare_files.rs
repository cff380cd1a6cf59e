//! Measures the minimum cost of storing files: creating them, writing them, and renaming them into another folder. No
//! journal is written. With `--sync`, another thread syncs the file system every second and at the end. Without it,
//! nothing is synced.
//!
//! `bare_files FOLDER COUNT SIZE [--sync]` stages files in `FOLDER/stage` and renames them to
//! `FOLDER/out/file-000000000000` and so on. The `files` benchmark passes the count and size of a job's files, and
//! compares the CPU times.
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat, renameat};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap();
    let count: usize = arguments.next().unwrap().parse().unwrap();
    let size: usize = arguments.next().unwrap().parse().unwrap();
    let is_synced = arguments.next().is_some_and(|argument| argument == "--sync");
    let stage = made(&Path::new(&folder).join("stage"));
    let out = made(&Path::new(&folder).join("out"));
    let body = vec![b'x'; size];
    let (mut staged, mut name) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let (end, ended) = channel::<()>();
    let folder_to_sync = is_synced.then(|| made(Path::new(&folder)));
    let syncing = std::thread::spawn(move || {
        let Some(folder) = folder_to_sync else { return };
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            rustix::fs::syncfs(&folder).unwrap();
        }
        rustix::fs::syncfs(&folder).unwrap();
    });
    for number in 0..count {
        staged.clear();
        write!(staged, "{number}").unwrap();
        name.clear();
        write!(name, "file-{number:012}").unwrap();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&stage, staged.as_slice(), flags, Mode::from_raw_mode(0o666)).unwrap();
        assert_eq!(rustix::io::write(&file, &body).unwrap(), size);
        drop(file);
        renameat(&stage, staged.as_slice(), &out, name.as_slice()).unwrap();
    }
    drop(end);
    syncing.join().unwrap();
    println!("{:.6}", started.elapsed().as_secs_f64());
}

/// Creates a folder and opens it.
fn made(path: &Path) -> OwnedFd {
    std::fs::create_dir_all(path).unwrap();
    openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}
