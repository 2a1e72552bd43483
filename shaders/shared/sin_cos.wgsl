// Sine and cosine of an angle in [-pi, pi] within 2e-7: WGSL promises 2^-11 of its own. The angle is taken to [-pi/4, pi/4]
// in two steps; polynomials of Cephes (Moshier 1992, sinf and cosf).
fn sin_cos(angle: f32) -> vec2f {
    let quarter = floor(angle * 0.636619772 + 0.5);
    let r = (angle - quarter * 1.5703125) - quarter * 4.83826792e-4;
    let s = r * r;
    let sine = r + r * s * ((8.3321608736e-3 - 1.9515295891e-4 * s) * s - 1.6666654611e-1);
    let cosine = 1.0 - 0.5 * s
        + s * s * ((2.443315711809948e-5 * s - 1.388731625493765e-3) * s + 4.166664568298827e-2);
    let turned = (i32(quarter) & 1) == 1;
    let sine_is_negative = (i32(quarter) & 2) == 2;
    let cosine_is_negative = ((i32(quarter) + 1) & 2) == 2;
    let sin = select(sine, cosine, turned);
    let cos = select(cosine, sine, turned);
    return vec2f(select(sin, -sin, sine_is_negative), select(cos, -cos, cosine_is_negative));
}
