// Keeps the picks that have their distance.
//
// One flag a cell, 1 or 0. A pick falls when a stronger pick of a neighbouring cell (the lower cell on a tie), itself kept
// or not, or any live track of a neighbouring cell is closer than `min_distance_px`, which is at most a cell.
// One invocation: one cell.
// Same bits as the twin where the device does not fuse.

struct Params {
    columns: u32,
    rows: u32,
    min_distance_px: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> alive: array<vec2f>;
@group(0) @binding(2) var<storage> starts: array<u32>;
@group(0) @binding(3) var<storage> tracks: array<u32>;
@group(0) @binding(4) var<storage> picks: array<Pick>;
@group(0) @binding(5) var<storage, read_write> kept: array<u32>;

fn distance2(pick: Pick, at: vec2f) -> f32 {
    let dx = f32(pick.x) - at.x;
    let dy = f32(pick.y) - at.y;
    return dx * dx + dy * dy;
}

fn limit2() -> f32 {
    return params.min_distance_px * params.min_distance_px;
}

fn is_beaten(cell: u32, pick: Pick, near: u32) -> bool {
    let other = picks[near];
    let is_stronger = other.strength > pick.strength || (other.strength == pick.strength && near < cell);
    return is_stronger && distance2(pick, vec2f(f32(other.x), f32(other.y))) < limit2();
}

fn is_taken(pick: Pick, near: u32) -> bool {
    for (var i = starts[near]; i < starts[near + 1u]; i++) {
        if distance2(pick, alive[tracks[i]]) < limit2() {
            return true;
        }
    }
    return false;
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) at: vec3u) {
    if at.x >= params.columns || at.y >= params.rows {
        return;
    }
    let cell = at.y * params.columns + at.x;
    let pick = picks[cell];
    var is_kept = pick.strength > 0.0;
    for (var row = max(at.y, 1u) - 1u; row < min(at.y + 2u, params.rows); row++) {
        for (var column = max(at.x, 1u) - 1u; column < min(at.x + 2u, params.columns); column++) {
            let near = row * params.columns + column;
            is_kept = is_kept && !is_beaten(cell, pick, near) && !is_taken(pick, near);
        }
    }
    kept[cell] = select(0u, 1u, is_kept);
}
