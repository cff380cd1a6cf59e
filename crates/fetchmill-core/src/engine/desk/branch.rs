//! A desk in a worker's own process: its sink and the writer beside it are here; turns and receipts go to the job over
//! a socket each. When the job's process is gone nothing is made durable any more.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::line::{Done, Line};
use super::wire::{Said, Todo, Told, Welcome, receive, send};
use super::{Desk, Rules};
use crate::engine::control::{Control, Stop};
use crate::engine::options::{JobOptions, SourceOptions};
use crate::engine::recorder::ToJournal;
use crate::engine::threads::{join, spawn};
use crate::engine::writer;
use crate::error::Result;
use crate::journal::Place;
use crate::kept::Columns;
use crate::outcome::ShardNumber;
use crate::planner::Next;
use crate::target::Batch;

/// What a worker's process is told by the job's.
#[derive(Debug)]
pub struct Joining {
    /// Which worker it is.
    pub worker: usize,
    /// Of how many.
    pub workers: usize,
    /// What the kept columns are called, when the source is a list.
    pub kept: Option<Vec<String>>,
    /// The ends of the two sockets.
    pub turns: OwnedFd,
    /// See `turns`.
    pub receipts: OwnedFd,
}

/// The threads beside a desk in its own process.
pub(super) struct Branch {
    control: Arc<Control>,
    writer: JoinHandle<Option<()>>,
    link: JoinHandle<Option<()>>,
}

impl Branch {
    /// Until all is durable, or cannot be.
    pub(super) fn wait(self) {
        join(self.writer, &self.control);
        self.control.end_journal();
        join(self.link, &self.control);
    }
}

/// Makes a desk in a worker's process. The options are the job's. None: the job has nothing to do any more.
pub fn join_job(mut options: JobOptions, joining: Joining) -> Result<Option<Desk>> {
    let Joining { worker, workers, kept, turns, receipts } = joining;
    let turns = UnixStream::from(turns);
    let Some(Welcome { region, clock_offset }) = receive(&turns)? else { return Ok(None) };
    options.s3.resolve()?;
    options.s3.region = region.or(options.s3.region);
    if let Some(kept) = kept {
        options.columns = Columns::of_list(kept)?;
    }
    options.add_transformed_columns()?;
    let place = Place::find(&options.dest, options.state.as_deref())?;
    let (to_journal, messages) = crossbeam_channel::unbounded();
    let control = Control::new(&options, workers, None, to_journal);
    let store = control.store();
    store.prepare(options.pool_settings(store)?, clock_offset);
    if let SourceOptions::S3 { bucket, .. } = &options.source {
        store.load(&|| control.stop() != Stop::No)?;
        store.place(bucket)?;
    }
    let setup = options.sink_setup(&place, workers)?;
    let (writer, post) = writer::open(&place, &options, &control, &setup, worker, Vec::new())?;
    let rules = Rules::new(&options, workers)?;
    let hosts = options.host_gate(workers);
    let link = {
        let control = Arc::clone(&control);
        spawn("fetchmill-link", &Arc::clone(&control), move || {
            link(&messages, &receipts.into(), &control);
            Ok(())
        })?
    };
    let writer = spawn("fetchmill-sink", &control, move || writer.run())?;
    let line = FarLine { socket: turns, control: Arc::clone(&control), has_many_origins: false };
    let mut desk = Desk::new(Arc::clone(&control), Box::new(line), rules, hosts, post.into_post());
    desk.branch = Some(Branch { control, writer, link });
    Ok(Some(desk))
}

/// Carries receipts to the job's journal, and its answers back.
fn link(messages: &crossbeam_channel::Receiver<ToJournal>, socket: &UnixStream, control: &Control) {
    while let Ok(message) = messages.recv() {
        // A worker sends nothing else.
        let ToJournal::Receipt(receipt, acknowledge) = message else { continue };
        let answer = send(socket, &*receipt).and_then(|()| receive::<Option<ShardNumber>>(socket));
        let Ok(Some(number)) = answer else {
            return control.ask_to_stop(Stop::Abort);
        };
        let _ = acknowledge.send(number);
    }
}

/// Turns over a socket.
struct FarLine {
    socket: UnixStream,
    control: Arc<Control>,
    has_many_origins: bool,
}

impl FarLine {
    fn exchange(&mut self, said: &Said) -> Result<Option<Told>> {
        if let Some(error) = self.control.take_failure() {
            send(&self.socket, &Said::Failed { code: error.exit_code(), text: error.to_string() })?;
        }
        send(&self.socket, said)?;
        if matches!(said, Said::Ended) { Ok(None) } else { receive(&self.socket) }
    }
}

impl Line for FarLine {
    fn turn(&mut self, done: Done, max: usize, patience: Duration) -> Result<Next> {
        let said = Said::Turn { done, max: max as u32, patience_ms: patience.as_millis() as u32 };
        let Ok(Some(told)) = self.exchange(&said) else {
            // The job's process is gone, or has given this one up.
            self.control.ask_to_stop(Stop::Abort);
            return Ok(Next::Wait);
        };
        self.has_many_origins |= told.has_many_origins;
        self.control.origin_pace.set(told.rate);
        match told.stop {
            0 => {}
            1 => self.control.ask_to_stop(Stop::Drain),
            _ => self.control.ask_to_stop(Stop::Abort),
        }
        Ok(match told.next {
            Todo::Targets(targets) => Next::Batch(Batch::Retries(targets)),
            Todo::Wait => Next::Wait,
            Todo::Done => Next::Done,
        })
    }

    fn has_many_origins(&self) -> bool {
        self.has_many_origins
    }

    fn end(&mut self) {
        // Whoever is not there any more need not know.
        let _ = self.exchange(&Said::Ended);
    }
}
