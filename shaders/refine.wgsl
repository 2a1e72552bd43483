// Sub-pixel position of DoG extrema; weak ones and those on edges are dropped.
//
// Newton steps, a neighbour taken as the new centre while it is nearer. `layer` of a point is its nearest, `level` the
// refined one. Their order is any, and two candidates may give one point twice. `strengths` counts, by cells and bins, those
// that are where their candidate was: each of them is another point.
// One invocation: one candidate.
// Same bits as the twin where the device does not fuse.

struct Params {
    octaves: array<OctaveShape, 16>,
    grid: StrengthGrid,
    n_dogs: u32,
    capacity: u32,
    min_contrast: f32,
    edge_ratio: f32,
    // 6 and 12: a division by a constant may become a multiplication.
    six: f32,
    twelve: f32,
    unused: vec2u,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> gaussians: array<f32>;
@group(0) @binding(2) var<storage> candidates: array<Candidate>;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> points: array<RefinedPoint>;
@group(0) @binding(5) var<storage, read_write> strengths: array<atomic<u32>>;

const MAX_MOVES = 5;
const MOVE_OFFSET = 0.6;
const CORRECTIONS = 3;
const MARGINS = vec3i(2, 2, 1);

// Value and derivatives at a pixel: `seconds` are xx, yy, ss, `mixed` xy, xs, ys; of each of x and y the third and fourth
// derivative and the second's change with scale.
struct Neighbourhood {
    value: f32,
    gradient: vec3f,
    seconds: vec3f,
    mixed: vec3f,
    higher_x: vec3f,
    higher_y: vec3f,
}

// A step, and whether there is one.
struct Step {
    offset: vec3f,
    is_found: bool,
}

fn dog(octave: OctaveShape, pixel: vec3i, dx: i32, dy: i32, ds: i32) -> f32 {
    let layer = octave.width * octave.height;
    let place = octave.begin + u32(pixel.z + ds) * layer + u32(pixel.y + dy) * octave.width + u32(pixel.x + dx);
    return gaussians[place + layer] - gaussians[place];
}

// First to fourth derivative in the middle of five samples a pixel apart.
fn derivatives(far_before: f32, before: f32, here: f32, after: f32, far_after: f32) -> vec4f {
    let near_odd = after - before;
    let far_odd = far_after - far_before;
    let near_even = after + before - 2.0 * here;
    let far_even = far_after + far_before - 2.0 * here;
    return vec4f(
        (8.0 * near_odd - far_odd) / params.twelve,
        (16.0 * near_even - far_even) / params.twelve,
        0.5 * (far_odd - 2.0 * near_odd),
        far_even - 4.0 * near_even,
    );
}

fn curvature(before: f32, here: f32, after: f32) -> f32 {
    return before + after - 2.0 * here;
}

fn neighbourhood(o: OctaveShape, p: vec3i) -> Neighbourhood {
    let value = dog(o, p, 0, 0, 0);
    let left = dog(o, p, -1, 0, 0);
    let right = dog(o, p, 1, 0, 0);
    let above = dog(o, p, 0, -1, 0);
    let below = dog(o, p, 0, 1, 0);
    let x = derivatives(dog(o, p, -2, 0, 0), left, value, right, dog(o, p, 2, 0, 0));
    let y = derivatives(dog(o, p, 0, -2, 0), above, value, below, dog(o, p, 0, 2, 0));
    let coarser = dog(o, p, 0, 0, 1);
    let finer = dog(o, p, 0, 0, -1);
    let gs = 0.5 * (coarser - finer);
    let ss = coarser + finer - 2.0 * value;
    let corners = dog(o, p, 1, 1, 0) + dog(o, p, -1, -1, 0);
    let xy = 0.25 * (corners - dog(o, p, -1, 1, 0) - dog(o, p, 1, -1, 0));
    let left_finer = dog(o, p, -1, 0, -1);
    let left_coarser = dog(o, p, -1, 0, 1);
    let right_finer = dog(o, p, 1, 0, -1);
    let right_coarser = dog(o, p, 1, 0, 1);
    let above_finer = dog(o, p, 0, -1, -1);
    let above_coarser = dog(o, p, 0, -1, 1);
    let below_finer = dog(o, p, 0, 1, -1);
    let below_coarser = dog(o, p, 0, 1, 1);
    let xs = 0.25 * (right_coarser + left_finer - left_coarser - right_finer);
    let ys = 0.25 * (below_coarser + above_finer - above_coarser - below_finer);
    let xxs_coarser = curvature(left_coarser, coarser, right_coarser);
    let xxs = 0.5 * (xxs_coarser - curvature(left_finer, finer, right_finer));
    let yys_coarser = curvature(above_coarser, coarser, below_coarser);
    let yys = 0.5 * (yys_coarser - curvature(above_finer, finer, below_finer));
    return Neighbourhood(
        value,
        vec3f(x.x, y.x, gs),
        vec3f(x.y, y.y, ss),
        vec3f(xy, xs, ys),
        vec3f(x.zw, xxs),
        vec3f(y.zw, yys),
    );
}

fn is_finite(value: vec3f) -> bool {
    return all(abs(value) <= vec3f(3.4028234e38));
}

// -H^-1 g by cofactors; none where H is singular.
fn newton_step(n: Neighbourhood, g: vec3f) -> Step {
    let xx = n.seconds.x;
    let yy = n.seconds.y;
    let ss = n.seconds.z;
    let xy = n.mixed.x;
    let xs = n.mixed.y;
    let ys = n.mixed.z;
    let c_xx = yy * ss - ys * ys;
    let c_xy = xs * ys - xy * ss;
    let c_xs = xy * ys - yy * xs;
    let c_yy = xx * ss - xs * xs;
    let c_ys = xy * xs - xx * ys;
    let c_ss = xx * yy - xy * xy;
    let determinant = xx * c_xx + xy * c_xy + xs * c_xs;
    if determinant == 0.0 {
        return Step(vec3f(0.0), false);
    }
    let scale = -1.0 / determinant;
    let offset = vec3f(
        scale * (c_xx * g.x + c_xy * g.y + c_xs * g.z),
        scale * (c_xy * g.x + c_yy * g.y + c_ys * g.z),
        scale * (c_xs * g.x + c_ys * g.y + c_ss * g.z),
    );
    return Step(offset, is_finite(offset));
}

// Newton step to the extremum: of the quadratic first, then with the gradient's higher terms at the last step.
fn offset_to_extremum(n: Neighbourhood) -> Step {
    var step = newton_step(n, n.gradient);
    for (var i = 0; i < CORRECTIONS && step.is_found; i++) {
        let along = clamp(step.offset, vec3f(-1.0), vec3f(1.0));
        var g = n.gradient;
        g.x += along.x * along.x * (0.5 * n.higher_x.x + along.x * n.higher_x.y / params.six);
        g.x += along.x * n.higher_x.z * along.z;
        g.z += 0.5 * along.x * along.x * n.higher_x.z;
        g.y += along.y * along.y * (0.5 * n.higher_y.x + along.y * n.higher_y.y / params.six);
        g.y += along.y * n.higher_y.z * along.z;
        g.z += 0.5 * along.y * along.y * n.higher_y.z;
        step = newton_step(n, g);
    }
    return step;
}

fn value_at(n: Neighbourhood, offset: vec3f) -> f32 {
    return n.value + 0.5 * (n.gradient.x * offset.x + n.gradient.y * offset.y + n.gradient.z * offset.z);
}

// Whether it is strong enough, and no edge.
fn is_kept(n: Neighbourhood, value: f32) -> bool {
    let trace = n.seconds.x + n.seconds.y;
    let determinant = n.seconds.x * n.seconds.y - n.mixed.x * n.mixed.x;
    let edge_limit = (params.edge_ratio + 1.0) * (params.edge_ratio + 1.0);
    let is_weak = abs(value) < params.min_contrast || determinant <= 0.0;
    return !is_weak && trace * trace * params.edge_ratio < edge_limit * determinant;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_index(group, groups, lane, 64u);
    if index >= min(atomicLoad(&counts[CANDIDATES]), params.capacity) {
        return;
    }
    let candidate = candidates[index];
    let octave = params.octaves[candidate.octave];
    let sizes = vec3i(i32(octave.width), i32(octave.height), i32(params.n_dogs));
    let start = vec3i(i32(candidate.x), i32(candidate.y), i32(candidate.layer));
    var pixel = start;
    for (var moves = 0; moves <= MAX_MOVES; moves++) {
        let around = neighbourhood(octave, pixel);
        let step = offset_to_extremum(around);
        if !step.is_found {
            return;
        }
        let is_beyond = abs(step.offset) > vec3f(MOVE_OFFSET);
        if !any(is_beyond) {
            let value = value_at(around, step.offset);
            if is_kept(around, value) {
                let place = pixel + vec3i(0, i32(octave.first_row), 0);
                let at = vec3f(place) + step.offset;
                let nearest = vec2u(place.xy);
                let layer = u32(pixel.z);
                points[atomicAdd(&counts[POINTS], 1u)] =
                    RefinedPoint(candidate.octave, layer, at.x, at.y, at.z, value, nearest.x, nearest.y);
                if all(pixel == start) {
                    let cell = cell_of(params.grid, candidate.octave, at.x, at.y);
                    atomicAdd(&strengths[STRENGTH_BINS * cell + bin_of(params.grid, value)], 1u);
                }
            }
            return;
        }
        pixel += select(vec3i(0), select(vec3i(-1), vec3i(1), step.offset > vec3f(0.0)), is_beyond);
        if any(pixel < MARGINS) || any(pixel + MARGINS >= sizes) {
            return;
        }
    }
}
