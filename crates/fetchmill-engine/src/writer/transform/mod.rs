//! A user's function between an engine and a sink: fetched replies go to a process that runs it, and what it gives for
//! each is stored instead.
//!
//! A writer has one such process, so no thread that fetches ever waits for the function. Replies go in batches: one
//! that the process does not survive is given again one reply at a time, to a fresh process, and the reply that ends
//! that one too is failed(transform). What has no receipt in the journal when a job is killed is fetched and
//! transformed again.

mod frame;
mod process;

use std::borrow::Cow;
use std::sync::Arc;

use self::frame::{ReplyView, TransformAnswer};
use self::process::{NoTransformReply, TransformProcess};
use crate::control::Control;
use crate::plan::job_plan::JobPlan;
use crate::request::storing_options::TransformOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::limits::{BODY_MEMORY_BYTES_MAX, TRANSFORM_BATCH_BYTES, TRANSFORM_STARTS_MAX};
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::target::extra_columns::{ColumnType, extra_values, write_extra};
use fetchmill_store::sink::{
    Block, BlockBody, BlockEntry, EntryDescription, FetchedBody, Stage, StoredParts,
};

/// What a transform needs of its job.
pub(crate) struct TransformSetup {
    pub(crate) worker: usize,
    pub(crate) control: Arc<Control>,
    pub(crate) process: TransformOptions,
    /// Columns that the function may fill.
    pub(crate) columns: Vec<String>,
    /// What their values must be.
    pub(crate) types: Vec<ColumnType>,
    /// Replies that it is given at once.
    pub(crate) batch: usize,
    /// How many columns are kept of a list: the function's are behind them.
    pub(crate) list_columns: usize,
    /// Bytes of a result.
    pub(crate) max_size: u64,
    /// Where bodies lie that were too large for memory, and results that are.
    pub(crate) stage: Arc<Stage>,
    /// Where a server that lists its objects has them: the origin, and the path of each.
    pub(crate) server: Option<(String, RequestTemplate)>,
    /// Whether the sink has a column for URLs.
    pub(crate) stores_url: bool,
    /// Whether the sink stores anything of an object.
    pub(crate) stores_bodies: bool,
}

/// See the module.
pub(crate) struct Transform {
    setup: TransformSetup,
    process: Option<TransformProcess>,
    request: Vec<u8>,
    /// Of the last answer.
    body: Vec<u8>,
    columns: Vec<u8>,
    made: Block,
}

/// How far a transform came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransformProgress {
    /// To the end.
    Done,
    /// The job ends and waits no longer: what is not done will be fetched again.
    Stopped,
}

/// How a batch ended.
enum BatchAttempt {
    Over(TransformProgress),
    /// The process did, with so many replies answered; how, for people.
    Died(usize, String),
}

/// What a worker's writer gives replies to before it stores them, if the job has something for that.
pub(crate) fn of_worker(
    plan: &JobPlan,
    control: &Arc<Control>,
    worker: usize,
    stage: &Arc<Stage>,
) -> Result<Option<Transform>> {
    let request = &plan.request;
    let Some(transform) = &request.transform else { return Ok(None) };
    Ok(Some(Transform::new(TransformSetup {
        worker,
        control: Arc::clone(control),
        process: transform.clone(),
        columns: request.transform_columns.clone(),
        types: plan.types_of(&request.transform_columns),
        batch: request.transform_batch,
        list_columns: plan.columns.kept().len()
            - request.transform_columns.len()
            - usize::from(request.hash.is_some()),
        max_size: request.http.max_size,
        stage: Arc::clone(stage),
        server: plan
            .server()?
            .filter(|_| !plan.naming().has_url())
            .map(|(key, template)| (key.text().to_owned(), template)),
        stores_url: plan.stored_columns().has_url(),
        stores_bodies: request.format.properties().keeps >= StoredParts::Bodies,
    })))
}

impl Transform {
    pub(crate) fn new(setup: TransformSetup) -> Self {
        Transform {
            setup,
            process: None,
            request: Vec::new(),
            body: Vec::new(),
            columns: Vec::new(),
            made: Block::default(),
        }
    }

    /// Starts the process and waits until it has the function. The thread must live as long as the transform: the
    /// process ends with it.
    pub(crate) fn start(&mut self) -> Result<TransformProgress> {
        let mut last = String::new();
        for _ in 0..TRANSFORM_STARTS_MAX {
            let mut process = TransformProcess::spawn(&self.setup.process.command, &self.setup.control.stop)?;
            match process.prepare(&self.setup.process.setup)? {
                Ok(()) => {
                    self.process = Some(process);
                    return Ok(TransformProgress::Done);
                }
                Err(NoTransformReply::Stopped) => return Ok(TransformProgress::Stopped),
                Err(NoTransformReply::Died) => last = process.how_it_ended(),
            }
        }
        Err(Error::Usage(format!(
            "the transform cannot be started: {last} before it was ready, {TRANSFORM_STARTS_MAX} times"
        )))
    }

    /// Makes what is to be stored of a block, and hands it on in parts: `store` may be called any number of times.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<TransformProgress> {
        for entry in block.entries().iter().filter(|entry| entry.outcome != Outcome::Fetched) {
            let BlockEntry { sequence, outcome, status, attempts, .. } = *entry;
            self.made.push_other(sequence, outcome, status, attempts, &block.described(entry));
        }
        let fetched: Vec<&BlockEntry> = block.fetched(0).map(|(_, entry)| entry).collect();
        let mut rest = fetched.as_slice();
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(self.batch_length(rest));
            let progress = self.batch(block, batch, store)?;
            self.pass_on(store)?;
            if progress == TransformProgress::Stopped {
                return Ok(progress);
            }
            rest = behind;
        }
        self.pass_on(store)?;
        Ok(TransformProgress::Done)
    }

    fn pass_on(&mut self, store: &mut dyn FnMut(&Block) -> Result<()>) -> Result<()> {
        if !self.made.is_empty() {
            store(&self.made)?;
            self.made.clear();
        }
        Ok(())
    }

    /// How many of these go to the function at once.
    fn batch_length(&self, entries: &[&BlockEntry]) -> usize {
        let mut bytes = 0;
        let fitting = entries.iter().take(self.setup.batch).take_while(|entry| {
            let has_room = bytes < TRANSFORM_BATCH_BYTES;
            bytes += entry.body.len();
            has_room
        });
        fitting.count()
    }

    /// A batch, and when the process does not survive it what is left of it one by one.
    fn batch(
        &mut self,
        block: &Block,
        batch: &[&BlockEntry],
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<TransformProgress> {
        let (answered, how) = match self.attempt(block, batch, store)? {
            BatchAttempt::Over(progress) => return Ok(progress),
            BatchAttempt::Died(answered, how) => (answered, how),
        };
        if let [only] = batch {
            self.fail(block, only, &how)?;
            return Ok(TransformProgress::Done);
        }
        for entry in &batch[answered..] {
            match self.attempt(block, &[*entry], store)? {
                BatchAttempt::Over(TransformProgress::Stopped) => return Ok(TransformProgress::Stopped),
                BatchAttempt::Died(0, how) => self.fail(block, entry, &how)?,
                // Or it gave its answer before it ended.
                BatchAttempt::Over(TransformProgress::Done) | BatchAttempt::Died(..) => {}
            }
        }
        Ok(TransformProgress::Done)
    }

    fn attempt(
        &mut self,
        block: &Block,
        batch: &[&BlockEntry],
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<BatchAttempt> {
        if self.setup.control.stop.is_drained() {
            return Ok(BatchAttempt::Over(TransformProgress::Stopped));
        }
        // One that ended while it had nothing to do is nobody's fault.
        self.process.take_if(TransformProcess::has_ended);
        if self.process.is_none() && self.start()? == TransformProgress::Stopped {
            return Ok(BatchAttempt::Over(TransformProgress::Stopped));
        }
        let Some(mut process) = self.process.take() else {
            return Err(Error::Internal("a transform has no process".into()));
        };
        self.write_request(block, batch)?;
        let mut answered = 0;
        Ok(match self.call(&mut process, block, batch, &mut answered, store)? {
            Ok(()) => {
                self.process = Some(process);
                BatchAttempt::Over(TransformProgress::Done)
            }
            Err(NoTransformReply::Stopped) => BatchAttempt::Over(TransformProgress::Stopped),
            Err(NoTransformReply::Died) => BatchAttempt::Died(answered, process.how_it_ended()),
        })
    }

    /// Sends the request and takes the answers, each as it comes.
    fn call(
        &mut self,
        process: &mut TransformProcess,
        block: &Block,
        batch: &[&BlockEntry],
        answered: &mut usize,
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<std::result::Result<(), NoTransformReply>> {
        if let Err(silence) = process.send(&self.request, batch.len()) {
            return Ok(Err(silence));
        }
        for entry in batch {
            let answer = match process.answer(&mut self.columns, &mut self.body, self.setup.max_size)? {
                Ok(answer) => answer,
                Err(silence) => return Ok(Err(silence)),
            };
            self.settle(block, entry, answer)?;
            *answered += 1;
            if self.made.is_full() {
                self.pass_on(store)?;
            }
        }
        Ok(Ok(()))
    }

    fn write_request(&mut self, block: &Block, batch: &[&BlockEntry]) -> Result<()> {
        let mut request = frame::TransformRequest::new(&mut self.request);
        for entry in batch {
            let facts = block.facts(entry);
            let path = match entry.body {
                BlockBody::Spilled(_) => Some(self.setup.stage.path_of(entry.sequence)?),
                BlockBody::Inside(_) | BlockBody::Dropped(_) => None,
            };
            request.add(&ReplyView {
                name: block.name(entry),
                url: &self.setup.url(facts.listed.unwrap_or(block.name(entry)), &facts),
                path: path.as_deref(),
                body: block.body(entry),
                facts,
            });
        }
        request.finish()
    }

    /// What the function gave for a reply.
    fn settle(&mut self, block: &Block, entry: &BlockEntry, answer: TransformAnswer) -> Result<()> {
        match answer {
            TransformAnswer::Stored => match self.setup.wrong_value(&self.columns) {
                Some(detail) => self.fail(block, entry, &detail),
                None => self.store(block, entry),
            },
            TransformAnswer::Dropped => {
                let facts = self.listed_facts(block, entry);
                self.leave(
                    entry,
                    Outcome::Skipped(SkipReason::Dropped),
                    &EntryDescription::fetched(block.name(entry), &facts),
                )
            }
            TransformAnswer::Failed => {
                let detail = frame::one_line(&self.body);
                self.fail(block, entry, &detail)
            }
        }
    }

    fn store(&mut self, block: &Block, entry: &BlockEntry) -> Result<()> {
        self.forget_staged(entry)?;
        let length = self.body.len() as u64;
        let body = if !self.setup.stores_bodies {
            FetchedBody::Dropped(length)
        } else if self.body.len() > BODY_MEMORY_BYTES_MAX {
            self.setup.stage.write(entry.sequence, &self.body, None)?;
            FetchedBody::Spilled(length)
        } else {
            FetchedBody::Bytes(&self.body)
        };
        let name = block.name(entry);
        let facts = block.facts(entry);
        let url = self.setup.url(facts.listed.unwrap_or(name), &facts);
        let kept = self.setup.kept(facts.kept, &self.columns);
        let facts = Facts {
            url: if self.setup.is_of_server() && self.setup.stores_url { Some(&*url) } else { facts.url },
            kept: kept.as_deref().or(facts.kept),
            // They are those of other bytes: WARC stores a resource.
            head: None,
            content_encoding: facts.content_encoding.filter(|_| self.body == block.body(entry)),
            ..facts
        };
        self.made.push_fetched(entry.sequence, entry.attempts, name, body, &facts);
        self.count(Outcome::Fetched, length, entry);
        if self.body.capacity() > BODY_MEMORY_BYTES_MAX {
            self.body = Vec::new();
        }
        Ok(())
    }

    fn fail(&mut self, block: &Block, entry: &BlockEntry, detail: &str) -> Result<()> {
        let facts = self.listed_facts(block, entry);
        let target = EntryDescription {
            detail: Some(detail.as_bytes()),
            ..EntryDescription::fetched(block.name(entry), &facts)
        };
        self.leave(entry, Outcome::Failed(FailureKind::Transform), &target)
    }

    /// What a list says of a reply; the URL of a server's object is its name.
    fn listed_facts<'b>(&self, block: &'b Block, entry: &BlockEntry) -> Facts<'b> {
        let facts = block.facts(entry);
        Facts { url: facts.url.filter(|_| !self.setup.is_of_server()), ..facts }
    }

    /// A reply of which nothing is stored.
    fn leave(&mut self, entry: &BlockEntry, outcome: Outcome, target: &EntryDescription<'_>) -> Result<()> {
        self.forget_staged(entry)?;
        self.made.push_other(entry.sequence, outcome, entry.status, entry.attempts, target);
        self.count(outcome, 0, entry);
        Ok(())
    }

    fn count(&self, outcome: Outcome, bytes: u64, entry: &BlockEntry) {
        self.setup.control.counters[self.setup.worker].transform(outcome, bytes, entry.body.len());
    }

    fn forget_staged(&self, entry: &BlockEntry) -> Result<()> {
        match entry.body {
            BlockBody::Spilled(_) => self.setup.stage.remove(entry.sequence),
            BlockBody::Inside(_) | BlockBody::Dropped(_) => Ok(()),
        }
    }
}

impl TransformSetup {
    fn is_of_server(&self) -> bool {
        self.server.is_some()
    }

    /// Where a reply came from.
    fn url<'u>(&self, name: &'u [u8], facts: &Facts<'u>) -> Cow<'u, [u8]> {
        match (facts.url, &self.server) {
            (Some(url), _) => Cow::Borrowed(url),
            (None, None) => Cow::Borrowed(name),
            (None, Some((origin, template))) => {
                let mut url = origin.clone().into_bytes();
                template.write_target(name, &mut url);
                Cow::Owned(url)
            }
        }
    }

    /// What is wrong with the values that the function gave, if one is not what was said of its column.
    fn wrong_value(&self, columns: &[u8]) -> Option<String> {
        let told = self.columns.iter().zip(&self.types).zip(frame::values(columns));
        told.filter_map(|((name, kind), value)| Some((name, kind, value?)))
            .find(|(_, kind, value)| kind.read(value).is_none())
            .map(|(name, kind, value)| {
                format!("column {name} is no {}: {}", kind.name(), frame::one_line(value))
            })
    }

    /// The values of all columns: those of the list and behind them the function's; none when it fills none.
    fn kept(&self, of_list: Option<&[u8]>, columns: &[u8]) -> Option<Vec<u8>> {
        if self.columns.is_empty() {
            return None;
        }
        let mut kept = Vec::new();
        let known = extra_values(of_list.unwrap_or_default()).chain(std::iter::repeat(None));
        write_extra(known.take(self.list_columns), &mut kept);
        let made =
            frame::values(columns).map(Option::Some).chain(std::iter::repeat(None)).map(Option::flatten);
        write_extra(made.take(self.columns.len()), &mut kept);
        Some(kept)
    }
}
