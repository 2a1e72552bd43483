//! Places: which earlier keyframes show what the latest shows, by one vector a keyframe.
//!
//! The vector is a VLAD (Jegou, Douze, Schmid and Perez 2010; each word's part brought to one length, Arandjelovic and
//! Zisserman 2013): the sums of the differences between descriptors and their nearest word. The words are descriptors of
//! the first keyframes: what all keyframes have in common because of it is gone from the vectors' differences to their
//! mean, and these are compared. Products are of whole numbers, so no order and no vector width changes a bit.

use std::sync::Arc;

use rayon::prelude::*;

use crate::message::{Descriptor, Features};
use crate::numerics::{SplitMix64, vectorized};

/// Words of the codebook.
const N_WORDS: usize = 64;
/// Descriptors of the first keyframes that the words are chosen from.
const N_CHOICES: usize = 8192;
/// Keyframes that wait for so many at most.
const MAX_WAITING: usize = 20;
/// Length of a word's part of a vector, before it is rounded to whole numbers.
const PART_LENGTH: f32 = 100.0;

/// A keyframe's vector: a part a word.
type Place = Box<[[i8; 128]]>;

/// The places of the keyframes so far; 8 KiB each.
#[derive(Clone, Debug, Default)]
pub struct Places {
    words: Vec<Descriptor>,
    places: Vec<Place>,
    /// Product of each place with itself.
    squares: Vec<i64>,
    /// Sum of the products of each place with all.
    sums: Vec<i64>,
    /// Products of the latest place with all.
    latest: Vec<i64>,
    /// Keyframes whose vectors wait for the words.
    waiting: Vec<Arc<Features>>,
}

impl Places {
    /// Adds the latest keyframe.
    pub fn push(&mut self, features: &Arc<Features>) {
        if !self.words.is_empty() {
            return self.add(features);
        }
        self.waiting.push(features.clone());
        let n_descriptors: usize = self.waiting.iter().map(|features| features.descriptors.len()).sum();
        let enough = n_descriptors >= N_CHOICES || self.waiting.len() >= MAX_WAITING;
        if enough && n_descriptors >= N_WORDS {
            self.words = words(&self.waiting);
            std::mem::take(&mut self.waiting).iter().for_each(|features| self.add(features));
        }
    }

    fn add(&mut self, features: &Features) {
        self.places.push(place(&features.descriptors, &self.words));
        let place = self.places.last().expect("just added");
        self.latest = self.places.par_iter().map(|other| product(other, place)).collect();
        self.sums.iter_mut().zip(&self.latest).for_each(|(sum, product)| *sum += product);
        self.sums.push(self.latest.iter().sum());
        self.squares.extend(self.latest.last());
    }

    /// The earlier keyframes most like the latest, at most `n` of those before the last `n_near`, with a similarity of at
    /// least `min_similarity`; ascending by ordinal.
    pub fn like_latest(&self, n: usize, n_near: usize, min_similarity: f64) -> Vec<usize> {
        let n_far = self.places.len().saturating_sub(1 + n_near);
        let mut found: Vec<(usize, f64)> = (0..n_far).map(|at| (at, self.similarity_to_latest(at))).collect();
        found.retain(|(_, similarity)| *similarity >= min_similarity);
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(n);
        let mut found: Vec<usize> = found.into_iter().map(|(at, _)| at).collect();
        found.sort_unstable();
        found
    }

    /// Cosine between what tells a keyframe and the latest from the mean of all; 0 where one has no descriptors
    /// or nothing tells it.
    fn similarity_to_latest(&self, at: usize) -> f64 {
        let last = self.places.len() - 1;
        // A keyframe without descriptors shows nothing, and is not like another one that shows nothing.
        if self.squares[at] == 0 || self.squares[last] == 0 {
            return 0.0;
        }
        let n = self.places.len() as f64;
        let mean_square = self.sums.iter().sum::<i64>() as f64 / (n * n);
        let centred = |product: i64, a: usize, b: usize| {
            product as f64 - (self.sums[a] + self.sums[b]) as f64 / n + mean_square
        };
        let squares = [at, last].map(|i| centred(self.squares[i], i, i));
        let product = centred(self.latest[at], at, last);
        if squares[0] < 1.0 || squares[1] < 1.0 { 0.0 } else { product / (squares[0] * squares[1]).sqrt() }
    }
}

fn product(a: &[[i8; 128]], b: &[[i8; 128]]) -> i64 {
    let sum = vectorized(
        #[inline(always)]
        || {
            let mut sum = 0i32;
            for (a, b) in a.as_flattened().iter().zip(b.as_flattened()) {
                sum += i32::from(*a) * i32::from(*b);
            }
            sum
        },
    );
    i64::from(sum)
}

/// Descriptors chosen at random from all of some keyframes, none twice.
fn words(keyframes: &[Arc<Features>]) -> Vec<Descriptor> {
    let mut all: Vec<Descriptor> = keyframes.iter().flat_map(|f| f.descriptors.iter().copied()).collect();
    let mut rng = SplitMix64::new(0, 0);
    for i in 0..N_WORDS {
        let n_left = all.len() - i;
        all.swap(i, i + rng.below(n_left as u32) as usize);
    }
    all.truncate(N_WORDS);
    all
}

/// The nearest word of each descriptor; of equally near ones the first.
fn nearest_words(descriptors: &[Descriptor], words: &[Descriptor]) -> Vec<usize> {
    let distance2 = |a: &Descriptor, b: &Descriptor| {
        vectorized(
            #[inline(always)]
            || {
                let mut sum = 0i32;
                for (a, b) in a.iter().zip(b) {
                    let difference = i32::from(*a) - i32::from(*b);
                    sum += difference * difference;
                }
                sum
            },
        )
    };
    let nearest = |descriptor: &Descriptor| {
        (0..words.len()).min_by_key(|&word| distance2(descriptor, &words[word])).expect("there are words")
    };
    descriptors.par_iter().map(nearest).collect()
}

fn place(descriptors: &[Descriptor], words: &[Descriptor]) -> Place {
    let mut parts = vec![[0i32; 128]; words.len()];
    for (descriptor, word) in descriptors.iter().zip(nearest_words(descriptors, words)) {
        for ((sum, value), mean) in parts[word].iter_mut().zip(descriptor).zip(&words[word]) {
            *sum += i32::from(*value) - i32::from(*mean);
        }
    }
    let part = |sum: [i32; 128]| {
        let square: i64 = sum.iter().map(|v| i64::from(*v) * i64::from(*v)).sum();
        let scale = if square == 0 { 0.0 } else { PART_LENGTH / (square as f32).sqrt() };
        sum.map(|v| (v as f32 * scale).round() as i8)
    };
    parts.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keyframe at a place: of its descriptors every third is of the place, the others stand anywhere.
    fn keyframe(place: u64, view: u64) -> Arc<Features> {
        let random = |seed, task| -> Descriptor {
            let mut rng = SplitMix64::new(seed, task);
            std::array::from_fn(|_| (rng.unit() * rng.unit() * 256.0) as u8)
        };
        let one = |i: u64| {
            if i.is_multiple_of(3) { random(place, i) } else { random(1000 + 100 * place + view, i) }
        };
        Arc::new(Features { keypoints: Vec::new(), descriptors: (0..900).map(one).collect() })
    }

    fn places(keyframes: impl IntoIterator<Item = (u64, u64)>) -> Places {
        let mut places = Places::default();
        keyframes.into_iter().for_each(|(place, view)| places.push(&keyframe(place, view)));
        places
    }

    /// Two keyframes a place, then the first and the third place again.
    fn walk() -> impl Iterator<Item = (u64, u64)> {
        (0..12).flat_map(|place| [(place, 0), (place, 1)]).chain([(0, 2), (2, 2)])
    }

    #[test]
    fn a_place_is_found_again() {
        let mut places = Places::default();
        for (place, view) in walk() {
            places.push(&keyframe(place, view));
            let expected = if view == 2 { vec![2 * place as usize, 2 * place as usize + 1] } else { vec![] };
            assert_eq!(places.like_latest(5, 2, 0.2), expected, "place {place}, view {view}");
        }
        assert_eq!(places.like_latest(1, 2, 0.2).len(), 1);
        assert!(places.like_latest(5, 22, 0.2).is_empty(), "near ones are left out");
        assert!(places.like_latest(5, 2, 0.95).is_empty());
        assert_eq!(places.like_latest(30, 0, -1.0), (0..25).collect::<Vec<_>>());
    }

    #[test]
    fn few_or_no_descriptors_are_like_nothing() {
        let mut places = Places::default();
        let empty = Arc::<Features>::default();
        for _ in 0..30 {
            places.push(&empty);
            assert!(places.like_latest(5, 0, 0.1).is_empty());
        }
        places.push(&keyframe(0, 0));
        places.push(&empty);
        assert!(places.like_latest(5, 0, 0.5).is_empty());
        places.push(&keyframe(0, 1));
        assert_eq!(places.like_latest(5, 0, 0.5), [30]);
    }

    #[test]
    fn threads_do_not_matter() {
        let run = |n_threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let places = pool.install(|| places(walk()));
            (0..25).map(|at| places.similarity_to_latest(at).to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(3));
    }
}
