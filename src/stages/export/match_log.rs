//! matches.csv: every match of every pair with its source, which the database has no place for.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::{ExportError, io_error};
use crate::message::{Match, Source, VerifiedPair};

/// Writes matches.csv, or nothing.
pub struct MatchLog {
    csv: Option<(PathBuf, BufWriter<File>)>,
}

impl MatchLog {
    /// Opens matches.csv where a path is given.
    pub fn create(csv: Option<PathBuf>) -> Result<MatchLog, ExportError> {
        let Some(path) = csv else { return Ok(MatchLog { csv: None }) };
        let mut file = BufWriter::new(File::create(&path).map_err(io_error("create", &path))?);
        writeln!(file, "first,second,keypoint1,keypoint2,source,track_id,inlier")
            .map_err(io_error("write", &path))?;
        Ok(MatchLog { csv: Some((path, file)) })
    }

    /// Writes the matches of a pair of images, ascending by keypoints.
    pub fn write(&mut self, first: u32, second: u32, pair: &VerifiedPair) -> Result<(), ExportError> {
        let Some((path, file)) = &mut self.csv else { return Ok(()) };
        for (m, inlier) in with_verdict(pair) {
            let track = m.track.map_or(String::new(), |track| track.to_string());
            let (a, b, source, inlier) = (m.first, m.second, name(m.source), u8::from(inlier));
            writeln!(file, "{first},{second},{a},{b},{source},{track},{inlier}")
                .map_err(io_error("write", path))?;
        }
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(&mut self) -> Result<(), ExportError> {
        match &mut self.csv {
            Some((path, file)) => file.flush().map_err(io_error("write", path)),
            None => Ok(()),
        }
    }

    /// Where matches.csv is, if it is written.
    pub fn path(&self) -> Option<&PathBuf> {
        self.csv.as_ref().map(|(path, _)| path)
    }
}

/// The merged matches and those that guided matching added, each with whether it is an inlier.
fn with_verdict(pair: &VerifiedPair) -> Vec<(Match, bool)> {
    let key = |m: &Match| (m.first, m.second);
    let inliers = pair.geometry.as_ref().map_or(&[][..], |geometry| &geometry.inliers);
    let is_inlier = |m: &Match| inliers.binary_search_by_key(&key(m), key).is_ok();
    let is_merged = |m: &Match| pair.matches.binary_search_by_key(&key(m), key).is_ok();
    let guided = inliers.iter().filter(|m| !is_merged(m)).map(|m| (*m, true));
    let mut all: Vec<_> = pair.matches.iter().map(|m| (*m, is_inlier(m))).chain(guided).collect();
    all.sort_by_key(|(m, _)| key(m));
    all
}

fn name(source: Source) -> &'static str {
    match source {
        Source::Klt => "klt",
        Source::Sift => "sift",
        Source::Both => "both",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Config, TwoViewGeometry};

    #[test]
    fn guided_and_rejected_matches_stand_in_order() {
        let m = |first, second, source, track| Match { first, second, source, track };
        let inliers = vec![m(1, 4, Source::Both, Some(9)), m(2, 0, Source::Sift, None)];
        let config = Config::Uncalibrated;
        let geometry = TwoViewGeometry {
            config,
            f: None,
            e: None,
            h: None,
            cam2_from_cam1: None,
            inliers,
            parallax: None,
        };
        let matches = vec![m(1, 4, Source::Both, Some(9)), m(3, 3, Source::Klt, Some(5))];
        let pair = VerifiedPair { first: 0, matches, geometry: Some(geometry) };
        let folder = tempfile::tempdir().unwrap();
        let mut log = MatchLog::create(Some(folder.path().join("matches.csv"))).unwrap();
        log.write(1, 3, &pair).unwrap();
        log.finish().unwrap();
        let written = std::fs::read_to_string(log.path().unwrap()).unwrap();
        let header = "first,second,keypoint1,keypoint2,source,track_id,inlier";
        assert_eq!(written, format!("{header}\n1,3,1,4,both,9,1\n1,3,2,0,sift,,1\n1,3,3,3,klt,5,0\n"));
    }
}
