//! Matching on a device: descriptors stay there from keyframe to keyframe, and many pairs go in one submission.

use std::collections::HashMap;
use std::sync::Arc;

use super::arena::{Arena, Place, SpotBuffers, room};
use super::{Guide, View};
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::match_descriptors::{self, MatchDescriptorsParams, Search, Searches};
use crate::kernels::match_guided::{self, Band, MatchGuidedParams};
use crate::kernels::match_mutual::{self, MatchMutualParams, MutualMatch, Nearest, RatioTest};
use crate::message::DescriptorMatch;

/// Most pairs of a submission.
const MOST_PAIRS: usize = 64;
/// Distances after which no pair more is taken into a submission: so many take a slow GPU a tenth of a second.
const MOST_DISTANCES: usize = 1 << 28;

/// Matches a keyframe with earlier ones as [`match_descriptors`](match_descriptors::match_descriptors) does, and within bands
/// as [`match_guided`](match_guided::match_guided) does.
#[derive(Debug)]
pub struct GpuMatcher {
    gpu: Gpu,
    arena: Arena,
    /// Keyframes of the last call of each kind: plain, guided.
    wanted: [Vec<View>; 2],
    searches: Buffer<Search>,
    /// One a pair; none before the first guided matching.
    bands: Option<Buffer<Band>>,
    work: Option<Work>,
}

/// What a submission fills.
#[derive(Debug)]
struct Work {
    nearest: Buffer<Nearest>,
    matches: Buffer<MutualMatch>,
    found: Readback<MutualMatch>,
    search: Bound,
    guided: Option<Bound>,
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
        // Made now, so that no keyframe waits for them.
        for source in [&match_descriptors::SHADER, &match_mutual::SHADER] {
            gpu.kernel(source, &[])?;
        }
        Ok(GpuMatcher {
            gpu: gpu.clone(),
            arena: Arena::new(gpu, memory_bytes)?,
            wanted: Default::default(),
            searches: gpu.buffer("searches", 2 * MOST_PAIRS)?,
            bands: None,
            work: None,
        })
    }

    /// Makes what guided matching needs, where the first one would. What is held must come again.
    ///
    /// # Errors
    /// As `new`.
    pub fn prepare_guided(&mut self) -> Result<(), DeviceError> {
        if self.bands.is_none() {
            self.gpu.kernel(&match_guided::SHADER, &[])?;
            self.work = None;
            self.arena.hold_spots()?;
            self.bands = Some(self.gpu.buffer("bands", MOST_PAIRS)?);
        }
        Ok(())
    }

    /// Matches of each of the `earlier` keyframes, oldest first, with the `latest`. Forgotten is what neither this nor the
    /// last guided matching asked for; where there is no room for all, that of the other kind goes first, then the oldest.
    ///
    /// # Errors
    /// The device was lost or has no memory for them.
    pub fn matches(
        &mut self,
        earlier: &[View],
        latest: &View,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        Ok(self.run(|gpu| Ok(gpu.record("matches")), earlier, None, latest, ratio)?.0)
    }

    /// As `matches`, with the device's time of each pass where the adapter tells.
    ///
    /// # Errors
    /// As `matches`.
    pub fn matches_timed(
        &mut self,
        earlier: &[View],
        latest: &View,
        ratio: f32,
    ) -> Result<(Vec<Vec<DescriptorMatch>>, Vec<PassTime>), DeviceError> {
        self.run(|gpu| gpu.record_timed("matches"), earlier, None, latest, ratio)
    }

    /// The same within the bands of their `guides`.
    ///
    /// # Errors
    /// As `matches`.
    ///
    /// # Panics
    /// There are fewer guides.
    pub fn guided_matches(
        &mut self,
        earlier: &[View],
        guides: &[Guide],
        latest: &View,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        Ok(self.run(|gpu| Ok(gpu.record("guided matches")), earlier, Some(guides), latest, ratio)?.0)
    }

    /// As `guided_matches`, with the device's time of each pass where the adapter tells.
    ///
    /// # Errors
    /// As `guided_matches`.
    ///
    /// # Panics
    /// As `guided_matches`.
    pub fn guided_matches_timed(
        &mut self,
        earlier: &[View],
        guides: &[Guide],
        latest: &View,
        ratio: f32,
    ) -> Result<(Vec<Vec<DescriptorMatch>>, Vec<PassTime>), DeviceError> {
        self.run(|gpu| gpu.record_timed("guided matches"), earlier, Some(guides), latest, ratio)
    }

    fn run(
        &mut self,
        record: Record,
        earlier: &[View],
        guides: Option<&[Guide]>,
        latest: &View,
        ratio: f32,
    ) -> Result<(Vec<Vec<DescriptorMatch>>, Vec<PassTime>), DeviceError> {
        if guides.is_some() {
            self.prepare_guided()?;
        }
        self.wanted[guides.is_some() as usize] = earlier.iter().chain([latest]).cloned().collect();
        let n = |at: usize| earlier[at].len();
        let n_latest = latest.len();
        let rank = |held: &View| {
            let is_earlier = |earlier: &View| held.serves(earlier);
            (!held.serves(latest)).then(|| earlier.iter().position(is_earlier).map_or(0, |at| at + 1))
        };
        let mut all = Batch { found: vec![Vec::new(); earlier.len()], ..Batch::default() };
        let mut pairs: Vec<usize> = (0..earlier.len()).filter(|&at| n(at).min(n_latest) > 0).collect();
        let mut bands = vec![None; earlier.len()];
        if let Some(guides) = guides {
            for &at in &pairs {
                let Guide { f, band_px } = &guides[at];
                bands[at] = Band::new(f, *band_px, [&earlier[at], latest].map(|view| view.spots().middle));
            }
            pairs.retain(|&at| bands[at].is_some());
        }
        let wanted = self.forget_unwanted();
        let Some(largest) = pairs.iter().map(|&at| room(&earlier[at])).max() else {
            return Ok((all.found, all.times));
        };
        if self.arena.reserve(wanted, largest + room(latest))? {
            self.work = None;
        }
        // Those that are held come first: others may have to take their room.
        pairs.sort_by_key(|&at| self.arena.place(&earlier[at]).is_none());
        while !self.arena.load(latest) {
            self.arena.forget_lowest(rank);
        }
        for at in pairs {
            while !self.arena.load(&earlier[at]) {
                if self.arena.forget_lowest(|held| rank(held).filter(|rank| *rank == 0)) {
                    continue;
                }
                self.submit(record, &mut all, ratio)?;
                if !self.arena.forget_lowest(rank) {
                    // The latest lies in the midst.
                    self.arena.retain(|_| false);
                    self.arena.load(latest);
                }
            }
            let place = |view| self.arena.place(view).expect("it is held");
            all.pairs.push((at, [place(&earlier[at]), place(latest)]));
            all.bands.extend(bands[at]);
            all.n_distances += n(at) * n_latest;
            if all.pairs.len() == MOST_PAIRS || all.n_distances >= MOST_DISTANCES {
                self.submit(record, &mut all, ratio)?;
            }
        }
        self.submit(record, &mut all, ratio)?;
        Ok((all.found, all.times))
    }

    /// Forgets what no call asks for any more. The room that the rest would take.
    fn forget_unwanted(&mut self) -> usize {
        let wanted = &self.wanted;
        self.arena.retain(|held| wanted.iter().flatten().any(|wanted| held.serves(wanted)));
        let by_features = wanted.iter().flatten().map(|view| (Arc::as_ptr(&view.features), room(view)));
        by_features.collect::<HashMap<_, _>>().into_values().sum()
    }

    /// Matches the pairs of the batch, which is empty then.
    fn submit(&mut self, record: Record, batch: &mut Batch, ratio: f32) -> Result<(), DeviceError> {
        if batch.pairs.is_empty() {
            return Ok(());
        }
        let places: Vec<[Place; 2]> = batch.pairs.iter().map(|(_, places)| *places).collect();
        let is_guided = !batch.bands.is_empty();
        let searches = if is_guided { Searches::guided(&places) } else { Searches::both_ways(&places) };
        self.make_room(&searches)?;
        let work = self.work.as_ref().expect("there is room");
        self.gpu.write(&self.searches, 0, &searches.searches);
        let n_searches = searches.searches.len() as u32;
        let search = match (&work.guided, &self.bands) {
            (Some(guided), Some(bands)) if is_guided => {
                self.gpu.write(bands, 0, &batch.bands);
                batch.bands.clear();
                guided.set(&MatchGuidedParams { n_searches });
                guided
            }
            _ => {
                work.search.set(&MatchDescriptorsParams { n_searches });
                &work.search
            }
        };
        work.test.set(&MatchMutualParams::new(places.len(), searches.n_matches, RatioTest::new(ratio)));
        let mut recording = record(&self.gpu)?;
        recording.pass("nearest").dispatch(search, searches.groups());
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
        let (searches, descriptors) = (&self.searches, self.arena.descriptors());
        let search = gpu
            .kernel(&match_descriptors::SHADER, &[])?
            .bind(&MatchDescriptorsParams { n_searches: 0 }, &[searches, descriptors, &nearest])?;
        let guided = match (&self.bands, self.arena.spots()) {
            (Some(bands), Some(SpotBuffers { spots, bounds })) => {
                let buffers: [&dyn AnyBuffer; 6] = [searches, bands, descriptors, spots, bounds, &nearest];
                let kernel = gpu.kernel(&match_guided::SHADER, &[])?;
                Some(kernel.bind(&MatchGuidedParams { n_searches: 0 }, &buffers)?)
            }
            _ => None,
        };
        let test = gpu
            .kernel(&match_mutual::SHADER, &[])?
            .bind(&MatchMutualParams::new(0, 0, RatioTest::new(1.0)), &[searches, &nearest, &matches])?;
        let found = gpu.readback("matches", n_matches)?;
        self.work = Some(Work { nearest, matches, found, search, guided, test });
        Ok(())
    }
}

/// Pairs on their way to a submission, and what came of all so far.
#[derive(Default)]
struct Batch {
    /// Index of the earlier keyframe, and where both lie.
    pairs: Vec<(usize, [Place; 2])>,
    bands: Vec<Band>,
    n_distances: usize,
    found: Vec<Vec<DescriptorMatch>>,
    times: Vec<PassTime>,
}
