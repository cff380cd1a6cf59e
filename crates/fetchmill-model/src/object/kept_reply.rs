//! Replies that are no objects, as `--warc-all` keeps them: redirects, statuses of absent and failed targets, and what is said
//! of an object that has not changed. Those of a target travel with its outcome, in one value.

use crate::limits::{HOPS_KEPT_BYTES_MAX, KEPT_BODY_BYTES_MAX};
use crate::object::Micros;
use crate::target::extra_columns::{extra_values, write_extra};

/// Values of a reply.
const VALUES: usize = 5;
/// What its last value is when its body has more bytes than are kept.
const CUT: &[u8] = b"cut";

/// One reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptReply<'r> {
    /// Where it was asked for; none: where the target's name leads.
    pub url: Option<&'r [u8]>,
    /// When it was complete.
    pub fetched_at: Micros,
    /// Status line and fields as they were sent, the empty line included.
    pub head: &'r [u8],
    /// Its body, or the beginning of that.
    pub body: &'r [u8],
    /// Whether there was more of the body.
    pub is_cut: bool,
}

impl<'r> KeptReply<'r> {
    /// Appends it to those of its target.
    pub fn write(&self, out: &mut Vec<u8>) {
        let at = self.fetched_at.to_le_bytes();
        let cut = self.is_cut.then_some(CUT);
        write_extra([self.url, Some(&at), Some(self.head), Some(self.body), cut].into_iter(), out);
    }

    /// A redirect: as much of its body as there is room for behind those before it.
    pub fn write_hop(&self, out: &mut Vec<u8>) {
        let room = HOPS_KEPT_BYTES_MAX.saturating_sub(out.len() + self.head.len());
        self.cut_to(room).write(out);
    }

    /// The same with so many bytes of its body at most, and never more than [`KEPT_BODY_BYTES_MAX`].
    #[must_use]
    pub fn cut_to(self, bytes: usize) -> Self {
        let bytes = bytes.min(KEPT_BODY_BYTES_MAX);
        match self.body.get(..bytes) {
            Some(start) if start.len() < self.body.len() => KeptReply { body: start, is_cut: true, ..self },
            _ => self,
        }
    }

    /// The replies of a target, in their order; it ends where the bytes are not what [`KeptReply::write`] writes.
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
