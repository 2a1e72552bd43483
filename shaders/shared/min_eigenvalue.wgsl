// Smaller eigenvalue of [[xx, xy], [xy, yy]], 0 or more.
fn min_eigenvalue(xx: f32, xy: f32, yy: f32) -> f32 {
    let difference = xx - yy;
    let root = sqrt(difference * difference + 4.0 * (xy * xy));
    return max(0.5 * ((xx + yy) - root), 0.0);
}
