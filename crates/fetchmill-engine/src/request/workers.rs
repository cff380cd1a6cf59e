//! Who fetches.

/// See the module.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of this crate, with its own transport.
    #[default]
    Native,
    /// An engine of the program in this process: it takes [`crate::Job::take_dispatcher`].
    Dispatcher,
    /// So many processes of the program's engine ([`crate::join_job`], [`crate::Job::attach`]).
    Processes(usize),
}
