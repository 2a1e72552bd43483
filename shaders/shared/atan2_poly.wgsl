// The angle of (x, y) in (-pi, pi]: `numerics::atan2_poly`.
fn atan2_poly(y: f32, x: f32) -> f32 {
    let across = abs(x);
    let along = abs(y);
    let most = max(across, along);
    let t = min(across, along) / select(1.0, most, most > 0.0);
    let s = t * t;
    var sum = 0.006811678;
    sum = sum * s - 0.03360385;
    sum = sum * s + 0.07962322;
    sum = sum * s - 0.13233315;
    sum = sum * s + 0.19807808;
    sum = sum * s - 0.33317367;
    sum = sum * s + 0.9999961;
    let octant = sum * t;
    let quadrant = select(octant, 1.57079637 - octant, along > across);
    let half = select(quadrant, 3.14159274 - quadrant, x < 0.0);
    return select(half, -half, y < 0.0);
}
