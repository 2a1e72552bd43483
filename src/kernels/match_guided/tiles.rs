//! Keypoints in tiles of neighbours: a tile that no band can reach is left out as a whole.

/// Keypoints of a tile.
pub const TILE: usize = 32;

/// The keypoints of a tile; not all of the last are used.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Positions, NaN behind the last keypoint.
    pub x: [f64; TILE],
    /// The same.
    pub y: [f64; TILE],
    /// Keypoints, `u32::MAX` behind the last.
    pub index: [u32; TILE],
}

/// What holds all positions of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Middle.
    pub middle: [f64; 2],
    /// Half of its sides.
    pub half: [f64; 2],
}

/// The keypoints of a picture that have a finite position: columns of tiles, in each column from the top down.
#[derive(Clone, Debug, Default)]
pub struct Tiles {
    /// The tiles.
    pub tiles: Vec<Tile>,
    /// One a tile.
    pub bounds: Vec<Bounds>,
    /// What holds all positions; none for none.
    all: Option<Bounds>,
    /// What is sorted: a coordinate in the upper half, a keypoint in the lower.
    keys: Vec<u64>,
}

impl Tiles {
    /// Of positions in pixels.
    pub fn new(positions: &[[f64; 2]]) -> Tiles {
        let mut tiles = Tiles::default();
        tiles.fill(positions);
        tiles
    }

    /// The same anew.
    pub fn fill(&mut self, positions: &[[f64; 2]]) {
        let Tiles { tiles, bounds, all, keys } = self;
        tiles.clear();
        bounds.clear();
        let is_finite = |&i: &usize| positions[i].iter().all(|v| v.is_finite());
        let finite = || (0..positions.len()).filter(is_finite);
        *all = finite().next().map(|_| Bounds::of(finite().map(|i| positions[i])));
        let Some(all) = all else { return };
        let key = |i: usize, axis: usize| {
            let steps = u32::MAX as f64 / (2.0 * all.half[axis]);
            let from_low = positions[i][axis] - (all.middle[axis] - all.half[axis]);
            ((from_low * steps) as u64) << 32 | i as u64
        };
        keys.clear();
        keys.extend(finite().map(|i| key(i, 0)));
        keys.sort_unstable();
        let n_tiles = keys.len().div_ceil(TILE);
        let n_columns = (n_tiles as f64 * all.half[0] / all.half[1]).sqrt() as usize;
        let in_column = n_tiles.div_ceil(n_columns.clamp(1, n_tiles));
        for column in keys.chunks_mut(in_column * TILE) {
            column.iter_mut().for_each(|k| *k = key(*k as u32 as usize, 1));
            column.sort_unstable();
            for of_tile in column.chunks(TILE) {
                let mut tile = Tile { x: [f64::NAN; TILE], y: [f64::NAN; TILE], index: [u32::MAX; TILE] };
                for (k, key) in of_tile.iter().enumerate() {
                    let index = *key as u32;
                    [tile.x[k], tile.y[k]] = positions[index as usize];
                    tile.index[k] = index;
                }
                bounds.push(Bounds::of(of_tile.iter().map(|key| positions[*key as u32 as usize])));
                tiles.push(tile);
            }
        }
    }
}

impl Tiles {
    /// The middle of all positions.
    pub fn middle(&self) -> [f64; 2] {
        self.all.map_or([0.0; 2], |all| all.middle)
    }
}

impl Bounds {
    fn of(positions: impl Iterator<Item = [f64; 2]>) -> Bounds {
        let (mut low, mut high) = ([f64::MAX; 2], [f64::MIN; 2]);
        for position in positions {
            for axis in 0..2 {
                low[axis] = low[axis].min(position[axis]);
                high[axis] = high[axis].max(position[axis]);
            }
        }
        Bounds {
            middle: [0, 1].map(|axis| 0.5 * low[axis] + 0.5 * high[axis]),
            half: [0, 1].map(|axis| 0.5 * high[axis] - 0.5 * low[axis]),
        }
    }
}
