//! Messages between a worker process and its job. A frame on the socket consists of a length and that many bytes. Both
//! sides run the same program.

use std::io::{ErrorKind, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link::TurnReport;
use crate::request::source_options::Listing;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::target::{Sequence, WaitingTarget};

/// Maximum frame size in bytes. A batch of 4,096 targets with names of maximum length needs a quarter of this size.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// First message to a worker process. It means that the files of a dead predecessor were recovered and that the process
/// can start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JoinReply {
    /// Detected region of the bucket.
    pub(super) region: Option<String>,
    /// Seconds by which the store's clock is ahead of this machine's clock.
    pub(super) clock_offset: i64,
    /// Type of the server's listing.
    pub(super) listing: Listing,
}

/// A message from a worker process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerMessage {
    /// See [`super::link::JobLink::turn`].
    Turn { done: TurnReport, max: u32, patience_ms: u32 },
    /// The sink or something else on this machine failed. Contains the exit code and the reason.
    Failed { code: i32, text: String },
    /// Everything that the process did is durable.
    Ended,
}

/// A message to a worker process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobMessage {
    /// The job's `Stop` state as a number.
    pub(super) stop: u8,
    pub(super) has_many_origins: bool,
    /// Maximum number of requests in flight.
    pub(super) share: u32,
    /// Request rate for this worker while the origin throttles requests.
    pub(super) rate: Option<f64>,
    /// End of the hold while the origin is in trouble. `probe` is the target that is exempt from the hold.
    pub(super) held_until: Millis,
    pub(super) probe: Option<Sequence>,
    pub(super) next: Assignment,
}

/// Next work for a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Assignment {
    Targets(Vec<WaitingTarget>),
    Wait,
    Done,
}

/// Writes a frame.
pub(super) fn send<T: Serialize>(mut socket: impl Write, message: &T) -> Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(|error| Error::Internal(error.to_string()))?;
    let mut frame = (bytes.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&bytes);
    socket.write_all(&frame).map_err(|error| broken(&error))
}

/// Reads a frame. Returns `None` if the other side is gone.
pub(super) fn receive<T: DeserializeOwned>(mut socket: impl Read) -> Result<Option<T>> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(broken(&error)),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(Error::Internal(format!("a message of {length} bytes is too large for the protocol")));
    }
    let mut bytes = vec![0; length];
    match socket.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(broken(&error)),
    }
    postcard::from_bytes(&bytes).map(Some).map_err(|error| Error::Internal(error.to_string()))
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn broken(error: &std::io::Error) -> Error {
    Error::Internal(format!("the processes of the job cannot communicate: {error}"))
}

/// Returns the error that a worker process reported.
pub(super) fn error_of(code: i32, text: String) -> Error {
    match code {
        2 => Error::Usage(text),
        5 => Error::Temporary(text),
        6 => Error::Security(text),
        7 => Error::NoRoom(text),
        10 => Error::Journal(text),
        _ => Error::Internal(text),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use fetchmill_model::outcome::{FailureKind, Outcome, Receipt, Runs, SealedShard, ShardEnd};
    use fetchmill_model::text::file_name::FileName;

    #[test]
    fn what_is_sent_arrives_and_an_end_is_told() {
        let (one, other) = UnixStream::pair().unwrap();
        let end = ShardEnd { path: FileName::of_own("0-1-2.shard"), end: 7, crc32c: 9 };
        let receipt = Receipt {
            worker: 3,
            settled: Runs::from_unsorted(&mut [1, 2, 9]),
            sealed: Some(SealedShard {
                data: end.clone(),
                manifest: end,
                objects: 3,
                bytes: 5,
                replaces: vec![1],
            }),
            ..Receipt::default()
        };
        let target = WaitingTarget {
            sequence: u64::MAX,
            name: b"\xff\0name"[..].into(),
            attempts: 1,
            kind: FailureKind::Worker,
            not_before: 5,
            throttled_since: 6,
        };

        send(&one, &receipt).unwrap();
        let next = Assignment::Targets(vec![target.clone()]);
        let told = JobMessage {
            stop: 1,
            has_many_origins: true,
            share: 17,
            rate: Some(0.5),
            held_until: u64::MAX,
            probe: Some(3),
            next,
        };
        send(&one, &told).unwrap();
        send(&one, &Outcome::Failed(FailureKind::Url)).unwrap();
        drop(one);

        let arrived: Receipt = receive(&other).unwrap().unwrap();
        assert_eq!((arrived.worker, arrived.settled, arrived.sealed), (3, receipt.settled, receipt.sealed));
        let Some(JobMessage {
            stop: 1,
            has_many_origins: true,
            share: 17,
            rate: Some(0.5),
            held_until: u64::MAX,
            probe: Some(3),
            next: Assignment::Targets(targets),
        }) = receive(&other).unwrap()
        else {
            panic!("another message")
        };
        assert_eq!(targets, [target]);
        assert_eq!(receive(&other).unwrap(), Some(Outcome::Failed(FailureKind::Url)));
        assert_eq!(receive::<Outcome>(&other).unwrap(), None);
    }

    #[test]
    fn an_error_keeps_its_exit_code() {
        for code in [1, 2, 5, 6, 7, 10] {
            assert_eq!(error_of(code, "why".into()).exit_code(), code);
        }
    }

    #[test]
    fn what_is_too_long_or_no_message_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(receive::<Outcome>(&other).is_err());

        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&[1, 0, 0, 0, 77]).unwrap();
        assert!(receive::<Outcome>(&other).is_err());
    }
}
