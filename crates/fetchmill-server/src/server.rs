//! The server as a whole: its content, its threads and their end.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection;
use crate::content::Content;
use crate::error::Error;
use crate::folder::Folder;
use crate::options::{ContentOptions, Options, refuse};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::synthetic::Synthetic;
use crate::threads::{self, Threads};
use crate::worker::Worker;

/// A running server. It ends when it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropping it ends them.
    _threads: Threads,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve the content that the options name.
    pub fn start(options: &Options) -> Result<Server, Error> {
        options.check()?;
        let content: Arc<dyn Content> = match &options.content {
            None => return refuse("content must be given: a folder or synthetic".to_owned()),
            Some(ContentOptions::Folder(path)) => Arc::new(Folder::open(path)?),
            Some(ContentOptions::Synthetic { count, size }) => {
                Arc::new(Synthetic { count: *count, size: *size })
            }
        };
        Server::start_with(content, options)
    }

    /// Starts to serve some other content.
    pub fn start_with(content: Arc<dyn Content>, options: &Options) -> Result<Server, Error> {
        options.check()?;
        let shared = Arc::new(Shared::new(content, options)?);
        let (listener, address) = threads::listen(&options.host, options.port)?;
        let serve = |position| {
            let worker = Arc::new(Worker::new(Arc::clone(&shared), position));
            move |stream| connection::serve(stream, Arc::clone(&worker))
        };
        let threads = Threads::start("fetchmill-serve", options.threads, listener, serve)?;
        Ok(Server { address, shared, _threads: threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Closes all connections and waits for the threads to end.
    pub fn stop(self) {
        drop(self);
    }
}
