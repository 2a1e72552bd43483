// Judges a track by its way forward and back (Kalal, Mikolajczyk and Matas 2010): the forward position, the distance of the
// way back from the seed in pixels (`infinity` where there is none), the forward reason, else what the way back and the
// correlation say.
fn checked_record(
    seed: TrackRecord,
    there: TrackRecord,
    back: TrackRecord,
    forward_backward_px: f32,
    min_ncc: f32,
    infinity: f32,
) -> TrackRecord {
    let dx = back.x - seed.x;
    let dy = back.y - seed.y;
    let error = select(infinity, sqrt(dx * dx + dy * dy), is_alive(back));
    var reason = reason_of(there);
    if reason == NO_REASON && !(error <= forward_backward_px) {
        reason = FORWARD_BACKWARD;
    }
    if reason == NO_REASON && !(there.measure >= min_ncc) {
        reason = RESIDUAL;
    }
    return track_record(there.x, there.y, error, reason, iterations_of(there));
}
