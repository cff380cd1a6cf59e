//! Detects runs in which most objects have the same bytes. For example, a server that requires a login answers most
//! requests with its login page.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{SAME_BODIES_KEPT, SAME_BODIES_TOLD_MIN, SAME_BODY_BYTES_MAX};
use crate::text::counts::with_commas;

/// Counts the most frequent bodies without storing them, using the Space-Saving algorithm of Metwally, Agrawal and El
/// Abbadi. A body that makes up more than `1 / SAME_BODIES_KEPT` of all bodies is always counted. Only
/// [`SAME_BODIES_KEPT`] counts are kept in memory.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SameBodies {
    fetched: u64,
    counts: Vec<BodyCount>,
}

/// Number of times that one body was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct BodyCount {
    hash: u64,
    length: u64,
    /// Upper bound of this number.
    most: u64,
    /// Part of `most` that may have come from other bodies, whose entry this body has taken over.
    doubtful: u64,
}

impl BodyCount {
    fn at_least(&self) -> u64 {
        self.most - self.doubtful
    }

    fn is_of(&self, other: &BodyCount) -> bool {
        self.hash == other.hash && self.length == other.length
    }
}

impl SameBodies {
    /// Counts the body of an object. `body` is `None` if the body is not in memory.
    pub fn note(&mut self, body: Option<&[u8]>) {
        self.fetched += 1;
        if let Some(body) = body.filter(|body| body.len() <= SAME_BODY_BYTES_MAX) {
            let (hash, length) = (xxh3_64(body), body.len() as u64);
            self.count(BodyCount { hash, length, most: 1, doubtful: 0 });
        }
    }

    /// Adds the counts in `other`.
    pub fn add(&mut self, other: &SameBodies) {
        self.fetched += other.fetched;
        other.counts.iter().for_each(|count| self.count(*count));
    }

    fn count(&mut self, new: BodyCount) {
        if let Some(known) = self.counts.iter_mut().find(|known| known.is_of(&new)) {
            known.most += new.most;
            known.doubtful += new.doubtful;
        } else if self.counts.len() < SAME_BODIES_KEPT {
            self.counts.push(new);
        } else if let Some(rarest) = self.counts.iter_mut().min_by_key(|count| count.most) {
            let taken = rarest.most;
            *rarest = BodyCount { most: new.most + taken, doubtful: new.doubtful + taken, ..new };
        }
    }

    /// Returns a warning for the user if most of at least [`SAME_BODIES_TOLD_MIN`] objects are the same.
    pub fn notice(&self) -> Option<String> {
        let most = self.counts.iter().max_by_key(|count| count.at_least())?;
        if self.fetched < SAME_BODIES_TOLD_MIN || most.at_least() * 2 <= self.fetched {
            return None;
        }
        let about = if most.doubtful > 0 { "at least " } else { "" };
        let what = match most.length {
            0 => "are empty".to_owned(),
            1 => "are the same byte".to_owned(),
            length => format!("are the same {} bytes", with_commas(length)),
        };
        Some(format!(
            "{about}{} of {} objects fetched in this run {what}; to refuse a login or error page, use \
             --accept TYPE",
            with_commas(most.at_least()),
            with_commas(self.fetched),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &[u8] = b"<title>Log in</title>";

    fn unique(number: u32) -> [u8; 4] {
        number.to_le_bytes()
    }

    #[test]
    fn most_objects_that_are_the_same_are_noticed() {
        let mut bodies = SameBodies::default();
        for number in 0..10_000 {
            if number % 17 == 3 { bodies.note(Some(&unique(number))) } else { bodies.note(Some(PAGE)) }
        }
        let notice = bodies.notice().unwrap();
        let expected = "9,411 of 10,000 objects fetched in this run are the same 21 bytes; ";
        assert!(notice.starts_with(expected), "{notice}");
    }

    #[test]
    fn a_count_that_is_not_certain_says_so() {
        let mut bodies = SameBodies::default();
        (0..100).for_each(|number| bodies.note(Some(&unique(number))));
        (0..200).for_each(|_| bodies.note(Some(b"")));
        let notice = bodies.notice().unwrap();
        assert!(
            notice.starts_with("at least 200 of 300 objects fetched in this run are empty; "),
            "{notice}"
        );
    }

    #[test]
    fn few_objects_half_of_them_and_large_ones_are_not_noticed() {
        let of = |same: u64, other: u32, body: Option<&[u8]>| {
            let mut bodies = SameBodies::default();
            (0..same).for_each(|_| bodies.note(body));
            (0..other).for_each(|number| bodies.note(Some(&unique(number))));
            bodies.notice()
        };
        assert_eq!(of(SAME_BODIES_TOLD_MIN - 1, 0, Some(PAGE)), None);
        assert!(of(SAME_BODIES_TOLD_MIN, 0, Some(PAGE)).is_some());
        assert_eq!(of(500, 500, Some(PAGE)), None);
        assert!(of(501, 500, Some(PAGE)).is_some());
        assert_eq!(of(1000, 0, None), None);
        assert_eq!(of(1000, 0, Some(&vec![b' '; SAME_BODY_BYTES_MAX + 1])), None);
    }

    #[test]
    fn counts_of_many_workers_are_added_and_never_too_high() {
        let mut all = SameBodies::default();
        for worker in 0..64 {
            let mut own = SameBodies::default();
            for number in 0..100 {
                own.note(Some(&unique(worker * 1000 + number)));
                own.note(Some(PAGE));
                own.note(Some(PAGE));
            }
            let sent = serde_json::to_string(&own).unwrap();
            all.add(&serde_json::from_str(&sent).unwrap());
        }
        assert!(all.counts.len() <= SAME_BODIES_KEPT);
        let most = all.counts.iter().map(BodyCount::at_least).max().unwrap();
        assert!((64 * 150..=64 * 200).contains(&most), "{most}");
        assert!(all.notice().is_some());
    }
}
