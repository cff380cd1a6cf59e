//! Replies that are not objects, as stored by `--keep-failed`: redirects, the replies for absent and failed targets,
//! and the replies for unchanged objects. The replies for a target are stored together with its outcome, in one value.

use crate::limits::{HOPS_KEPT_BYTES_MAX, KEPT_BODY_BYTES_MAX};
use crate::object::Micros;
use crate::target::extra_columns::{extra_values, write_extra};

/// Number of stored values per reply.
const VALUES: usize = 5;
/// Value that marks a reply whose body was truncated. This is the last value of the reply.
const CUT: &[u8] = b"cut";

/// One reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptReply<'r> {
    /// Requested URL. `None` if it can be derived from the target's name.
    pub url: Option<&'r [u8]>,
    /// Time when the reply was complete.
    pub fetched_at: Micros,
    /// Status line and fields as sent, including the empty line.
    pub head: &'r [u8],
    /// The body, or its beginning.
    pub body: &'r [u8],
    /// Whether the original body was longer.
    pub is_cut: bool,
}

impl<'r> KeptReply<'r> {
    /// Appends the reply to the other replies for its target.
    pub fn write(&self, out: &mut Vec<u8>) {
        let at = self.fetched_at.to_le_bytes();
        let cut = self.is_cut.then_some(CUT);
        write_extra([self.url, Some(&at), Some(self.head), Some(self.body), cut].into_iter(), out);
    }

    /// Appends a redirect, with as much of its body as fits after the earlier redirects.
    pub fn write_hop(&self, out: &mut Vec<u8>) {
        let room = HOPS_KEPT_BYTES_MAX.saturating_sub(out.len() + self.head.len());
        self.cut_to(room).write(out);
    }

    /// Truncates the body to at most `bytes` bytes, and never more than [`KEPT_BODY_BYTES_MAX`].
    #[must_use]
    pub fn cut_to(self, bytes: usize) -> Self {
        let bytes = bytes.min(KEPT_BODY_BYTES_MAX);
        match self.body.get(..bytes) {
            Some(start) if start.len() < self.body.len() => KeptReply { body: start, is_cut: true, ..self },
            _ => self,
        }
    }

    /// Iterates over the replies for a target in order. Stops at bytes that [`KeptReply::write`] does not produce.
    pub fn all(bytes: &'r [u8]) -> impl Iterator<Item = KeptReply<'r>> {
        let mut values = extra_values(bytes);
        std::iter::from_fn(move || {
            let mut reply = [None; VALUES];
            for value in &mut reply {
                *value = values.next()?;
            }
            let [url, at, head, body, cut] = reply;
            Some(KeptReply {
                url,
                fetched_at: Micros::from_le_bytes(at?.try_into().ok()?),
                head: head?,
                body: body?,
                is_cut: cut.is_some(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_back_and_their_bodies_are_bounded() {
        let long = vec![b'x'; KEPT_BODY_BYTES_MAX + 1];
        let hop =
            KeptReply { url: Some(b"http://a/"), fetched_at: 17, head: b"head", body: b"", is_cut: false };
        let last = KeptReply { url: None, body: &long, ..hop };
        let mut written = Vec::new();

        hop.write(&mut written);
        last.write_hop(&mut written);
        last.cut_to(usize::MAX).write(&mut written);

        let [first, second, third] = KeptReply::all(&written).collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!(first, hop);
        assert!(second.is_cut && !second.body.is_empty() && second.body.len() <= HOPS_KEPT_BYTES_MAX);
        assert_eq!((third.body.len(), third.is_cut), (KEPT_BODY_BYTES_MAX, true));
        let damaged = written.get(1..).unwrap_or_default();
        assert!(KeptReply::all(damaged).count() < 3);
        assert_eq!(KeptReply::all(b"").count(), 0);
    }

    #[test]
    fn heads_of_many_hops_leave_no_room_for_bodies() {
        let head = vec![b'h'; HOPS_KEPT_BYTES_MAX];
        let hop = KeptReply { url: None, fetched_at: 1, head: &head, body: b"body", is_cut: false };
        let mut written = Vec::new();

        hop.write_hop(&mut written);

        let kept = KeptReply::all(&written).next().unwrap();
        assert_eq!((kept.body, kept.is_cut), (&b""[..], true));
    }
}
