// Number of an invocation among workgroups laid out in rows: `KernelSource::flat_groups` on the host.
fn flat_index(group: vec3u, groups: vec3u, lane: u32, lanes: u32) -> u32 {
    return (group.y * groups.x + group.x) * lanes + lane;
}
