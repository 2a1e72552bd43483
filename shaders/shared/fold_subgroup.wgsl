// What lanes of a track say to each other, by shuffles: for subgroups of 32 lanes and more.

// Sums over sixteen lanes: 8, 4, 2, 1, as `numerics::fold16`.
fn fold(value: vec4f, lane: u32) -> vec4f {
    var sum = value;
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    sum += subgroupShuffleXor(sum, 1u);
    return sum;
}

// Samples of chunks 2m and 2m + 1: each half of the lanes makes one.
fn sample_pair(place: Place, lane: u32, m: u32) -> vec2f {
    let is_second = lane >= 16u;
    let own = sample(place, lane, 2u * m + u32(is_second));
    let other = subgroupShuffleXor(own, 16u);
    return select(vec2f(own, other), vec2f(other, own), is_second);
}

// Whether the track goes on: all lanes know the same.
fn agreed(is_active: bool, lane: u32) -> bool {
    return is_active;
}
