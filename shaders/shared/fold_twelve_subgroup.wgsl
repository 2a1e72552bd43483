// Twelve sums over the lanes of a workgroup, by shuffles: for subgroups of 32 lanes and more.

const LANES = 32u;

struct Twelve {
    first: vec4f,
    second: vec4f,
    third: vec4f,
}

fn fold_four(value: vec4f) -> vec4f {
    var sum = value;
    sum += subgroupShuffleXor(sum, 16u);
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    sum += subgroupShuffleXor(sum, 1u);
    return sum;
}

fn fold(value: Twelve, lane: u32) -> Twelve {
    return Twelve(fold_four(value.first), fold_four(value.second), fold_four(value.third));
}

// A word that all lanes have alike.
fn agreed(word: u32, lane: u32) -> u32 {
    return word;
}
