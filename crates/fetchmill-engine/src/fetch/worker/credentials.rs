//! The credentials that requests use: those of a store, or bearer tokens from a command.

use std::time::Duration;

use super::state::Worker;
use crate::access::renewal::Renewal;
use crate::fetch::target::CurrentTarget;
use fetchmill_model::error::Error;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginKey;

impl Worker {
    /// Records the current generation of the credentials, which is the earliest one that a request to this origin can
    /// use.
    pub(super) fn note_credentials(&self, target: &mut CurrentTarget, key: &OriginKey) {
        let tokens = self.control().tokens.as_ref().filter(|tokens| tokens.is_for(key));
        target.shows_token = tokens.is_some();
        if let Some(tokens) = tokens {
            target.credentials_generation = tokens.generation();
        } else if target.is_of_store {
            target.credentials_generation = self.control().store.generation();
        }
    }

    /// Records the status of a reply to a request with a token.
    pub(super) fn note_token(&self, target: &CurrentTarget, status: u16) {
        if let Some(tokens) = self.control().tokens.as_ref().filter(|_| target.shows_token) {
            tokens.note_reply(status, target.credentials_generation);
        }
    }

    /// Returns the state of the renewal after the credentials of the target's last request were rejected.
    pub(super) fn renew(&self, target: &CurrentTarget) -> Renewal {
        let control = self.control();
        match control.tokens.as_ref().filter(|_| target.shows_token) {
            Some(tokens) => tokens.renew(target.credentials_generation),
            None => control.store.renew(target.credentials_generation),
        }
    }

    /// Waits for newer credentials. Returns `false` if none are available or the job ends. In both cases the target
    /// stays pending. While it waits, the target keeps its connection, so that no other target is requested with the
    /// expired credentials.
    pub(super) async fn renewed(&self, target: &CurrentTarget) -> bool {
        loop {
            match self.renew(target) {
                Renewal::Newer => return true,
                Renewal::Pending if self.supply.is_done() => return false,
                Renewal::Pending => {
                    tokio::time::sleep(Duration::from_millis(limits::RENEWAL_WAIT)).await;
                }
                Renewal::Failed(why) => {
                    self.control().stop.fail(Error::Temporary(why));
                    return false;
                }
            }
        }
    }
}
