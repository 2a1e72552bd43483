// Judges tracks by their ways forward and back.
//
// One record a track, as `checked_record` says.
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
    checked[at.x] = checked_record(
        seeds[at.x],
        forward[at.x],
        backward[at.x],
        params.forward_backward_px,
        params.min_ncc,
        params.infinity,
    );
}
