// A track's record: `TrackRecord` on the host. The status is an exact integer: bit 0 alive, bits 1-4 end reason, bit
// 5 aligned with its seed, bits 16-23 iterations at level 0.
struct TrackRecord {
    x: f32,
    y: f32,
    measure: f32,
    status: f32,
}

// End reasons: `EndReason` on the host.
const NO_REASON = 0u;
const OUT_OF_FRAME = 1u;
const LOW_STRUCTURE = 2u;
const NO_CONVERGENCE = 3u;
const FORWARD_BACKWARD = 4u;
const RESIDUAL = 5u;

fn is_alive(record: TrackRecord) -> bool {
    return (u32(record.status) & 1u) == 1u;
}

fn reason_of(record: TrackRecord) -> u32 {
    return (u32(record.status) >> 1u) & 15u;
}

fn iterations_of(record: TrackRecord) -> u32 {
    return u32(record.status) >> 16u;
}

// A record that ended for `reason`, or is alive where there is none. `iterations` is at most 255.
fn track_record(x: f32, y: f32, measure: f32, reason: u32, iterations: u32) -> TrackRecord {
    let word = select(reason << 1u, 1u, reason == NO_REASON);
    return TrackRecord(x, y, measure, f32(word | (iterations << 16u)));
}

const ALIGNED = 32u;

// The record, moved to where the patch about its seed was found under the map with these rows; its measure is how many
// times as large the patch is seen.
fn aligned_record(record: TrackRecord, at: vec2f, rows: mat2x2f) -> TrackRecord {
    let zoom = sqrt(abs(rows[0].x * rows[1].y - rows[0].y * rows[1].x));
    return TrackRecord(at.x, at.y, zoom, f32(u32(record.status) | ALIGNED));
}
