//! What the record of a run tells about mapping it: faults of the video and weak spots of the pair graph, in words.

use super::{PairRecord, RunRecord, initial_pair};
use crate::geometry::Config;
use crate::message::GateReason;
use crate::stages::StreamEnd;

/// Fewer keyframes than this make a weak model.
const MIN_KEYFRAMES: usize = 8;
/// Less motion between keyframes than this, in pixels of a picture with a longer side of 640, is a camera that stands still.
const MIN_MOTION_PX: f64 = 1.0;
/// Inliers COLMAP's mapper asks for to register an image.
const MIN_REGISTRATION_INLIERS: u32 = 30;
/// Names a message lists before it counts the rest.
const MAX_LISTED: usize = 4;

/// What a diagnosis needs beside the record.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Longer side of the exported pictures; 0 where there is none.
    pub exported_side: u32,
    /// Frames a verdict travels back.
    pub verdict_lag_frames: u32,
    /// How the stream ended.
    pub end: StreamEnd,
}

/// All warnings on a run, the gravest first. They depend on the record alone, never on times.
pub fn warnings(record: &RunRecord, circumstances: &Circumstances) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(cut(record, circumstances.end));
    warnings.extend(too_few(record));
    let no_depth = standstill(record, circumstances.exported_side).or_else(|| rotation_only(record));
    warnings.extend(no_depth.or_else(|| no_initial_pair(record)));
    if record.keyframes.len() > 1 {
        warnings.extend(weak_spots(record));
    }
    warnings.extend(budget(record));
    warnings.extend(late_verdicts(record, circumstances.verdict_lag_frames));
    warnings
}

fn cut(record: &RunRecord, end: StreamEnd) -> Option<String> {
    let last = record
        .frames
        .last()
        .map_or("before the first frame".to_owned(), |f| format!("after frame {}", f.frame));
    (end == StreamEnd::Cut).then(|| format!("the run was cut {last}: this is what there was until then"))
}

fn too_few(record: &RunRecord) -> Option<String> {
    match (record.frames.len(), record.keyframes.len()) {
        (0, _) => Some("no frame came out of the input".to_owned()),
        (frames, 0) => Some(format!("none of {frames} frames became a keyframe")),
        (frames, n) if n < MIN_KEYFRAMES => Some(format!(
            "only {n} of {frames} frames became keyframes: a model of so few images is weak; sample more frames \
             (--fps), ask for less motion between keyframes (keyframe_gate) or film longer"
        )),
        _ => None,
    }
}

fn standstill(record: &RunRecord, exported_side: u32) -> Option<String> {
    let mut motions: Vec<f64> = record.keyframes.iter().filter_map(|keyframe| keyframe.motion_px).collect();
    motions.sort_by(f64::total_cmp);
    let median = motions.get(motions.len() / 2).copied();
    // Without a pair of keyframes, what the gate measured.
    let largest = || record.frames.iter().filter_map(|frame| frame.motion_px).max_by(f64::total_cmp);
    let motion = median.or_else(largest)? * 640.0 / f64::from(exported_side.max(1));
    let seen = match median {
        Some(_) => {
            format!("from keyframe to keyframe the picture moves by {motion:.2} px (median, longer side 640)")
        }
        None => format!("no frame is more than {motion:.2} px (longer side 640) from the keyframe before"),
    };
    (motion < MIN_MOTION_PX).then(|| {
        format!(
            "the camera does not move: {seen}; depth shows only from different places, so move the camera around the \
             scene"
        )
    })
}

fn rotation_only(record: &RunRecord) -> Option<String> {
    let count = |config| record.pairs.iter().filter(|pair| pair.config == Some(config)).count();
    let verified = record.pairs.iter().filter(|pair| pair.config.is_some()).count();
    let rotating = count(Config::Panoramic);
    let unclear = rotating + count(Config::PlanarOrPanoramic);
    if 2 * rotating > verified {
        Some(format!(
            "the camera only rotates: {rotating} of {verified} verified pairs show no change of place; walk with the \
             camera instead of turning it"
        ))
    } else if 2 * unclear > verified {
        Some(format!(
            "{unclear} of {verified} verified pairs show a rotation or a single plane: a mapper finds no depth in them; \
             walk with the camera, and film a scene with depth"
        ))
    } else {
        None
    }
}

/// The pair graph: keyframes without a link, parts without a link between them, thin links.
fn weak_spots(record: &RunRecord) -> Vec<String> {
    let verified: Vec<&PairRecord> = record.pairs.iter().filter(|pair| pair.config.is_some()).collect();
    if verified.is_empty() {
        return vec![
            "no two keyframes are linked by verified matches: nothing can be mapped before other matches are added"
                .to_owned(),
        ];
    }
    let parts = components(record.keyframes.len(), &verified);
    let (alone, linked): (Vec<&Vec<usize>>, Vec<_>) = parts.iter().partition(|part| part.len() == 1);
    let mut warnings = Vec::new();
    if !alone.is_empty() {
        let names = alone.iter().map(|part| record.keyframes[part[0]].image.clone());
        warnings.push(format!(
            "keyframes linked to no other ({} of {}): {}",
            alone.len(),
            record.keyframes.len(),
            listed(names)
        ));
    }
    if linked.len() > 1 {
        let names = linked.iter().map(|part| {
            let [first, last] = [part[0], part[part.len() - 1]].map(|i| &record.keyframes[i].image);
            format!("{first} to {last} ({} keyframes)", part.len())
        });
        warnings.push(format!(
            "the keyframes fall into {} parts that no verified pair links: {}; a mapper makes a model of each, so film \
             the way from one to the other slower or again",
            linked.len(),
            listed(names)
        ));
    }
    let thin = thin_links(record.keyframes.len(), &verified);
    if !thin.is_empty() {
        let names = thin
            .iter()
            .map(|&i| format!("{} and {}", record.keyframes[i].image, record.keyframes[i + 1].image));
        warnings.push(format!(
            "thin links, no pair across has {MIN_REGISTRATION_INLIERS} inliers: between {}; a mapper may stop there",
            listed(names)
        ));
    }
    warnings
}

/// Connected components of keyframe indices, each ascending, by their first keyframe.
fn components(n_keyframes: usize, pairs: &[&PairRecord]) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..n_keyframes).collect();
    for pair in pairs {
        let [a, b] = [pair.first, pair.second].map(|id| root(&mut parent, id as usize - 1));
        parent[a.max(b)] = a.min(b);
    }
    let mut parts = vec![Vec::new(); n_keyframes];
    for i in 0..n_keyframes {
        parts[root(&mut parent, i)].push(i);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn root(parent: &mut [usize], mut i: usize) -> usize {
    while parent[i] != i {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    i
}

/// The keyframe indices i where pairs lead across from i and before to i + 1 and after, but none with enough inliers.
fn thin_links(n_keyframes: usize, pairs: &[&PairRecord]) -> Vec<usize> {
    let crossing = |strong: bool| {
        let mut steps = vec![0i64; n_keyframes + 1];
        for pair in pairs.iter().filter(|pair| !strong || pair.inliers >= MIN_REGISTRATION_INLIERS) {
            steps[pair.first as usize - 1] += 1;
            steps[pair.second as usize - 1] -= 1;
        }
        steps.into_iter().scan(0, |sum, step| {
            *sum += step;
            Some(*sum)
        })
    };
    let counts = crossing(false).zip(crossing(true)).take(n_keyframes.saturating_sub(1));
    counts.enumerate().filter(|(_, (all, strong))| *all > 0 && *strong == 0).map(|(i, _)| i).collect()
}

fn no_initial_pair(record: &RunRecord) -> Option<String> {
    let refused = initial_pair::choose(&record.pairs).err().filter(|refused| refused.any_verified())?;
    Some(format!("no pair is good enough to begin an incremental mapper with: {refused}"))
}

fn budget(record: &RunRecord) -> Option<String> {
    let held_back = record.frames.iter().filter(|frame| frame.reason == GateReason::Budget).count();
    (held_back > 0).then(|| {
        format!("the limit of keyframes held back {held_back} frames: raise --max-keyframes for more overlap")
    })
}

/// Verdicts on the last frames come after the stream: they matter where tracks run and keyframes were verified.
fn late_verdicts(record: &RunRecord, lag: u32) -> Option<String> {
    let late = record.frames.iter().rev().take(lag as usize);
    let keyframes = late.filter(|frame| frame.kept && frame.alive > 0).count();
    (keyframes > 0).then(|| {
        format!("the verdicts on the last {lag} frames came after the end and ended no track (keyframes among them: {keyframes})")
    })
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(MAX_LISTED);
    let mut text = names.take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        text += &format!(" and {rest} more");
    }
    text
}

#[cfg(test)]
mod tests;
