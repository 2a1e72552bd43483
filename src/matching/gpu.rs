//! Matching on a device: descriptors stay there from keyframe to keyframe, and many pairs go in one submission.

use std::sync::Arc;

use super::arena::{Arena, Place};
use crate::device::{Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::match_descriptors::{self, MatchDescriptorsParams, Search, Searches};
use crate::kernels::match_mutual::{self, MatchMutualParams, MutualMatch, Nearest, RatioTest};
use crate::message::{DescriptorMatch, Features};

/// Most pairs of a submission.
const MOST_PAIRS: usize = 64;
/// Distances after which no pair more is taken into a submission: so many take a slow GPU a tenth of a second.
const MOST_DISTANCES: usize = 1 << 28;

/// Matches a keyframe with earlier ones as [`match_descriptors`](match_descriptors::match_descriptors) does.
#[derive(Debug)]
pub struct GpuMatcher {
    gpu: Gpu,
    arena: Arena,
    searches: Buffer<Search>,
    work: Option<Work>,
}

/// What a submission fills.
#[derive(Debug)]
struct Work {
    nearest: Buffer<Nearest>,
    matches: Buffer<MutualMatch>,
    found: Readback<MutualMatch>,
    search: Bound,
    test: Bound,
}

/// How a recording begins.
type Record = fn(&Gpu) -> Result<Recording, DeviceError>;

impl GpuMatcher {
    /// A matcher that holds no descriptors: those of keyframes stay within `memory_bytes`, but those of the latest and of
    /// one earlier keyframe are always held.
    ///
    /// # Errors
    /// The device was lost, its workgroups have too little memory, or a shader does not compile.
    pub fn new(gpu: &Gpu, memory_bytes: u64) -> Result<GpuMatcher, DeviceError> {
        gpu.check_workgroup_memory(match_descriptors::SHADER.name, match_descriptors::WORKGROUP_BYTES)?;
        for source in [&match_descriptors::SHADER, &match_mutual::SHADER] {
            gpu.kernel(source, &[])?;
        }
        Ok(GpuMatcher {
            gpu: gpu.clone(),
            arena: Arena::new(gpu, memory_bytes)?,
            searches: gpu.buffer("searches", 2 * MOST_PAIRS)?,
            work: None,
        })
    }

    /// Matches of each of the `earlier` keyframes, oldest first, with the `latest`. What is neither is forgotten; where
    /// there is no room for all, the oldest go.
    ///
    /// # Errors
    /// The device was lost or has no memory for them.
    pub fn matches(
        &mut self,
        earlier: &[Arc<Features>],
        latest: &Arc<Features>,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        Ok(self.run(|gpu| Ok(gpu.record("matches")), earlier, latest, ratio)?.0)
    }

    /// As `matches`, with the device's time of each pass where the adapter tells.
    ///
    /// # Errors
    /// As `matches`.
    pub fn matches_timed(
        &mut self,
        earlier: &[Arc<Features>],
        latest: &Arc<Features>,
        ratio: f32,
    ) -> Result<(Vec<Vec<DescriptorMatch>>, Vec<PassTime>), DeviceError> {
        self.run(|gpu| gpu.record_timed("matches"), earlier, latest, ratio)
    }

    fn run(
        &mut self,
        record: Record,
        earlier: &[Arc<Features>],
        latest: &Arc<Features>,
        ratio: f32,
    ) -> Result<(Vec<Vec<DescriptorMatch>>, Vec<PassTime>), DeviceError> {
        let n = |at: usize| earlier[at].descriptors.len();
        let n_latest = latest.descriptors.len();
        let rank = |held: &Arc<Features>| {
            let is_earlier = |earlier: &Arc<Features>| Arc::ptr_eq(earlier, held);
            (!Arc::ptr_eq(held, latest)).then(|| earlier.iter().position(is_earlier)).flatten()
        };
        let mut all = Batch { found: vec![Vec::new(); earlier.len()], ..Batch::default() };
        self.arena.retain(|held| Arc::ptr_eq(held, latest) || rank(held).is_some());
        let mut pairs: Vec<usize> = (0..earlier.len()).filter(|&at| n(at).min(n_latest) > 0).collect();
        let Some(largest) = pairs.iter().map(|&at| n(at)).max() else {
            return Ok((all.found, all.times));
        };
        let wanted: usize = pairs.iter().map(|&at| n(at)).sum();
        if self.arena.reserve(wanted + n_latest, largest + n_latest)? {
            self.work = None;
        }
        // Those that are held come first: others may have to take their room.
        pairs.sort_by_key(|&at| self.arena.place(&earlier[at]).is_none());
        while !self.arena.load(latest) {
            self.arena.forget_lowest(rank);
        }
        for at in pairs {
            while !self.arena.load(&earlier[at]) {
                self.submit(record, &mut all, ratio)?;
                if !self.arena.forget_lowest(rank) {
                    // The latest lies in the midst.
                    self.arena.retain(|_| false);
                    self.arena.load(latest);
                }
            }
            let place = |features| self.arena.place(features).expect("it is held");
            all.pairs.push((at, [place(&earlier[at]), place(latest)]));
            all.n_distances += n(at) * n_latest;
            if all.pairs.len() == MOST_PAIRS || all.n_distances >= MOST_DISTANCES {
                self.submit(record, &mut all, ratio)?;
            }
        }
        self.submit(record, &mut all, ratio)?;
        Ok((all.found, all.times))
    }

    /// Matches the pairs of the batch, which is empty then.
    fn submit(&mut self, record: Record, batch: &mut Batch, ratio: f32) -> Result<(), DeviceError> {
        if batch.pairs.is_empty() {
            return Ok(());
        }
        let places: Vec<[Place; 2]> = batch.pairs.iter().map(|(_, places)| *places).collect();
        let searches = Searches::both_ways(&places);
        self.make_room(&searches)?;
        let work = self.work.as_ref().expect("there is room");
        self.gpu.write(&self.searches, 0, &searches.searches);
        work.search.set(&MatchDescriptorsParams { n_searches: searches.searches.len() as u32 });
        work.test.set(&MatchMutualParams::new(places.len(), searches.n_matches, RatioTest::new(ratio)));
        let mut recording = record(&self.gpu)?;
        recording.pass("nearest").dispatch(&work.search, searches.groups());
        let groups = match_mutual::SHADER.flat_groups(searches.n_matches);
        recording.pass("mutual").dispatch(&work.test, groups);
        recording.read(&work.matches, 0..searches.n_matches, &work.found);
        batch.times.extend(recording.submit()?.wait()?);
        let found = work.found.take()?;
        for ((at, [(_, n), _]), search) in batch.pairs.drain(..).zip(searches.searches.iter().step_by(2)) {
            let begin = search.matches as usize;
            batch.found[at] = MutualMatch::found(&found[begin..begin + n]).collect();
        }
        batch.n_distances = 0;
        Ok(())
    }

    fn make_room(&mut self, searches: &Searches) -> Result<(), DeviceError> {
        let (n_nearest, n_matches) = (searches.n_nearest, searches.n_matches);
        let fits = |work: &Work| work.nearest.len() >= n_nearest && work.matches.len() >= n_matches;
        if self.work.as_ref().is_some_and(fits) {
            return Ok(());
        }
        let before = self.work.take().map_or((0, 0), |work| (work.nearest.len(), work.matches.len()));
        let n_nearest = n_nearest.next_power_of_two().max(before.0);
        let n_matches = n_matches.next_power_of_two().max(before.1);
        let gpu = &self.gpu;
        let nearest = gpu.buffer("nearest", n_nearest)?;
        let matches = gpu.buffer("matches", n_matches)?;
        let search = gpu.kernel(&match_descriptors::SHADER, &[])?.bind(
            &MatchDescriptorsParams { n_searches: 0 },
            &[&self.searches, self.arena.descriptors(), &nearest],
        )?;
        let test = gpu.kernel(&match_mutual::SHADER, &[])?.bind(
            &MatchMutualParams::new(0, 0, RatioTest::new(1.0)),
            &[&self.searches, &nearest, &matches],
        )?;
        let found = gpu.readback("matches", n_matches)?;
        self.work = Some(Work { nearest, matches, found, search, test });
        Ok(())
    }
}

/// Pairs on their way to a submission, and what came of all so far.
#[derive(Default)]
struct Batch {
    /// Index of the earlier keyframe, and where both lie.
    pairs: Vec<(usize, [Place; 2])>,
    n_distances: usize,
    found: Vec<Vec<DescriptorMatch>>,
    times: Vec<PassTime>,
}
