//! A dispatcher in a worker process, with its own sink and writer. It sends turns and receipts to the job over separate
//! sockets. Once the job's process is gone, nothing else becomes durable.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::dispatcher::Dispatcher;
use super::host_gate::HostGate;
use super::link::{JobLink, TurnReport};
use super::messages::{Assignment, JobMessage, JoinReply, WorkerMessage, receive, send};
use super::rules::DispatchRules;
use super::worker_threads::WorkerThreads;
use crate::control::Control;
use crate::control::journal_link::{CommitRequest, JournalRequest};
use crate::control::stop::Stop;
use crate::control::threads::spawn;
use crate::plan::planning::{WorkerFacts, plan_worker};
use crate::request::job_request::JobRequest;
use crate::request::source_options::SourceOptions;
use crate::writer;
use fetchmill_model::error::Result;
use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::planner::NextWork;
use fetchmill_model::target::Batch;
use fetchmill_model::target::extra_columns::ColumnType;

/// Data that a worker process receives from its job.
#[derive(Debug)]
pub struct WorkerProcessOptions {
    /// Index of this worker.
    pub worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// Names and types of the kept columns, if the source is a list.
    pub kept: Option<Vec<(String, ColumnType)>>,
    /// Socket for turns.
    pub turns: OwnedFd,
    /// Socket for receipts.
    pub receipts: OwnedFd,
}

/// Creates the dispatcher of a worker process for the job's `request`. Returns `None` if nothing is left to do.
pub fn join_job(request: JobRequest, joining: WorkerProcessOptions) -> Result<Option<Dispatcher>> {
    let WorkerProcessOptions { worker, workers, kept, turns, receipts } = joining;
    let turns = UnixStream::from(turns);
    let Some(JoinReply { region, clock_offset, listing }) = receive(&turns)? else { return Ok(None) };
    let plan = plan_worker(request, WorkerFacts { columns: kept, region, listing })?;
    let (to_journal, messages) = crossbeam_channel::unbounded();
    let control = Control::new(&plan, workers, None, to_journal);
    let store = &control.store;
    store.prepare(plan.pool_settings(store)?, clock_offset);
    if let SourceOptions::S3 { bucket, .. } = &plan.request.source {
        store.load(&|| control.stop.get() != Stop::No)?;
        store.place(bucket)?;
    }
    let setup = plan.sink_setup(workers)?;
    let (writer, block_sender) = writer::open(&plan, &control, &setup, worker, Vec::new())?;
    let rules = DispatchRules::new(&plan, workers)?;
    let hosts = HostGate::of_job(&plan, workers);
    let link = {
        let control = Arc::clone(&control);
        spawn("fetchmill-link", &Arc::clone(&control.stop), move || {
            link(&messages, &receipts.into(), &control);
            Ok(())
        })?
    };
    let writer = spawn("fetchmill-sink", &control.stop, move || writer.run())?;
    let job_link = RemoteLink {
        socket: turns,
        share: control.plan.share(worker),
        control: Arc::clone(&control),
        has_many_origins: false,
    };
    let mut dispatcher = Dispatcher::new(
        Arc::clone(&control),
        Box::new(job_link),
        rules,
        hosts,
        block_sender.into_block_sender(),
    );
    dispatcher.worker_process = Some(WorkerThreads { control, writer, link });
    Ok(Some(dispatcher))
}

/// Forwards receipts to the job's journal and returns the answers to the writer.
fn link(messages: &crossbeam_channel::Receiver<JournalRequest>, socket: &UnixStream, control: &Control) {
    while let Ok(message) = messages.recv() {
        // The writer of a worker process sends nothing else.
        let JournalRequest::Commit(CommitRequest::Receipt(receipt), acknowledge) = message else { continue };
        let answer = send(socket, &*receipt).and_then(|()| receive::<Option<ShardNumber>>(socket));
        let Ok(Some(number)) = answer else {
            return control.stop.ask(Stop::Abort);
        };
        let _ = acknowledge.send(number);
    }
}

/// Link to a job in another process, over a socket.
struct RemoteLink {
    socket: UnixStream,
    control: Arc<Control>,
    has_many_origins: bool,
    share: usize,
}

impl RemoteLink {
    fn call(&mut self, said: &WorkerMessage) -> Result<Option<JobMessage>> {
        if let Some(error) = self.control.stop.take_failure() {
            send(&self.socket, &WorkerMessage::Failed { code: error.exit_code(), text: error.to_string() })?;
        }
        send(&self.socket, said)?;
        if matches!(said, WorkerMessage::Ended) { Ok(None) } else { receive(&self.socket) }
    }
}

impl JobLink for RemoteLink {
    fn turn(&mut self, done: TurnReport, max: usize, patience: Duration) -> Result<NextWork> {
        let said = WorkerMessage::Turn { done, max: max as u32, patience_ms: patience.as_millis() as u32 };
        let Ok(Some(answer)) = self.call(&said) else {
            // The job's process is gone, or has closed the connection.
            self.control.stop.ask(Stop::Abort);
            return Ok(NextWork::Wait);
        };
        self.has_many_origins |= answer.has_many_origins;
        self.share = answer.share as usize;
        self.control.plan.origin_pace.set(answer.rate);
        self.control.plan.set_gate(answer.held_until, answer.probe);
        match answer.stop {
            0 => {}
            1 => self.control.stop.ask(Stop::Drain),
            _ => self.control.stop.ask(Stop::Abort),
        }
        Ok(match answer.next {
            Assignment::Targets(targets) => NextWork::Batch(Batch::Retries(targets)),
            Assignment::Wait => NextWork::Wait,
            Assignment::Done => NextWork::Done,
        })
    }

    fn has_many_origins(&self) -> bool {
        self.has_many_origins
    }

    fn share(&self) -> usize {
        self.share
    }

    fn give_back(&mut self, batch: Batch) -> Option<Batch> {
        Some(batch)
    }

    fn end(&mut self) {
        // If the job's process is gone, this message is not needed.
        let _ = self.call(&WorkerMessage::Ended);
    }
}
