// Which of the `params.n_searches` searches a workgroup is for.
fn search_of(group: u32) -> u32 {
    var which = 0u;
    for (var next = 1u; next < params.n_searches; next++) {
        which += select(0u, 1u, searches[next].first_group <= group);
    }
    return which;
}
