//! What all threads of a server share: the content, the compiled options and everybody's counters.

use std::sync::Arc;

use crate::content::Content;
use crate::error::Error;
use crate::faults::Faults;
use crate::options::{Delay, Options};
use crate::reply::GetHead;
use crate::stats::{Counters, Stats};

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) content: Arc<dyn Content>,
    pub(crate) faults: Faults,
    /// What the head of a `/get` starts with.
    pub(crate) get_head: Vec<u8>,
    pub(crate) page_size: usize,
    pub(crate) get_delay: Option<Delay>,
    pub(crate) list_delay: Option<Delay>,
    /// Whether any request may have to wait or go wrong: the one thing that the plain way looks at.
    pub(crate) scripted: bool,
    pub(crate) seed: u64,
    pub(crate) counters: Vec<Counters>,
}

impl Shared {
    pub(crate) fn new(content: Arc<dyn Content>, options: &Options) -> Result<Self, Error> {
        let faults = Faults::new(&options.faults, options.seed)?;
        let get_delay = Delay::new("delay", options.delay, options.delay_steps)?;
        let list_delay = Delay::new("list_delay", options.list_delay, false)?;
        Ok(Shared {
            get_head: GetHead::prepare(content.content_type()),
            content,
            page_size: options.page_size,
            scripted: !faults.is_empty() || get_delay.is_some() || list_delay.is_some(),
            faults,
            get_delay,
            list_delay,
            seed: options.seed,
            counters: (0..options.threads).map(|_| Counters::default()).collect(),
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats::sum(self.counters.iter(), self.content.unlisted())
    }
}
