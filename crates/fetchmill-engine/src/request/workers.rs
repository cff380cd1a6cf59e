//! The kind of engine that fetches.

/// Engine of a job. See the [module documentation](self).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this crate, which have their own transport.
    #[default]
    Native,
    /// An engine that the program provides and runs in this process. It uses [`crate::Job::take_dispatcher`].
    Dispatcher,
    /// An engine that the program provides and runs in this many processes ([`crate::join_job`],
    /// [`crate::Job::attach`]).
    Processes(usize),
}
