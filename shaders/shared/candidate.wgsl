// An extremum of an octave's DoG layers.
struct Candidate {
    octave: u32,
    x: u32,
    y: u32,
    layer: u32,
}

// Counts: of candidates, of points, of the strongest.
const CANDIDATES = 0u;
const POINTS = 1u;
const STRONGEST = 2u;
