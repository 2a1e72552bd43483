// A track's record: `TrackRecord` on the host. The status is an exact integer: bit 0 alive, bits 1-4 end reason, bit
// 5 shows its seed, bits 16-23 iterations at level 0.
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

const SEEN = 32u;

// The record of a track that shows the patch about its seed, `zoom` times as large.
fn seen_record(record: TrackRecord, zoom: f32) -> TrackRecord {
    return TrackRecord(record.x, record.y, zoom, f32(u32(record.status) | SEEN));
}
