// Average of the samples under a pixel, each by the area of it that is there: `AreaTaps` on the host. The shader says what a
// `sample` is.
fn area_average(at: vec2u) -> f32 {
    let left = columns_first[at.x];
    let top = rows_first[at.y];
    var sum = 0.0;
    for (var column = 0u; column < params.columns_per_pixel; column++) {
        var column_sum = 0.0;
        for (var row = 0u; row < params.rows_per_pixel; row++) {
            let weight = rows_weights[at.y * params.rows_per_pixel + row];
            column_sum += weight * sample(left + column, top + row);
        }
        sum += columns_weights[at.x * params.columns_per_pixel + column] * column_sum;
    }
    return sum;
}
