//! The folder of a result. Everything is written in a temporary folder beside it and renamed at the end, so OUT never
//! holds half a result, whenever the program is killed.
//!
//! The temporary folder `.NAME.run-XXXXXX` holds a lock file that the running program keeps locked. A program that was
//! killed leaves its folder behind, unlocked; the next run to the same OUT removes it. A locked one is another run at
//! work, and the new one is refused.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Why a result cannot be written where it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The path ends in no name.
    #[error("--out {}: the path ends in no folder name; name the folder that the result becomes", .0.display())]
    NoName(PathBuf),
    /// A file stands there.
    #[error("--out {}: it is a file; name a folder, or one that does not exist yet", .0.display())]
    File(PathBuf),
    /// The folder has content.
    #[error("--out {}: the folder is not empty; name another, or give --overwrite to replace it", .0.display())]
    NotEmpty(PathBuf),
    /// The folder has content that is not ours.
    #[error(
        "--out {}: the folder is not empty and holds no run.json, so it is no earlier result and --overwrite does not \
         replace it; name another", .0.display()
    )]
    NotOurs(PathBuf),
    /// Another run writes there.
    #[error("--out {}: another run is writing there (its folder is {}); wait for it or name another", out.display(), folder.display())]
    Busy {
        /// The folder asked for.
        out: PathBuf,
        /// The other run's temporary folder.
        folder: PathBuf,
    },
    /// The parent does not let us.
    #[error("--out {}: nothing can be written in {}: {why}; name a folder in a place you may write to", out.display(), parent.display())]
    Unwritable {
        /// The folder asked for.
        out: PathBuf,
        /// Where it would stand.
        parent: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A file of the result.
    #[error("cannot write {}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The rename at the end.
    #[error("the result cannot be moved to {}: {why}; it is kept in {}", to.display(), kept.display())]
    Publish {
        /// Where it should stand.
        to: PathBuf,
        /// Where it stands now.
        kept: PathBuf,
        /// What the system says.
        why: String,
    },
}

/// A result in the making.
#[derive(Debug)]
pub struct OutputFolder {
    out: PathBuf,
    overwrite: bool,
    temporary: TempDir,
    /// Locked while this run is at work.
    _lock: File,
}

/// A result that could not be moved: where it is, and why.
struct Kept {
    folder: PathBuf,
    why: String,
}

const LOCK: &str = "lock";
const RESULT: &str = "result";
const REPLACED: &str = "replaced";

impl OutputFolder {
    /// Checks that the result can be written to `out` and makes the temporary folder.
    pub fn prepare(out: &Path, overwrite: bool) -> Result<OutputFolder, OutputError> {
        // A link stays, and what it points to becomes the result.
        let linked = out.is_symlink().then(|| out.canonicalize().ok()).flatten();
        let out = linked.as_deref().unwrap_or(out);
        let name = out.file_name().ok_or_else(|| OutputError::NoName(out.into()))?;
        let parent = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let unwritable = |error: io::Error| OutputError::Unwritable {
            out: out.into(),
            parent: parent.into(),
            why: error.kind().to_string(),
        };
        check_free(out, overwrite).map_err(unwritable)??;
        fs::create_dir_all(parent).map_err(unwritable)?;
        let prefix = format!(".{}.run-", name.to_string_lossy());
        sweep(out, parent, &prefix).map_err(unwritable)??;

        let temporary = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(unwritable)?;
        let lock = File::create(temporary.path().join(LOCK)).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        fs::create_dir(temporary.path().join(RESULT)).map_err(unwritable)?;
        Ok(OutputFolder { out: out.into(), overwrite, temporary, _lock: lock })
    }

    /// Where to write.
    pub fn path(&self) -> PathBuf {
        self.temporary.path().join(RESULT)
    }

    /// Moves the result to its place. What it replaces is removed after that.
    pub fn publish(self) -> Result<(), OutputError> {
        let (to, overwrite) = (self.out.clone(), self.overwrite);
        self.move_to(&to, overwrite).map_err(|Kept { folder, why }| OutputError::Publish {
            to,
            kept: folder,
            why,
        })
    }

    /// Moves what there is to `OUT.partial`, in place of an earlier one, and says where it is: where it was written, if
    /// that place is taken. OUT stays as it is.
    pub fn publish_partial(self) -> PathBuf {
        let mut partial = self.out.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        match self.move_to(&partial, true) {
            Ok(()) => partial,
            Err(kept) => kept.folder,
        }
    }

    /// Asks again whether the place is free: a run takes hours, and others may have used it.
    fn move_to(self, to: &Path, overwrite: bool) -> Result<(), Kept> {
        let replaced = self.temporary.path().join(REPLACED);
        let free = check_free(to, overwrite).and_then(|free| free.map_err(io::Error::other));
        let moved = free.and_then(|()| move_aside(to, &replaced)).and_then(|()| {
            fs::rename(self.path(), to).inspect_err(|_| {
                let _nothing_was_replaced = fs::rename(&replaced, to);
            })
        });
        moved.map_err(|error| {
            let kept = self.temporary.keep();
            // Without it the next run does not take the folder for one of a killed run, which it would remove.
            let _may_be_gone = fs::remove_file(kept.join(LOCK));
            Kept { folder: kept.join(RESULT), why: error.to_string() }
        })
    }
}

fn move_aside(path: &Path, aside: &Path) -> io::Result<()> {
    match fs::rename(path, aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Whether `out` is free, or holds an earlier result that may go.
fn check_free(out: &Path, overwrite: bool) -> io::Result<Result<(), OutputError>> {
    if !out.exists() {
        return Ok(Ok(()));
    }
    if !out.is_dir() {
        return Ok(Err(OutputError::File(out.into())));
    }
    let is_empty = fs::read_dir(out)?.next().is_none();
    Ok(match (is_empty, overwrite) {
        (true, _) => Ok(()),
        (false, false) => Err(OutputError::NotEmpty(out.into())),
        (false, true) if !out.join("run.json").is_file() => Err(OutputError::NotOurs(out.into())),
        (false, true) => Ok(()),
    })
}

/// Removes what killed runs left. Where one was killed between its two renames, the replaced result goes back first.
fn sweep(out: &Path, parent: &Path, prefix: &str) -> io::Result<Result<(), OutputError>> {
    for entry in fs::read_dir(parent)? {
        let folder = entry?.path();
        let is_ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        if !is_ours {
            continue;
        }
        let Ok(lock) = File::open(folder.join(LOCK)) else { continue };
        if lock.try_lock().is_err() {
            return Ok(Err(OutputError::Busy { out: out.into(), folder }));
        }
        if folder.join(REPLACED).exists() && !out.exists() {
            fs::rename(folder.join(REPLACED), out)?;
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A folder with an earlier result in `out`.
    fn with_result() -> (TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("run.json"), "old").unwrap();
        (parent, out)
    }

    fn written(out: &Path, overwrite: bool) -> OutputFolder {
        let output = OutputFolder::prepare(out, overwrite).unwrap();
        fs::write(output.path().join("run.json"), "new").unwrap();
        output
    }

    #[test]
    fn a_result_appears_whole_and_leaves_nothing_beside_it() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("deep/out");
        let output = written(&out, false);
        assert!(!out.exists());
        output.publish().unwrap();
        assert_eq!(names(out.parent().unwrap()), ["out"]);
        assert_eq!(names(&out), ["run.json"]);
    }

    #[test]
    fn an_earlier_result_is_replaced_at_the_end_only() {
        let (parent, out) = with_result();
        let refused = OutputFolder::prepare(&out, false).unwrap_err();
        assert!(matches!(refused, OutputError::NotEmpty(_)), "{refused}");
        let output = written(&out, true);
        assert_eq!(fs::read_to_string(out.join("run.json")).unwrap(), "old");
        output.publish().unwrap();
        assert_eq!(fs::read_to_string(out.join("run.json")).unwrap(), "new");
        assert_eq!(names(parent.path()), ["out"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_it_points_to_becomes_the_result() {
        let (parent, out) = with_result();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&out, &link).unwrap();
        written(&link, true).publish().unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(out.join("run.json")).unwrap(), "new");
        assert_eq!(names(parent.path()), ["link", "out"]);
    }

    #[test]
    fn a_failure_leaves_the_earlier_result_and_a_partial_one() {
        let (parent, out) = with_result();
        for _ in 0..2 {
            assert_eq!(written(&out, true).publish_partial(), parent.path().join("out.partial"));
        }
        assert_eq!(names(parent.path()), ["out", "out.partial"]);
        assert_eq!(fs::read_to_string(out.join("run.json")).unwrap(), "old");
        assert_eq!(fs::read_to_string(parent.path().join("out.partial/run.json")).unwrap(), "new");
    }

    #[test]
    fn what_others_put_there_during_a_run_stays_and_so_does_the_result() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        for (place, is_partial) in [("out", false), ("out.partial", true)] {
            let output = written(&out, false);
            let place = parent.path().join(place);
            fs::create_dir(&place).unwrap();
            fs::write(place.join("thesis.tex"), "").unwrap();
            let kept = if is_partial {
                output.publish_partial()
            } else {
                let published = output.publish();
                let Err(OutputError::Publish { kept, why, .. }) = published else { panic!("{published:?}") };
                assert!(why.contains("is not empty"), "{why}");
                kept
            };
            assert_eq!(names(&place), ["thesis.tex"]);
            fs::remove_dir_all(&place).unwrap();
            drop(OutputFolder::prepare(&out, false).unwrap());
            assert_eq!(names(&kept), ["run.json"]);
        }
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_it_replaced_comes_back() {
        let (parent, out) = with_result();
        let killed = parent.path().join(".out.run-killed");
        fs::create_dir(&killed).unwrap();
        File::create(killed.join(LOCK)).unwrap();
        fs::rename(&out, killed.join(REPLACED)).unwrap();
        drop(OutputFolder::prepare(&out, true).unwrap());
        assert_eq!(names(parent.path()), ["out"]);
        assert_eq!(fs::read_to_string(out.join("run.json")).unwrap(), "old");
    }

    #[test]
    fn two_runs_to_one_place_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        let _first = OutputFolder::prepare(&out, false).unwrap();
        let refused = OutputFolder::prepare(&out, false).unwrap_err();
        assert!(matches!(refused, OutputError::Busy { .. }), "{refused}");
    }

    #[test]
    fn folders_of_others_are_never_replaced() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("thesis.tex"), "").unwrap();
        let refused = OutputFolder::prepare(parent.path(), true).unwrap_err();
        assert!(matches!(refused, OutputError::NotOurs(_)), "{refused}");
    }
}
