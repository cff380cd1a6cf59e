//! The engine that fetches.

/// See the module.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this crate, with its own transport.
    #[default]
    Native,
    /// An engine of the program in this process, which uses [`crate::Job::take_dispatcher`].
    Dispatcher,
    /// This many processes of the program's engine ([`crate::join_job`], [`crate::Job::attach`]).
    Processes(usize),
}
