// The points that may be among the strongest: of the whole picture or of their cell of a grid.
//
// `strengths` counts points by bins of strength, 64 a cell, no point twice. Whole bins stay, from the strongest down until
// they count as many as are asked for; all points where there are not so many. Their order is any.
// One invocation: one point; each workgroup finds the limits for itself.
// Same points as the twin's.

struct Params {
    grid: StrengthGrid,
    capacity: u32,
    most: u32,
    most_of_cell: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> points: array<RefinedPoint>;
@group(0) @binding(2) var<storage> strengths: array<u32>;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> strongest: array<RefinedPoint>;

const LANES = 256u;
const CELLS = 64u;
// Lanes that share a cell, or a bin, and the bins or cells of each.
const SHARES = 4u;
const SHARE = 16u;

var<workgroup> sums: array<u32, LANES>;
var<workgroup> of_bins: array<u32, STRENGTH_BINS>;
// The least bin that stays: of each cell, then of all.
var<workgroup> least_bins: array<u32, CELLS + 1u>;
var<workgroup> n_kept: atomic<u32>;
var<workgroup> first: u32;

fn find_limits_of_cells(lane: u32) {
    let begin = lane * SHARE;
    var sum = 0u;
    for (var i = 0u; i < SHARE; i++) {
        sum += strengths[begin + i];
    }
    sums[lane] = sum;
    if lane <= CELLS {
        let asked = select(params.most_of_cell, params.most, lane == CELLS);
        least_bins[lane] = select(0u, STRENGTH_BINS, asked == 0u);
    }
    workgroupBarrier();
    var n_before = 0u;
    for (var stronger = lane + 1u; stronger % SHARES != 0u; stronger++) {
        n_before += sums[stronger];
    }
    // One lane of those that share a cell comes to its limit.
    if n_before < params.most_of_cell {
        for (var i = SHARE; i > 0u; i--) {
            let n = n_before + strengths[begin + i - 1u];
            if n_before < params.most_of_cell && n >= params.most_of_cell {
                least_bins[lane / SHARES] = lane % SHARES * SHARE + i - 1u;
            }
            n_before = n;
        }
    }
    workgroupBarrier();
}

fn find_limit_of_all(lane: u32) {
    let bin = lane % STRENGTH_BINS;
    let first_cell = lane / STRENGTH_BINS * SHARE;
    var sum = 0u;
    for (var i = 0u; i < SHARE; i++) {
        sum += strengths[(first_cell + i) * STRENGTH_BINS + bin];
    }
    sums[lane] = sum;
    workgroupBarrier();
    if lane < STRENGTH_BINS {
        of_bins[lane] = sums[lane] + sums[lane + 64u] + sums[lane + 128u] + sums[lane + 192u];
    }
    workgroupBarrier();
    if lane < STRENGTH_BINS {
        var n_before = 0u;
        for (var stronger = lane + 1u; stronger < STRENGTH_BINS; stronger++) {
            n_before += of_bins[stronger];
        }
        if n_before < params.most && n_before + of_bins[lane] >= params.most {
            least_bins[CELLS] = lane;
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    find_limits_of_cells(lane);
    find_limit_of_all(lane);
    let index = flat_index(group, groups, lane, LANES);
    let n_points = min(atomicLoad(&counts[POINTS]), params.capacity);
    var is_kept = false;
    var point: RefinedPoint;
    if index < n_points {
        point = points[index];
        let bin = bin_of(params.grid, point.value);
        let cell = cell_of(params.grid, point.octave, point.x, point.y);
        is_kept = bin >= least_bins[CELLS] || bin >= least_bins[cell];
    }
    if lane == 0u {
        atomicStore(&n_kept, 0u);
    }
    workgroupBarrier();
    let n_before = atomicAdd(&n_kept, select(0u, 1u, is_kept));
    workgroupBarrier();
    if lane == 0u {
        first = atomicAdd(&counts[STRONGEST], atomicLoad(&n_kept));
    }
    workgroupBarrier();
    if is_kept {
        strongest[first + n_before] = point;
    }
}
