// Twelve sums over the lanes of a workgroup, through its memory: for any adapter.

const LANES = 16u;

struct Twelve {
    first: vec4f,
    second: vec4f,
    third: vec4f,
}

var<workgroup> partial: array<f32, 192>;
var<workgroup> total: array<f32, 12>;
var<workgroup> agreed_word: u32;

fn put(sum: u32, value: vec4f, lane: u32) {
    partial[16u * sum + lane] = value.x;
    partial[16u * sum + 16u + lane] = value.y;
    partial[16u * sum + 32u + lane] = value.z;
    partial[16u * sum + 48u + lane] = value.w;
}

fn partials(i: u32) -> vec4f {
    return vec4f(partial[i], partial[i + 1u], partial[i + 2u], partial[i + 3u]);
}

fn totals(i: u32) -> vec4f {
    return vec4f(total[i], total[i + 1u], total[i + 2u], total[i + 3u]);
}

// 8, 4, 2, 1, as `numerics::fold16`: lane i folds sum i.
fn fold(value: Twelve, lane: u32) -> Twelve {
    put(0u, value.first, lane);
    put(4u, value.second, lane);
    put(8u, value.third, lane);
    workgroupBarrier();
    if lane < 12u {
        let i = 16u * lane;
        let four = (partials(i) + partials(i + 8u)) + (partials(i + 4u) + partials(i + 12u));
        let two = four.xy + four.zw;
        total[lane] = two.x + two.y;
    }
    workgroupBarrier();
    return Twelve(totals(0u), totals(4u), totals(8u));
}

// A word that all lanes have alike, so that the compiler knows that they do.
fn agreed(word: u32, lane: u32) -> u32 {
    if lane == 0u {
        agreed_word = word;
    }
    return workgroupUniformLoad(&agreed_word);
}
