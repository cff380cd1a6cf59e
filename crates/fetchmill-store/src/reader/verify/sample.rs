//! A random sample of stored objects, to be compared with their origin. Every object is equally likely to be drawn. For
//! the same destination, the same seed draws the same sample (reservoir sampling, Vitter 1985).

use crate::manifest::ManifestRow;
use fetchmill_model::outcome::ShardNumber;
use fetchmill_model::planner::retry::Jitter;
use fetchmill_model::target::Sequence;

/// Maximum size of a sample. It is limited because the names are held in memory.
pub(super) const SAMPLE_MAX: usize = 100_000;

/// A sampled object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledObject {
    /// Sequence number of the target.
    pub sequence: Sequence,
    /// Name of the object.
    pub name: Box<[u8]>,
    /// Size of the body in bytes.
    pub length: u64,
    /// CRC-32C of the body.
    pub crc32c: u32,
    pub(crate) place: u64,
    /// Shard and manifest row. `None` for `files`.
    pub(crate) shard: Option<(ShardNumber, u64)>,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct ObjectSample {
    drawn: Vec<SampledObject>,
    wanted: usize,
    offered: u64,
    random: Jitter,
}

impl ObjectSample {
    /// Creates a sample of up to `wanted` objects.
    pub(super) fn new(wanted: usize, seed: u64) -> Self {
        ObjectSample {
            drawn: Vec::new(),
            wanted: wanted.min(SAMPLE_MAX),
            offered: 0,
            random: Jitter::new(seed),
        }
    }

    /// Offers an object to the sample, which may draw it.
    pub(super) fn offer(&mut self, row: &ManifestRow<'_>, shard: Option<(ShardNumber, u64)>) {
        if self.wanted == 0 {
            return;
        }
        self.offered += 1;
        let sampled = || SampledObject {
            sequence: row.sequence,
            name: row.name.into(),
            length: row.length,
            crc32c: row.crc32c,
            place: row.place,
            shard,
        };
        if self.drawn.len() < self.wanted {
            self.drawn.push(sampled());
        } else if let Some(place) = self.drawn.get_mut((self.random.draw() % self.offered) as usize) {
            *place = sampled();
        }
    }

    /// Returns the drawn objects, ordered by sequence number.
    pub(super) fn take(mut self) -> Vec<SampledObject> {
        self.drawn.sort_by_key(|sampled| sampled.sequence);
        self.drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(wanted: usize, count: u64, seed: u64) -> Vec<Sequence> {
        let mut sample = ObjectSample::new(wanted, seed);
        for sequence in 0..count {
            sample.offer(
                &ManifestRow {
                    sequence,
                    name: b"",
                    length: 0,
                    crc32c: 0,
                    place: 0,
                    ..ManifestRow::default()
                },
                None,
            );
        }
        sample.take().iter().map(|sampled| sampled.sequence).collect()
    }

    #[test]
    fn each_object_has_the_same_chance() {
        let mut times = [0_u32; 100];
        for seed in 0..2000 {
            for sequence in draw(10, 100, seed) {
                times[sequence as usize] += 1;
            }
        }

        assert_eq!(times.iter().sum::<u32>(), 20_000);
        assert!(times.iter().all(|count| (120..280).contains(count)), "{times:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        assert_eq!(draw(10, 1000, 7), draw(10, 1000, 7));
        assert_ne!(draw(10, 1000, 7), draw(10, 1000, 8));
        assert_eq!(draw(10, 3, 7), [0, 1, 2]);
    }
}
