//! Reads a COLMAP database by the description of its layout alone: nothing of the writer is used.
#![allow(dead_code)] // each test file uses a part

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, Row};

pub type Pair = (u32, u32);

#[derive(Debug, PartialEq)]
pub struct CameraRow {
    pub id: u32,
    pub model: i32,
    pub size: (u32, u32),
    pub params: Vec<f64>,
    pub prior: bool,
}

#[derive(Debug, PartialEq)]
pub struct GeometryRow {
    pub inliers: Vec<[u32; 2]>,
    pub config: i32,
    pub f: Option<Vec<f64>>,
    pub e: Option<Vec<f64>>,
    pub h: Option<Vec<f64>>,
    pub qvec: Option<Vec<f64>>,
    pub tvec: Option<Vec<f64>>,
}

/// Everything in a database.
#[derive(Debug)]
pub struct Database {
    pub stamp: i32,
    /// Table name -> its columns in order.
    pub columns: BTreeMap<String, Vec<String>>,
    pub cameras: Vec<CameraRow>,
    /// (image id, name, camera id), by id.
    pub images: Vec<(u32, String, u32)>,
    pub keypoints: BTreeMap<u32, Vec<[f32; 6]>>,
    pub descriptors: BTreeMap<u32, Vec<[u8; 128]>>,
    pub matches: BTreeMap<Pair, Vec<[u32; 2]>>,
    pub geometries: BTreeMap<Pair, GeometryRow>,
}

impl Database {
    pub fn read(path: &Path) -> Database {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = Connection::open_with_flags(path, flags).expect("the database opens");
        let integrity: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
        let camera = |row: &Row| CameraRow {
            id: row.get(0).unwrap(),
            model: row.get(1).unwrap(),
            size: (row.get(2).unwrap(), row.get(3).unwrap()),
            params: floats(row.get(4).unwrap()),
            prior: row.get(5).unwrap(),
        };
        let image = |row: &Row| (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
        Database {
            stamp: file.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap(),
            columns: columns(&file),
            cameras: rows(&file, "cameras", camera),
            images: rows(&file, "images", image),
            keypoints: rows(&file, "keypoints", |row| (row.get(0).unwrap(), keypoints(row)))
                .into_iter()
                .collect(),
            descriptors: rows(&file, "descriptors", |row| (row.get(0).unwrap(), matrix::<128>(row, 128)))
                .into_iter()
                .collect(),
            matches: rows(&file, "matches", |row| (pair(row), index_pairs(row))).into_iter().collect(),
            geometries: rows(&file, "two_view_geometries", |row| (pair(row), geometry(row)))
                .into_iter()
                .collect(),
        }
    }
}

fn rows<T>(file: &Connection, table: &str, read: impl Fn(&Row) -> T) -> Vec<T> {
    let mut statement = file.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
    statement.query_map([], |row| Ok(read(row))).unwrap().map(Result::unwrap).collect()
}

fn columns(file: &Connection) -> BTreeMap<String, Vec<String>> {
    let mut statement = file
        .prepare("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY c.cid")
        .unwrap();
    let mut columns = BTreeMap::<String, Vec<String>>::new();
    for pair in statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap() {
        let (table, column): (String, String) = pair.unwrap();
        columns.entry(table).or_default().push(column);
    }
    columns
}

/// 2147483647 times the smaller id, plus the larger.
fn pair(row: &Row) -> Pair {
    let id: i64 = row.get(0).unwrap();
    let larger = id % 2_147_483_647;
    let smaller = (id - larger) / 2_147_483_647;
    assert!(smaller < larger, "pair {id} holds images {smaller} and {larger}");
    (smaller as u32, larger as u32)
}

fn floats(blob: Vec<u8>) -> Vec<f64> {
    blob.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes a number"))).collect()
}

/// Columns 1 to 3 of every table of matrices: rows, cols, data.
fn matrix<const N: usize>(row: &Row, cols: i64) -> Vec<[u8; N]> {
    let n_rows: usize = row.get::<_, i64>(1).unwrap() as usize;
    assert_eq!(row.get::<_, i64>(2).unwrap(), cols);
    let blob: Vec<u8> = row.get(3).unwrap();
    assert_eq!(blob.len(), n_rows * N, "a blob is rows x cols x size long");
    blob.chunks(N).map(|bytes| bytes.try_into().unwrap()).collect()
}

fn keypoints(row: &Row) -> Vec<[f32; 6]> {
    let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    let from_bytes = |bytes: [u8; 24]| std::array::from_fn(|i| float(&bytes[4 * i..4 * i + 4]));
    matrix::<24>(row, 6).into_iter().map(from_bytes).collect()
}

fn index_pairs(row: &Row) -> Vec<[u32; 2]> {
    let index = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    matrix::<8>(row, 2).into_iter().map(|bytes| [index(&bytes[..4]), index(&bytes[4..])]).collect()
}

fn geometry(row: &Row) -> GeometryRow {
    let numbers = |column: usize, n: usize| {
        let blob: Option<Vec<u8>> = row.get(column).unwrap();
        let numbers = blob.map(floats);
        assert!(
            numbers.as_ref().is_none_or(|numbers| numbers.len() == n),
            "column {column} holds {n} numbers"
        );
        numbers
    };
    GeometryRow {
        inliers: index_pairs(row),
        config: row.get(4).unwrap(),
        f: numbers(5, 9),
        e: numbers(6, 9),
        h: numbers(7, 9),
        qvec: numbers(8, 4),
        tvec: numbers(9, 3),
    }
}
