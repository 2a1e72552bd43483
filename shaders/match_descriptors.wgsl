// The nearest descriptors, by brute force.
//
// Squared Euclidean distances of u8 descriptors, four bytes a word, as exact integers below 2^23: |a|^2 + |b|^2 - 2 a b.
// A key is a distance and a place in the slice, so that the least key is the nearest and ties go to the lower index.
// One workgroup: 128 queries against a slice of the others, 64 at a time; one invocation: 8 queries against 4 others.
// Same bits as the twin: integers.

struct Params {
    n_searches: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> searches: array<Search>;
@group(0) @binding(2) var<storage> descriptors: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> nearest: array<Nearest>;

const ROWS = 128u;
const COLUMNS = 64u;
const WORDS = 32u;
const LANES = 256u;
// Bits of a place in a slice.
const PLACE_BITS = 9u;

// Word by word, four descriptors at a time; the rows in the end what lanes found of them.
var<workgroup> rows: array<vec4u, WORDS * ROWS / 4u>;
var<workgroup> columns: array<vec4u, WORDS * COLUMNS / 4u>;
var<workgroup> row_norms: array<u32, ROWS>;
var<workgroup> column_norms: array<u32, COLUMNS>;

// Four words of a descriptor; none behind the end.
fn words(descriptor: u32, end: u32, quad: u32) -> vec4u {
    if descriptor >= end {
        return vec4u();
    }
    return descriptors[8u * descriptor + quad];
}

fn load_rows(first: u32, end: u32, lane: u32) {
    let four = lane % (ROWS / 4u);
    let quad = lane / (ROWS / 4u);
    let a = words(first + 4u * four, end, quad);
    let b = words(first + 4u * four + 1u, end, quad);
    let c = words(first + 4u * four + 2u, end, quad);
    let d = words(first + 4u * four + 3u, end, quad);
    let at = quad * ROWS + four;
    rows[at] = vec4u(a.x, b.x, c.x, d.x);
    rows[at + ROWS / 4u] = vec4u(a.y, b.y, c.y, d.y);
    rows[at + ROWS / 2u] = vec4u(a.z, b.z, c.z, d.z);
    rows[at + 3u * ROWS / 4u] = vec4u(a.w, b.w, c.w, d.w);
}

fn load_columns(first: u32, end: u32, lane: u32) {
    let four = lane % (COLUMNS / 4u);
    let quad = lane / (COLUMNS / 4u);
    if quad < WORDS / 4u {
        let a = words(first + 4u * four, end, quad);
        let b = words(first + 4u * four + 1u, end, quad);
        let c = words(first + 4u * four + 2u, end, quad);
        let d = words(first + 4u * four + 3u, end, quad);
        let at = quad * COLUMNS + four;
        columns[at] = vec4u(a.x, b.x, c.x, d.x);
        columns[at + COLUMNS / 4u] = vec4u(a.y, b.y, c.y, d.y);
        columns[at + COLUMNS / 2u] = vec4u(a.z, b.z, c.z, d.z);
        columns[at + 3u * COLUMNS / 4u] = vec4u(a.w, b.w, c.w, d.w);
    }
}

fn products(a: u32, b: vec4u) -> vec4u {
    return vec4u(dot4U8Packed(a, b.x), dot4U8Packed(a, b.y), dot4U8Packed(a, b.z), dot4U8Packed(a, b.w));
}

// Adds the products of a word of 8 rows and 4 columns.
fn accumulate(word: u32, row_lane: u32, column_lane: u32, sums: ptr<function, array<vec4u, 8>>) {
    let a = rows[word * (ROWS / 4u) + 2u * row_lane];
    let b = rows[word * (ROWS / 4u) + 2u * row_lane + 1u];
    let c = columns[word * (COLUMNS / 4u) + column_lane];
    (*sums)[0] += products(a.x, c);
    (*sums)[1] += products(a.y, c);
    (*sums)[2] += products(a.z, c);
    (*sums)[3] += products(a.w, c);
    (*sums)[4] += products(b.x, c);
    (*sums)[5] += products(b.y, c);
    (*sums)[6] += products(b.z, c);
    (*sums)[7] += products(b.w, c);
}

// Keys of a row and four columns.
fn keys_of(row: u32, sums: vec4u, row_lane: u32, bases: vec4u, is_behind: vec4<bool>) -> vec4u {
    let norm = vec4u(row_norms[8u * row_lane + row] << PLACE_BITS);
    return select(norm + bases - (sums << vec4u(PLACE_BITS + 1u)), vec4u(NONE), is_behind);
}

// The least two of `least` and four keys.
fn taken_in(least: vec2u, keys: vec4u) -> vec2u {
    let low = min(keys.xz, keys.yw);
    let high = max(keys.xz, keys.yw);
    let of_four = vec2u(min(low.x, low.y), min(max(low.x, low.y), min(high.x, high.y)));
    return vec2u(min(least.x, of_four.x), min(max(least.x, of_four.x), min(least.y, of_four.y)));
}

fn distance2(key: u32) -> u32 {
    return select(key >> PLACE_BITS, NONE, key == NONE);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group_id: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = flat_index(group_id, groups, 0u, 1u);
    let which = search_of(group);
    let search = searches[which];
    let n_blocks = (search.n_queries + ROWS - 1u) / ROWS;
    let block = (group - search.first_group) % n_blocks;
    let slice = (group - search.first_group) / n_blocks;
    let first_row = block * ROWS;
    let begin = min(slice * search.slice, search.n_others);
    let end = min(begin + search.slice, search.n_others);

    let none = vec2u(NONE);
    let row_lane = lane / (COLUMNS / 4u);
    let column_lane = lane % (COLUMNS / 4u);
    load_rows(search.queries + first_row, search.queries + search.n_queries, lane);
    workgroupBarrier();
    if lane < ROWS {
        var norm = 0u;
        for (var word = 0u; word < WORDS; word++) {
            let value = rows[word * (ROWS / 4u) + lane / 4u][lane % 4u];
            norm += dot4U8Packed(value, value);
        }
        row_norms[lane] = norm;
    }
    // The least two keys of each of 8 rows. Indices are constants, or it does not lie in registers.
    var least = array(none, none, none, none, none, none, none, none);
    for (var at = begin; at < end; at += COLUMNS) {
        load_columns(search.others + at, search.others + end, lane);
        workgroupBarrier();
        if lane < COLUMNS {
            var norm = 0u;
            for (var word = 0u; word < WORDS; word++) {
                let value = columns[word * (COLUMNS / 4u) + lane / 4u][lane % 4u];
                norm += dot4U8Packed(value, value);
            }
            column_norms[lane] = norm;
        }
        var sums: array<vec4u, 8>;
        for (var word = 0u; word < WORDS; word += 4u) {
            accumulate(word, row_lane, column_lane, &sums);
            accumulate(word + 1u, row_lane, column_lane, &sums);
            accumulate(word + 2u, row_lane, column_lane, &sums);
            accumulate(word + 3u, row_lane, column_lane, &sums);
        }
        workgroupBarrier();
        let column = 4u * column_lane;
        let norms = vec4u(
            column_norms[column],
            column_norms[column + 1u],
            column_norms[column + 2u],
            column_norms[column + 3u],
        );
        let places = vec4u(at - begin + column) + vec4u(0u, 1u, 2u, 3u);
        let is_behind = places >= vec4u(end - begin);
        let bases = (norms << vec4u(PLACE_BITS)) + places;
        least[0] = taken_in(least[0], keys_of(0u, sums[0], row_lane, bases, is_behind));
        least[1] = taken_in(least[1], keys_of(1u, sums[1], row_lane, bases, is_behind));
        least[2] = taken_in(least[2], keys_of(2u, sums[2], row_lane, bases, is_behind));
        least[3] = taken_in(least[3], keys_of(3u, sums[3], row_lane, bases, is_behind));
        least[4] = taken_in(least[4], keys_of(4u, sums[4], row_lane, bases, is_behind));
        least[5] = taken_in(least[5], keys_of(5u, sums[5], row_lane, bases, is_behind));
        least[6] = taken_in(least[6], keys_of(6u, sums[6], row_lane, bases, is_behind));
        least[7] = taken_in(least[7], keys_of(7u, sums[7], row_lane, bases, is_behind));
    }

    workgroupBarrier();
    let kept = column_lane * (ROWS / 2u) + 4u * row_lane;
    rows[kept] = vec4u(least[0], least[1]);
    rows[kept + 1u] = vec4u(least[2], least[3]);
    rows[kept + 2u] = vec4u(least[4], least[5]);
    rows[kept + 3u] = vec4u(least[6], least[7]);
    workgroupBarrier();
    let query = first_row + lane;
    if lane < ROWS && query < search.n_queries && begin < end {
        var of_row = vec2u(NONE);
        for (var other = 0u; other < COLUMNS / 4u; other++) {
            let of_two = rows[other * (ROWS / 2u) + lane / 2u];
            let found = select(of_two.xy, of_two.zw, lane % 2u == 1u);
            of_row = vec2u(min(of_row.x, found.x), min(max(of_row.x, found.x), min(of_row.y, found.y)));
        }
        let index = select(begin + (of_row.x & ((1u << PLACE_BITS) - 1u)), NONE, of_row.x == NONE);
        nearest[search.nearest + slice * search.n_queries + query] =
            Nearest(distance2(of_row.x), index, distance2(of_row.y));
    }
}
