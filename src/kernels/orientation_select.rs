//! Which orientations stay when points have more than a limit, and where they go.
//!
//! In: up to four angles a point with their count; the points in the order they are to be kept. Those stay whose
//! orientations, with all of the points before, are within the limit. Out: in the order of points, a point's orientations
//! as they come.
//! One workgroup: all points.

use super::descriptor::OrientedPoint;
use super::orientation::MAX_ORIENTATIONS;
use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "orientation_select",
    wgsl: include_str!("../../shaders/orientation_select.wgsl"),
    workgroup: [256, 1, 1],
    params: params_layout!(OrientationSelectParams: n_points, limit),
    bindings: &[
        Binding::read("ranks"),
        Binding::read("angles"),
        Binding::read("counts"),
        Binding::read_write("kept"),
        Binding::read_write("oriented"),
        Binding::read_write("n_oriented"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct OrientationSelectParams {
    /// Number of points.
    pub n_points: u32,
    /// Most orientations.
    pub limit: u32,
}

/// The orientations that stay of points with `angles` and `counts` each, ranked by `ranks`.
pub fn orientation_select(
    ranks: &[u32],
    angles: &[[f32; MAX_ORIENTATIONS]],
    counts: &[u32],
    limit: u32,
) -> Vec<OrientedPoint> {
    let mut sum = 0;
    let mut kept: Vec<u32> = ranks
        .iter()
        .copied()
        .take_while(|point| {
            sum += counts[*point as usize];
            sum <= limit
        })
        .collect();
    kept.sort_unstable();
    let of_point = |point: u32| {
        let angles = angles[point as usize].into_iter().take(counts[point as usize] as usize);
        angles.map(move |angle| OrientedPoint { point, angle })
    };
    kept.into_iter().flat_map(of_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_cuts_in_the_order_of_ranks_and_the_rest_keeps_its_own() {
        let angles = [[0.0, 0.1, 0.2, 0.3], [1.0, 1.1, 0.0, 0.0], [2.0; 4], [3.0, 0.0, 0.0, 0.0]];
        let select = |limit| {
            let oriented = orientation_select(&[3, 1, 0, 2], &angles, &[4, 2, 0, 1], limit);
            oriented.iter().map(|o| (o.point, o.angle)).collect::<Vec<_>>()
        };
        assert_eq!(select(0), []);
        assert_eq!(select(2), [(3, 3.0)]);
        assert_eq!(select(6), [(1, 1.0), (1, 1.1), (3, 3.0)]);
        assert_eq!(select(7).len(), 7);
        assert_eq!(select(7)[0], (0, 0.0));
    }
}
