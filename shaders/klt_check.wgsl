// Judges a track by its way forward and back (Kalal, Mikolajczyk and Matas 2010).
//
// The forward position, the distance of the way back from the seed in pixels (infinite where there is none) and the
// status: the forward reason, else 4 where the way back ended or is longer than allowed, else 5 where the windows do not
// correlate, else alive.
// One invocation: one track.
// Same bits as the twin where the device does not fuse.

struct Params {
    n_tracks: u32,
    forward_backward_px: f32,
    min_ncc: f32,
    infinity: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> seeds: array<TrackRecord>;
@group(0) @binding(2) var<storage> forward: array<TrackRecord>;
@group(0) @binding(3) var<storage> backward: array<TrackRecord>;
@group(0) @binding(4) var<storage, read_write> checked: array<TrackRecord>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3u) {
    if at.x >= params.n_tracks {
        return;
    }
    let there = forward[at.x];
    let back = backward[at.x];
    let dx = back.x - seeds[at.x].x;
    let dy = back.y - seeds[at.x].y;
    let error = select(params.infinity, sqrt(dx * dx + dy * dy), is_alive(back));
    var reason = reason_of(there);
    if reason == NO_REASON && !(error <= params.forward_backward_px) {
        reason = FORWARD_BACKWARD;
    }
    if reason == NO_REASON && !(there.measure >= params.min_ncc) {
        reason = RESIDUAL;
    }
    checked[at.x] = track_record(there.x, there.y, error, reason, iterations_of(there));
}
