//! The writer of a COLMAP database: 3.8's layout, stamp 3800, no rigs, frames or pose priors.
//!
//! The bytes depend on the calls alone. Rows become durable at `commit`; a writer that is dropped without `finish`
//! leaves a database that holds everything up to the last commit.

use std::path::{Path, PathBuf};

use rusqlite::types::ToSql;
use rusqlite::{Connection, params};

use super::{KeypointRow, MAX_IMAGES, pair_id};
use crate::geometry::TwoViewGeometry;
use crate::geometry::camera::Camera;
use crate::message::Descriptor;

/// `user_version` of COLMAP 3.8; later versions migrate from it.
const STAMP: i32 = 3800;

const SCHEMA: &str = include_str!("schema.sql");

/// What keeps a database from being written.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file is there already.
    #[error("database {} exists already: remove it or write elsewhere", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// SQLite refused.
    #[error("database {}: cannot {action}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// An id that COLMAP cannot hold.
    #[error("image id {id} is not in 1..=2147483646")]
    ImageId {
        /// The id.
        id: u32,
    },
    /// The columns of a pair's rows belong to the smaller and the larger image id.
    #[error("pair of images {first} and {second}: the first id must be the smaller one")]
    PairOrder {
        /// As given.
        first: u32,
        /// As given.
        second: u32,
    },
    /// Descriptors go with keypoints row by row.
    #[error("image {image}: {descriptors} descriptors for {keypoints} keypoints")]
    RowCount {
        /// Image id.
        image: u32,
        /// Rows of keypoints.
        keypoints: usize,
        /// Rows of descriptors.
        descriptors: usize,
    },
}

type Result<T> = std::result::Result<T, DatabaseError>;

/// Writes one database, image by image.
#[derive(Debug)]
pub struct DatabaseWriter {
    connection: Connection,
    path: PathBuf,
    blob: Vec<u8>,
}

impl DatabaseWriter {
    /// Creates the file with its tables; it must not exist.
    pub fn create(path: &Path) -> Result<DatabaseWriter> {
        if path.exists() {
            return Err(DatabaseError::Exists { path: path.to_owned() });
        }
        let failed = |source| DatabaseError::Sqlite { path: path.to_owned(), action: "create it", source };
        let connection = Connection::open(path).map_err(failed)?;
        let settings = [
            ("page_size", 4096),
            ("auto_vacuum", 1),
            ("synchronous", 0),
            ("foreign_keys", 1),
            ("user_version", STAMP),
        ];
        connection.pragma_update(None, "journal_mode", "DELETE").map_err(failed)?;
        for (pragma, value) in settings {
            connection.pragma_update(None, pragma, value).map_err(failed)?;
        }
        connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT; BEGIN")).map_err(failed)?;
        Ok(DatabaseWriter { connection, path: path.to_owned(), blob: Vec::new() })
    }

    /// Adds a camera under the next id and returns that id.
    pub fn add_camera(&mut self, camera: &Camera) -> Result<u32> {
        fill(&mut self.blob, &camera.params, |value| value.to_le_bytes());
        self.insert(
            "add a camera",
            "INSERT INTO cameras (model, width, height, params, prior_focal_length) VALUES (?, ?, ?, ?, ?)",
            params![camera.model.id(), camera.width, camera.height, self.blob, camera.has_prior_focal_length],
        )?;
        Ok(self.connection.last_insert_rowid() as u32)
    }

    /// Adds an image. Ids are 1..=2147483646; names are relative to the image folder.
    pub fn add_image(&mut self, id: u32, name: &str, camera: u32) -> Result<()> {
        if id == 0 || u64::from(id) >= MAX_IMAGES {
            return Err(DatabaseError::ImageId { id });
        }
        self.insert(
            "add an image",
            "INSERT INTO images (image_id, name, camera_id) VALUES (?, ?, ?)",
            params![id, name, camera],
        )
    }

    /// Writes an image's keypoints and their descriptors, row by row the same points.
    pub fn write_features(
        &mut self,
        image: u32,
        keypoints: &[KeypointRow],
        descriptors: &[Descriptor],
    ) -> Result<()> {
        if keypoints.len() != descriptors.len() {
            let (keypoints, descriptors) = (keypoints.len(), descriptors.len());
            return Err(DatabaseError::RowCount { image, keypoints, descriptors });
        }
        fill(&mut self.blob, keypoints.as_flattened(), |value| value.to_le_bytes());
        self.insert(
            "write keypoints",
            "INSERT INTO keypoints (image_id, rows, cols, data) VALUES (?, ?, 6, ?)",
            params![image, keypoints.len() as i64, self.blob],
        )?;
        self.insert(
            "write descriptors",
            "INSERT INTO descriptors (image_id, rows, cols, data) VALUES (?, ?, 128, ?)",
            params![image, descriptors.len() as i64, descriptors.as_flattened()],
        )
    }

    /// Writes a pair's matches: keypoint rows of `first` and of `second`, whose id is the larger one.
    pub fn write_matches(
        &mut self,
        first: u32,
        second: u32,
        matches: impl IntoIterator<Item = [u32; 2]>,
    ) -> Result<()> {
        let pair = ordered_pair(first, second)?;
        let rows = self.fill_matches(matches);
        self.insert(
            "write matches",
            "INSERT INTO matches (pair_id, rows, cols, data) VALUES (?, ?, 2, ?)",
            params![pair, rows, self.blob],
        )
    }

    /// Writes a verified pair: its inliers and what is known of its geometry; the rest is NULL.
    pub fn write_two_view_geometry(
        &mut self,
        first: u32,
        second: u32,
        geometry: &TwoViewGeometry,
    ) -> Result<()> {
        let pair = ordered_pair(first, second)?;
        let rows = self.fill_matches(geometry.inliers.iter().map(|m| [m.first, m.second]));
        let [f, e, h] = [&geometry.f, &geometry.e, &geometry.h].map(|m| m.as_ref().map(|m| blob_from(m)));
        let qvec = geometry.cam2_from_cam1.map(|(rotation, _)| blob_from(&rotation));
        let tvec = geometry.cam2_from_cam1.map(|(_, translation)| blob_from(&translation));
        self.insert(
            "write a two-view geometry",
            "INSERT INTO two_view_geometries (pair_id, rows, cols, data, config, F, E, H, qvec, tvec)
             VALUES (?, ?, 2, ?, ?, ?, ?, ?, ?, ?)",
            params![pair, rows, self.blob, geometry.config as i32, f, e, h, qvec, tvec],
        )
    }

    /// Makes the rows so far durable.
    pub fn commit(&mut self) -> Result<()> {
        self.connection.execute_batch("COMMIT; BEGIN").map_err(|source| self.failed("commit", source))
    }

    /// Commits and closes; only the one file is left.
    pub fn finish(self) -> Result<()> {
        self.connection.execute_batch("COMMIT").map_err(|source| self.failed("commit", source))?;
        let DatabaseWriter { connection, path, .. } = self;
        connection.close().map_err(|(_, source)| DatabaseError::Sqlite { path, action: "close it", source })
    }

    /// Leaves the rows of `matches` in `blob` and returns their number.
    fn fill_matches(&mut self, matches: impl IntoIterator<Item = [u32; 2]>) -> i64 {
        self.blob.clear();
        self.blob.extend(matches.into_iter().flatten().flat_map(u32::to_le_bytes));
        (self.blob.len() / 8) as i64
    }

    fn insert(&self, action: &'static str, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
        let inserted =
            self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        inserted.map(drop).map_err(|source| self.failed(action, source))
    }

    fn failed(&self, action: &'static str, source: rusqlite::Error) -> DatabaseError {
        DatabaseError::Sqlite { path: self.path.clone(), action, source }
    }
}

fn ordered_pair(first: u32, second: u32) -> Result<i64> {
    if first >= second {
        return Err(DatabaseError::PairOrder { first, second });
    }
    Ok(pair_id(first, second))
}

fn fill<T: Copy, const N: usize>(blob: &mut Vec<u8>, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    blob.clear();
    blob.extend(values.iter().flat_map(|&value| bytes(value)));
}

fn blob_from(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
