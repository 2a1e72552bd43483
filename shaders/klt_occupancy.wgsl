// The live tracks of each cell, all of them: a counting sort of the track indices by cell.
//
// Positions in pixels, centres at integers; positions outside the frame count to the nearest cell. Out: where each cell's
// tracks begin, and the track indices cell by cell, ascending within a cell. `unordered` is scratch.
// One workgroup: the whole table.
// Same bits as the twin: integers, and their order is settled by rank.

struct Params {
    cell_px: u32,
    columns: u32,
    rows: u32,
    n_tracks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> alive: array<vec2f>;
@group(0) @binding(2) var<storage, read_write> starts: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> tracks: array<u32>;
@group(0) @binding(4) var<storage, read_write> unordered: array<u32>;

const LANES = 256u;

var<workgroup> sums: array<u32, LANES>;

fn cell_of(track: u32) -> u32 {
    let pixel = vec2u(max(alive[track] + 0.5, vec2f(0.0)));
    let cell = min(pixel / params.cell_px, vec2u(params.columns, params.rows) - 1u);
    return cell.y * params.columns + cell.x;
}

// Makes each of the `n` counts the sum of all up to it.
fn sum_up(lane: u32, n: u32) {
    let run = (n + LANES - 1u) / LANES;
    let first = min(lane * run, n);
    let last = min(first + run, n);
    var sum = 0u;
    for (var i = first; i < last; i++) {
        sum += atomicLoad(&starts[i]);
    }
    sums[lane] = sum;
    workgroupBarrier();
    sum = 0u;
    for (var before = 0u; before < lane; before++) {
        sum += sums[before];
    }
    for (var i = first; i < last; i++) {
        sum += atomicLoad(&starts[i]);
        atomicStore(&starts[i], sum);
    }
}

// How many tracks of its cell come before it.
fn rank_of(track: u32, first: u32, end: u32) -> u32 {
    var rank = 0u;
    for (var i = first; i < end; i++) {
        rank += select(0u, 1u, unordered[i] < track);
    }
    return rank;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let n_starts = params.columns * params.rows + 1u;
    for (var i = lane; i < n_starts; i += LANES) {
        atomicStore(&starts[i], 0u);
    }
    storageBarrier();
    for (var track = lane; track < params.n_tracks; track += LANES) {
        atomicAdd(&starts[cell_of(track)], 1u);
    }
    storageBarrier();
    sum_up(lane, n_starts);
    storageBarrier();
    for (var track = lane; track < params.n_tracks; track += LANES) {
        unordered[atomicSub(&starts[cell_of(track)], 1u) - 1u] = track;
    }
    storageBarrier();
    for (var track = lane; track < params.n_tracks; track += LANES) {
        let cell = cell_of(track);
        let first = atomicLoad(&starts[cell]);
        tracks[first + rank_of(track, first, atomicLoad(&starts[cell + 1u]))] = track;
    }
}
