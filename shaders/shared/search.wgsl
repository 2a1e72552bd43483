// What is nearest to the descriptors of one keyframe among those of another: `Search` on the host.

const NONE = 0xffffffffu;

struct Search {
    // Workgroups before those of this search.
    first_group: u32,
    // First of the descriptors that are looked for, and their number.
    queries: u32,
    n_queries: u32,
    // First of those that are looked at, and their number.
    others: u32,
    n_others: u32,
    // Others a workgroup looks at.
    slice: u32,
    // Where the results begin: slice by slice, one a query.
    nearest: u32,
    // Where the matches of the queries begin.
    matches: u32,
}

struct Nearest {
    distance2: u32,
    index: u32,
    rival2: u32,
}
