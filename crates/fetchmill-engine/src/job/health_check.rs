//! The thread that checks an origin. It requests a previously fetched object, or the first page of the listing, and
//! discards the body. The planner decides when to check (`planner/probing.rs`).
//!
//! Like the listing, this thread sends its own requests, whichever engine is used. It sends one at a time, each on a
//! new connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::access::s3::BucketResolver;
use crate::control::Control;
use crate::control::health_check_link::OriginQuestion;
use crate::control::stop::Stop;
use crate::event_queues::network_runtime;
use crate::fetch::target::CurrentTarget;
use crate::plan::job_origins::ListingServer;
use fetchmill_model::error::Result;
use fetchmill_model::http1::DiscardedBody;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::planner::probing::{HealthCheck, HealthStatus};
use fetchmill_model::target::entry::Naming;
use fetchmill_net::{
    AddressPolicy, ConnectFailure, Connection, Deadlines, IoBuffers, Pool, PoolSettings, RequestTarget,
};

/// Settings and shared parts of the checking thread.
pub(crate) struct HealthChecker {
    pub(crate) control: Arc<Control>,
    /// The job's only origin, if the source is a server that lists its own objects.
    pub(crate) server: Option<ListingServer>,
    pub(crate) pool: PoolSettings,
    pub(crate) naming: Naming,
    /// URL of the listing's first page. `None` if the page would reveal nothing about the origin.
    pub(crate) first_page: Option<String>,
}

impl HealthChecker {
    /// Answers questions until the channel closes.
    pub(crate) fn run(&self, questions: &Receiver<OriginQuestion>) -> Result<()> {
        while let Ok(question) = questions.recv() {
            match question {
                OriginQuestion::Health(asked) => {
                    let status = self.ask(&asked)?.health();
                    if self.control.stop.get() == Stop::No {
                        self.control.health_checked(&asked, status);
                    }
                }
                OriginQuestion::Access(entry, refused) => {
                    let answer = self.ask(&HealthCheck::Object(entry))?;
                    let answered =
                        if let Answer::Status { status, .. } = answer { Some(status) } else { None };
                    if self.control.stop.get() == Stop::No {
                        self.control.access_checked(refused, answered);
                    }
                }
            }
        }
        Ok(())
    }

    fn ask(&self, asked: &HealthCheck) -> Result<Answer> {
        Ok(match self.find(asked) {
            Some((key, path)) => network_runtime()?.block_on(self.check(&key, &path)),
            None => Answer::Unknown,
        })
    }

    /// Returns the location of the object or page to request.
    fn find(&self, asked: &HealthCheck) -> Option<(OriginKey, String)> {
        let url = match asked {
            HealthCheck::FirstPage => self.first_page.clone()?,
            HealthCheck::Object(entry) => {
                let mut target = CurrentTarget::default();
                let places = BucketResolver::new(Arc::clone(&self.control.store));
                target.start(entry);
                target.read_entry(self.naming, None, &mut Vec::new(), Some(&places)).ok()?;
                if target.at.url.is_empty() {
                    let server = self.server.as_ref()?;
                    let mut path = Vec::new();
                    server.template.write_target(target.name(self.naming), &mut path);
                    return Some((server.key.clone(), String::from_utf8_lossy(&path).into_owned()));
                }
                target.at.url
            }
        };
        let (key, path) = OriginKey::of_url(&url)?;
        Some((key, path.to_owned()))
    }

    async fn check(&self, key: &OriginKey, path: &str) -> Answer {
        let control = &self.control;
        let clock = Rc::new(Cell::new(control.clock.now()));
        let settings = PoolSettings { connections: 1, times_phases: false, ..self.pool.clone() };
        let watch = Deadlines::new(Rc::clone(&clock), settings.timeouts);
        let max_body = settings.max_body;
        let pool = Pool::new(settings, Rc::clone(&clock));
        let origin = match &self.server {
            Some(server) if server.key == *key => {
                let ListingServer { key, template, addresses } = server.clone();
                pool.add(key, template, addresses)
            }
            _ => match pool.origin(key) {
                Ok(origin) => origin,
                Err(_) => return Answer::Unknown,
            },
        };
        let mut connection = Connection::default();
        pool.switch(&mut connection, &origin);
        let buffers = IoBuffers::default();
        let exchange = async {
            match pool.open(&mut connection, &watch, AddressPolicy::Anywhere).await {
                Ok(()) => {}
                Err(ConnectFailure::Failed(_)) => return Answer::Down,
                // The cause is this machine, not the origin.
                Err(ConnectFailure::Exhausted(_)) => return Answer::Unknown,
            }
            let replied = connection
                .exchange(RequestTarget::Path(path), &buffers, &mut DiscardedBody, &watch, max_body)
                .await;
            match replied {
                Ok(replied) => {
                    let (status, asks_to_wait) = (replied.head.status, replied.head.retry_after.is_some());
                    Answer::Status { status, is_well: control.retried.is_well(status, asks_to_wait) }
                }
                Err(broken) if !broken.kind.is_retryable() => Answer::Unusable,
                Err(_) => Answer::Down,
            }
        };
        let tick = async {
            let mut tick = tokio::time::interval(limits::TICK);
            loop {
                tick.tick().await;
                pool.tick(control.clock.now());
                if control.stop.get() == Stop::No {
                    watch.check();
                } else {
                    watch.expire(FailureKind::TotalTimeout);
                }
            }
        };
        tokio::select! {
            status = exchange => status,
            never = tick => never,
        }
    }
}

/// Result of a check.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// A complete reply, which shows whether the server works.
    Status {
        status: u16,
        is_well: bool,
    },
    /// An unusable reply from a server that is not in trouble.
    Unusable,
    Down,
    /// Unknown, because this thread cannot send the request.
    Unknown,
}

impl Answer {
    fn health(self) -> HealthStatus {
        match self {
            Answer::Status { is_well: true, .. } | Answer::Unusable => HealthStatus::Healthy,
            Answer::Status { .. } | Answer::Down => HealthStatus::Down,
            Answer::Unknown => HealthStatus::Unknown,
        }
    }
}
