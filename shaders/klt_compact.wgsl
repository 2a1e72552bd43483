// Gathers the kept picks in cell order, as positions in pixels.
//
// `sums` says before each cell how many were kept.
// One invocation: one cell.
// Same bits as the twin.

struct Params {
    n_cells: u32,
}

struct SelectedPoint {
    x: f32,
    y: f32,
    strength: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> picks: array<Pick>;
@group(0) @binding(2) var<storage> kept: array<u32>;
@group(0) @binding(3) var<storage> sums: array<u32>;
@group(0) @binding(4) var<storage, read_write> points: array<SelectedPoint>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let cell = flat_index(group, groups, lane, 256u);
    if cell < params.n_cells && kept[cell] == 1u {
        let pick = picks[cell];
        points[sums[cell]] = SelectedPoint(f32(pick.x), f32(pick.y), pick.strength);
    }
}
