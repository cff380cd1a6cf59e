//! How far a body is that may break off: what the head of its first reply has said, and what the last request brings.

use fetchmill_model::http1::Head;
use fetchmill_model::verdict::{ResumedReply, Resumption};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct BodyProgress {
    /// The rest may be asked for when it breaks off,
    may_break: bool,
    /// and this is what the head has said, then.
    resumption: Option<Resumption>,
    phase: BodyPhase,
    /// Bytes that the last request brought.
    brought: u64,
}

/// What comes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BodyPhase {
    /// All of the object.
    #[default]
    First,
    /// Nothing: it broke off, and the rest is asked for.
    BrokenOff,
    /// The rest.
    Rest,
    /// All of the object in place of the rest.
    Anew,
    /// Anything else in its place.
    Other,
}

impl BodyProgress {
    /// It may break off, and go on with the rest.
    pub(super) fn expect_break(&mut self) {
        self.may_break = true;
    }

    /// Another target's body comes.
    pub(super) fn start(&mut self) {
        *self = BodyProgress::default();
    }

    /// What has come is forgotten.
    pub(super) fn forget(&mut self) {
        *self = BodyProgress { may_break: self.may_break, ..BodyProgress::default() };
    }

    /// The head of a reply with all of the object, or an error.
    pub(super) fn note_head(&mut self, head: &Head, bytes: &[u8]) {
        self.resumption = if self.may_break { Resumption::of_head(head, bytes) } else { None };
    }

    /// The head of the reply to the request for the rest, when so many bytes have come before; what it is.
    pub(super) fn note_resumed(&mut self, came: u64, head: &Head, bytes: &[u8]) -> ResumedReply {
        let resumption = self.resumption.as_ref();
        let reply = resumption.map_or(ResumedReply::Other, |resumption| resumption.reply(came, head, bytes));
        if reply != ResumedReply::Rest {
            self.forget();
        }
        self.phase = match reply {
            ResumedReply::Rest => BodyPhase::Rest,
            ResumedReply::Whole => BodyPhase::Anew,
            ResumedReply::Other => BodyPhase::Other,
        };
        reply
    }

    /// So many bytes have come.
    pub(super) fn note_piece(&mut self, bytes: usize) {
        self.brought += bytes as u64;
    }

    /// It broke off, and what has come is kept for the rest.
    pub(super) fn break_off(&mut self) {
        (self.phase, self.brought) = (BodyPhase::BrokenOff, 0);
    }

    /// Whether the rest can be asked for when it breaks off, or has broken off, now. One that began anew has done so in place of
    /// a rest: its attempt is over.
    pub(super) fn can_go_on(&self) -> bool {
        let may = matches!(self.phase, BodyPhase::First | BodyPhase::BrokenOff | BodyPhase::Rest);
        may && self.resumption.is_some()
    }

    /// Whether the rest is to come.
    pub(super) fn is_broken_off(&self) -> bool {
        self.phase == BodyPhase::BrokenOff
    }

    /// Whether what comes in place of the rest is of no use.
    pub(super) fn is_no_rest(&self) -> bool {
        self.phase == BodyPhase::Other
    }

    /// Bytes that the last request brought.
    pub(super) fn brought(&self) -> u64 {
        self.brought
    }

    /// What asks for the rest, when so many bytes have come: the fields `Range` and `If-Range`.
    pub(super) fn rest(&self, came: u64) -> Option<(String, String)> {
        let resumption = self.resumption.as_ref().filter(|_| self.is_broken_off())?;
        Some((resumption.rest(came)?.to_string(), resumption.etag().to_owned()))
    }

    /// The head of the reply, when the last one had this.
    pub(super) fn head_of_whole(&self, last: Head) -> Head {
        let resumption = self.resumption.as_ref().filter(|_| self.phase == BodyPhase::Rest);
        resumption.map_or(last, |resumption| resumption.head_of_whole(&last))
    }
}
