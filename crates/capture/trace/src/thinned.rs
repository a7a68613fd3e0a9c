//! A series of bounded length. When it is full, every second point is dropped, and from then on
//! only every second point is kept.
//!
//! Called by: `side`.

/// The points, evenly thinned out.
#[derive(Clone, Debug)]
pub struct Thinned<T> {
    points: Vec<T>,
    /// Of every `every` points one is kept; a power of two.
    every: u64,
    seen: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Thinned<T> {
        Thinned { points: Vec::new(), every: 1, seen: 0 }
    }
}

impl<T: Copy> Thinned<T> {
    /// Add a point; returns whether it was kept.
    pub(crate) fn push(&mut self, point: T) -> bool {
        let keeps = self.seen.is_multiple_of(self.every);
        self.seen += 1;
        if keeps {
            self.points.push(point);
        }
        keeps
    }

    /// Drop every second point until there are at most `most`.
    pub(crate) fn thin(&mut self, most: usize) {
        while self.points.len() > most.max(1) {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// At most `most` of the points, and the number of points that each of them stands for.
    pub fn at_most(&self, most: usize) -> (Vec<T>, u64) {
        let mut copy = self.clone();
        copy.thin(most);
        (copy.points, copy.every)
    }

    /// The points that were kept.
    pub fn points(&self) -> &[T] {
        &self.points
    }

    /// Of this many points one is kept.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// How many points were added in total.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_stays_short_and_even() {
        let mut series = Thinned::default();
        for point in 0..1_000_u32 {
            series.push(point);
            series.thin(64);
        }
        assert!(series.points().len() <= 64 && series.points().len() > 30);
        assert_eq!((series.seen(), series.every()), (1_000, 16));
        let steps: Vec<u32> = series.points().windows(2).map(|w| w[1] - w[0]).collect();
        assert!(steps.iter().all(|step| *step == 16), "{steps:?}");
        let (few, every) = series.at_most(10);
        assert_eq!((few.len(), every), (8, 128));
    }
}
