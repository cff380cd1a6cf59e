//! The origins of a job: a server that lists its objects, or the origins in a list.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::panics::lock;
use fetchmill_model::source::list::origin_of;
use fetchmill_model::target::entry::ListEntry;

/// Origin of a job whose source is a server that lists its own objects.
#[derive(Clone)]
pub(crate) struct ListingServer {
    pub(crate) key: OriginKey,
    pub(crate) template: RequestTemplate,
    pub(crate) addresses: Option<Arc<[SocketAddr]>>,
}

/// Known origins of a job. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct JobOrigins {
    /// Server that lists its own objects. The origin of a bucket is known only after the first contact.
    server: OnceLock<OriginKey>,
    /// Whether a list contains more than one origin. If so, a failure of one origin does not affect the whole job.
    are_many: AtomicBool,
    /// Origin of the first target of a list.
    first: Mutex<Option<Vec<u8>>>,
}

impl JobOrigins {
    pub(crate) fn new(are_many: bool) -> Self {
        JobOrigins { server: OnceLock::new(), are_many: AtomicBool::new(are_many), first: Mutex::new(None) }
    }

    /// Sets the only origin of the job.
    pub(crate) fn set_server(&self, key: OriginKey) {
        // The key is set once, before any thread reads it.
        let _ = self.server.set(key);
    }

    pub(crate) fn are_many(&self) -> bool {
        self.are_many.load(Ordering::Relaxed)
    }

    /// Returns whether this is the only origin of the job: either it lists its own objects, or a sufficiently long part
    /// of the list contains no other origin.
    pub(crate) fn is_only(&self, key: &OriginKey, is_list_known: impl FnOnce() -> bool) -> bool {
        if let Some(server) = self.server.get() {
            return server == key;
        }
        is_list_known() && !self.are_many() && lock(&self.first).as_deref() == Some(key.text().as_bytes())
    }

    /// Returns the host of the only origin for messages, or `the server` if it is unknown.
    pub(crate) fn host_text(&self) -> String {
        let first = || lock(&self.first).as_deref().map(|first| String::from_utf8_lossy(first).into_owned());
        let key = self.server.get().map(|key| key.text().to_owned()).or_else(first);
        let host = key.as_deref().and_then(|key| key.split_once("://")).map(|(_, host)| host.to_owned());
        host.unwrap_or_else(|| "the server".to_owned())
    }

    /// Returns the origin of the first target of a list.
    pub(crate) fn first(&self) -> Option<OriginKey> {
        let first = lock(&self.first);
        let text = std::str::from_utf8(first.as_deref()?).ok()?;
        OriginKey::of_url(&format!("{text}/")).map(|(key, _)| key)
    }

    /// Records the origins of list entries. Returns whether the job now has a second origin.
    pub(crate) fn note<'e>(&self, entries: impl Iterator<Item = &'e [u8]>) -> bool {
        if self.are_many() || self.server.get().is_some() {
            return false;
        }
        let mut first = lock(&self.first);
        for entry in entries {
            let Some(origin) = origin_of(ListEntry::read(entry).url) else { continue };
            match &mut *first {
                Some(first) if first.as_slice() == origin => {}
                Some(_) => {
                    self.are_many.store(true, Ordering::Relaxed);
                    return true;
                }
                None => *first = Some(origin.to_vec()),
            }
        }
        false
    }
}
