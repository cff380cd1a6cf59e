//! A transform process, which lives as long as its writer.
//!
//! Every wait has a limit. Each tick checks whether the job still waits and whether the process still exists, because a
//! child of the process can keep the socket open.

use std::io::{self, BufReader, Read, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use super::frame::{self, TransformAnswer};
use crate::control::stop::StopSignal;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::{TICK, TRANSFORM_END_WAIT};

/// Reason why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTransformReply {
    /// The job stopped waiting.
    Stopped,
    /// The process died or closed its end of the socket.
    Died,
}

/// Answer, or the reason why there is none.
pub(super) type TransformReply<T> = std::result::Result<T, NoTransformReply>;

/// Running process. See the [module documentation](self).
pub(super) struct TransformProcess {
    reader: BufReader<TransformSocket>,
    /// Number of answers that are still expected. While it is above 0, the process must not exit by itself.
    owed: usize,
}

/// Socket to the process. Reads wait for one tick at a time.
struct TransformSocket {
    socket: UnixStream,
    child: Child,
    stop: Arc<StopSignal>,
    ended: Option<ExitStatus>,
}

impl TransformProcess {
    /// Starts the process.
    pub(super) fn spawn(command: &[String], stop: &Arc<StopSignal>) -> Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::Internal("a transform has no command".into()));
        };
        let fail = |error| Error::storage("start the transform with", program, error);
        let (socket, theirs) = UnixStream::pair().map_err(fail)?;
        socket.set_read_timeout(Some(TICK)).map_err(fail)?;
        socket.set_write_timeout(Some(TICK)).map_err(fail)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // In a terminal, Ctrl-C must reach only the job, which decides what happens to the process.
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let socket = TransformSocket { socket, child, stop: Arc::clone(stop), ended: None };
        Ok(TransformProcess { reader: BufReader::new(socket), owed: 0 })
    }

    /// Sends the setup and waits until the process has loaded its function. If that fails, the job stops.
    pub(super) fn prepare(&mut self, setup: &[u8]) -> Result<TransformReply<()>> {
        let length = (setup.len() as u32).to_le_bytes();
        if let Err(silence) = self.send(&[&length, setup].concat(), 1) {
            return Ok(Err(silence));
        }
        let ready = self.read_reply(frame::read_ready)?;
        match ready {
            Ok(Err(reason)) => {
                Err(Error::Usage(format!("cannot load the transform in its own process: {reason}")))
            }
            Ok(Ok(())) => Ok(Ok(())),
            Err(silence) => Ok(Err(silence)),
        }
    }

    /// Sends bytes, to which the process responds with `answers` answers.
    pub(super) fn send(&mut self, bytes: &[u8], answers: usize) -> TransformReply<()> {
        self.owed = answers;
        self.reader.get_mut().write_all(bytes).map_err(|error| silence_of(&error))
    }

    /// Reads the next answer.
    pub(super) fn answer(
        &mut self,
        columns: &mut Vec<u8>,
        body: &mut Vec<u8>,
        max_size: u64,
    ) -> Result<TransformReply<TransformAnswer>> {
        self.read_reply(|reader| frame::read_answer(reader, columns, body, max_size))
    }

    fn read_reply<T>(
        &mut self,
        read: impl FnOnce(&mut BufReader<TransformSocket>) -> io::Result<T>,
    ) -> Result<TransformReply<T>> {
        match read(&mut self.reader) {
            Ok(heard) => {
                self.owed -= 1;
                Ok(Ok(heard))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::Internal(format!("invalid answer from the transform process: {error}")))
            }
            Err(error) => Ok(Err(silence_of(&error))),
        }
    }

    /// Returns whether the process has exited.
    pub(super) fn has_ended(&mut self) -> bool {
        self.reader.get_mut().look()
    }

    /// Ends the process if necessary and describes for the user how it ended.
    pub(super) fn how_it_ended(mut self) -> String {
        // A process that has closed its end of the socket is about to exit.
        let ended = self.reader.get_mut().wait();
        match ended.map(|status| (status.signal(), status.code())) {
            Some((Some(signal), _)) => format!("the process ended (signal {signal})"),
            Some((None, Some(code))) => format!("the process ended (exit code {code})"),
            _ => "the process stopped responding".to_owned(),
        }
    }
}

impl Drop for TransformProcess {
    /// Ends the process. An idle process exits when the socket closes, and a busy one is killed.
    fn drop(&mut self) {
        let owes = self.owed > 0;
        let own = self.reader.get_mut();
        let _ = own.socket.shutdown(Shutdown::Both);
        if owes || own.wait().is_none() {
            // The process might already be gone.
            let _ = own.child.kill();
        }
        let _ = own.child.wait();
    }
}

impl TransformSocket {
    /// Returns whether the process has exited.
    fn look(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended.is_some()
    }

    /// Waits briefly for the process to exit.
    fn wait(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + TRANSFORM_END_WAIT;
        let mut pause = TICK / 50;
        while !self.look() && Instant::now() < until {
            std::thread::sleep(pause);
            pause = (pause * 2).min(TICK);
        }
        self.ended
    }

    /// Decides after a tick without data whether to wait for another tick. Output that was written before the process
    /// exited is still read.
    fn go_on(&mut self) -> io::Result<()> {
        let had_ended = self.ended.is_some();
        if self.stop.is_drained() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if had_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.look();
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.go_on()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for TransformSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.go_on()?,
                other => return other,
            }
        }
    }
}

fn silence_of(error: &io::Error) -> NoTransformReply {
    if error.kind() == io::ErrorKind::TimedOut { NoTransformReply::Stopped } else { NoTransformReply::Died }
}
