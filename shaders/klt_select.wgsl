// The best pixel of each cell that holds no live track.
//
// One pick a cell, none where the cell is occupied or its largest value is zero or below `quality_level` of the map's
// largest. Of equal pixels the first, row by row, wins.
// One workgroup: one cell.
// Same bits as the twin.

struct Params {
    width: u32,
    height: u32,
    cell_px: u32,
    columns: u32,
    quality_level: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> eigen: array<f32>;
@group(0) @binding(2) var<storage> eigen_max: array<f32>;
@group(0) @binding(3) var<storage> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> picks: array<Pick>;

const LANES = 64u;

var<workgroup> strengths: array<f32, LANES>;
// Of the strongest, its number within the cell, row by row.
var<workgroup> numbers: array<u32, LANES>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) column_row: vec3u, @builtin(local_invocation_index) lane: u32) {
    let cell = column_row.y * params.columns + column_row.x;
    let corner = column_row.xy * params.cell_px;
    let size = min(vec2u(params.width, params.height) - corner, vec2u(params.cell_px));
    let is_free = starts[cell] == starts[cell + 1u];
    var strength = 0.0;
    var number = 0u;
    for (var i = lane; i < select(0u, size.x * size.y, is_free); i += LANES) {
        let value = eigen[(corner.y + i / size.x) * params.width + corner.x + i % size.x];
        if value > strength {
            strength = value;
            number = i;
        }
    }
    strengths[lane] = strength;
    numbers[lane] = number;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            let is_stronger = strengths[lane + half] > strengths[lane];
            let is_first = strengths[lane + half] == strengths[lane] && numbers[lane + half] < numbers[lane];
            if is_stronger || is_first {
                strengths[lane] = strengths[lane + half];
                numbers[lane] = numbers[lane + half];
            }
        }
        workgroupBarrier();
    }
    if lane == 0u {
        let best = Pick(corner.x + numbers[0] % size.x, corner.y + numbers[0] / size.x, strengths[0]);
        let is_good = best.strength > 0.0 && best.strength >= params.quality_level * eigen_max[0];
        if is_good {
            picks[cell] = best;
        } else {
            picks[cell] = Pick(0u, 0u, 0.0);
        }
    }
}
