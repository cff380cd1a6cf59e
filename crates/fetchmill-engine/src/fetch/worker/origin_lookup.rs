//! Finds the connections to a target's origin.

use std::cell::RefCell;
use std::rc::Rc;

use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_net::{OriginConnections, Pool};

/// Origins of a worker's targets: the server that lists its own objects, and the origin of the last URL.
pub(super) struct OriginLookup {
    server: Option<Rc<OriginConnections>>,
    last: RefCell<Option<Rc<OriginConnections>>>,
}

impl OriginLookup {
    pub(super) fn new(server: Option<Rc<OriginConnections>>) -> Self {
        OriginLookup { server, last: RefCell::new(None) }
    }

    /// Returns the job's only origin, if the source is a server that lists its own objects.
    pub(super) fn server(&self) -> Option<&Rc<OriginConnections>> {
        self.server.as_ref()
    }

    /// Returns the origin of a target's URL. The URL is empty if the target is on the server that listed it.
    pub(super) fn of_target(&self, url: &str, pool: &Pool) -> Result<Rc<OriginConnections>, FailureKind> {
        match &self.server {
            Some(server) if url.is_empty() => Ok(Rc::clone(server)),
            _ => self.of_url(url, pool),
        }
    }

    /// Returns the origin of a URL, which is usually the origin of the previous URL.
    fn of_url(&self, url: &str, pool: &Pool) -> Result<Rc<OriginConnections>, FailureKind> {
        let mut last = self.last.borrow_mut();
        if let Some(last) = last.as_ref().filter(|last| last.key.path_of(url).is_some()) {
            return Ok(Rc::clone(last));
        }
        let (key, _) = OriginKey::of_url(url).ok_or(FailureKind::Url)?;
        let origin = pool.origin(&key).map_err(|_| FailureKind::Url)?;
        *last = Some(Rc::clone(&origin));
        Ok(origin)
    }
}
