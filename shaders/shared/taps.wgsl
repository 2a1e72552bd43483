// The quadratic B-spline at -1 - t, -t and 1 - t.
fn taps(t: f32) -> vec3f {
    let before = 0.5 - t;
    let after = 0.5 + t;
    return vec3f(0.5 * before * before, 0.75 - t * t, 0.5 * after * after);
}
