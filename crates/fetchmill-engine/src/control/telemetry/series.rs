//! A bounded time series of samples. When there are too many samples, neighbours are merged, and later samples become
//! longer.

use super::sample::Sample;
use fetchmill_model::limits::SAMPLES_MAX;

/// Series of samples. See the [module documentation](self). A sample takes about 200 bytes.
#[derive(Debug, Default)]
pub(crate) struct Series {
    samples: Vec<Sample>,
    /// Length of a sample in seconds. 0 leaves samples as they are.
    seconds: f64,
    /// Sample that is not complete yet.
    open: Option<Sample>,
}

impl Series {
    /// Continues a series with existing samples, which keep their length.
    pub(crate) fn of(samples: Vec<Sample>) -> Self {
        // The last sample of a run is shorter than the others.
        let seconds = samples.iter().map(|sample| sample.interval).fold(0.0, f64::max);
        let seconds = if seconds < 2.0 { 0.0 } else { seconds };
        let mut series = Series { samples, seconds, open: None };
        series.thin_out();
        series
    }

    /// Adds a sample. Returns the samples that this completes, or all samples if neighbours were merged.
    pub(crate) fn push(&mut self, sample: Sample) -> Vec<Sample> {
        let sample = match self.open.take() {
            Some(open) => open.merged(sample),
            None => sample,
        };
        // Measured lengths are approximate, so a sample can be up to half a second short.
        if sample.interval < self.seconds - 0.5 {
            self.open = Some(sample);
            return Vec::new();
        }
        self.samples.push(sample);
        if self.thin_out() {
            self.samples.clone()
        } else {
            self.samples.last().cloned().into_iter().collect()
        }
    }

    /// Takes the incomplete sample at the end of a run. It stays shorter than the others.
    pub(crate) fn finish(&mut self) -> Option<Sample> {
        let open = self.open.take()?;
        self.samples.push(open.clone());
        Some(open)
    }

    /// Returns the samples that end after `time`, including the incomplete one.
    pub(crate) fn after(&self, time: f64) -> Vec<Sample> {
        let from = self.samples.partition_point(|sample| sample.time <= time);
        self.samples[from..].iter().chain(&self.open).filter(|sample| sample.time > time).cloned().collect()
    }

    /// Merges neighbours if there are too many samples. Returns whether it merged any.
    fn thin_out(&mut self) -> bool {
        let is_full = self.samples.len() >= SAMPLES_MAX;
        while self.samples.len() >= SAMPLES_MAX {
            let mut merged = Vec::with_capacity(self.samples.len() / 2 + 1);
            let mut samples = std::mem::take(&mut self.samples).into_iter();
            while let Some(one) = samples.next() {
                merged.push(match samples.next() {
                    Some(other) => one.merged(other),
                    None => one,
                });
            }
            self.seconds = merged.iter().map(|sample| sample.interval).fold(0.0, f64::max);
            self.samples = merged;
        }
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: usize) -> Sample {
        Sample {
            time: number as f64,
            interval: 1.0,
            settled: 10,
            in_flight: number as u64,
            ..Sample::default()
        }
    }

    #[test]
    fn a_series_of_any_length_is_bounded_and_loses_no_count() {
        let mut series = Series::default();
        let (mut stored, mut seconds) = (Vec::new(), 0);
        for number in 1..=10 * SAMPLES_MAX {
            let completed = series.push(second(number));
            seconds += 1;
            if completed.len() > 1 {
                stored = completed;
            } else {
                stored.extend(completed);
            }
            assert!(stored.len() < SAMPLES_MAX);
        }

        let kept = series.after(0.0);

        assert_eq!(kept.iter().map(|sample| sample.settled).sum::<u64>(), 10 * seconds);
        let covered = kept.iter().map(|sample| sample.interval).sum::<f64>();
        assert!((covered - seconds as f64).abs() < 1e-6, "{covered}");
        assert_eq!(kept.last().unwrap().in_flight, seconds);
        assert_eq!(kept[..stored.len()], stored, "the stored samples must match the kept ones");
        assert!(kept.len() > SAMPLES_MAX / 4, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0].time < pair[1].time));
        assert_eq!(series.after(kept[3].time), kept[4..]);
        stored.extend(series.finish());
        assert_eq!(stored, kept);
        assert_eq!(series.finish(), None);
    }

    #[test]
    fn a_series_that_goes_on_keeps_what_it_has() {
        let mut series = Series::of((1..=5).map(second).collect());

        assert_eq!(series.push(second(6)), [second(6)]);

        assert_eq!(series.after(4.0), [second(5), second(6)]);
        let long = Series::of((1..=2 * SAMPLES_MAX).map(second).collect());
        assert!(long.after(0.0).len() < SAMPLES_MAX);
    }
}
