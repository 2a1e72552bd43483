"""What known cameras and depths say of points: shared by the comparisons. Needs numpy only.

The true point of a rendered picture in another is known only where the depth is consistent: the four pixels around
the first point agree on its inverse depth within 2 %, and the second picture sees that point, within 1 % of its
depth.
"""

import dataclasses

import numpy as np

SMOOTH, SAME_DEPTH = 0.02, 0.01


@dataclasses.dataclass
class Sequence:
    """Gray frames, world-from-camera poses and, where known, inverse depths in 1/m, all by frame number."""

    name: str
    frames: dict
    intrinsics: np.ndarray
    poses: dict
    inverse_depths: dict


def pose_from_row(row):
    x, y, z, w = np.array(row[4:8]) / np.linalg.norm(row[4:8])
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    return rotation, np.array(row[1:4])


def fundamental(intrinsics, first, second):
    (r1, t1), (r2, t2) = first, second
    rotation, t = r2.T @ r1, r2.T @ (t1 - t2)
    cross = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])
    inverse = np.linalg.inv(intrinsics)
    return inverse.T @ cross @ rotation @ inverse


def line_distances(f, points, others):
    """Not a number where there is no line: both pictures are taken from one place."""
    lines = np.c_[points, np.ones(len(points))] @ f.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.abs((lines * np.c_[others, np.ones(len(others))]).sum(1)) / np.hypot(lines[:, 0], lines[:, 1])


def sample(inverse_depth, points):
    """Inverse depth at points inside, linear between pixels (exact on a plane), and whether the four pixels agree."""
    height, width = inverse_depth.shape
    x, y = np.clip(points[:, 0], 0, width - 1), np.clip(points[:, 1], 0, height - 1)
    left, top = np.minimum(x.astype(int), width - 2), np.minimum(y.astype(int), height - 2)
    u, v = x - left, y - top
    four = np.stack([inverse_depth[top + i, left + j] for i in (0, 1) for j in (0, 1)])
    value = four[0] * (1 - u) * (1 - v) + four[1] * u * (1 - v) + four[2] * (1 - u) * v + four[3] * u * v
    return value, four.max(0) - four.min(0) < SMOOTH * four.max(0)


def true_points(sequence, a, b, points):
    """Where picture b sees what picture a sees at `points`, and whether the depths of both say so."""
    (r1, t1), (r2, t2) = sequence.poses[a], sequence.poses[b]
    inverse, smooth = sample(sequence.inverse_depths[a], points)
    smooth &= inverse > 0
    rays = np.c_[points, np.ones(len(points))] @ np.linalg.inv(sequence.intrinsics).T
    world = rays / np.where(smooth, inverse, 1)[:, None] @ r1.T + t1
    camera = (world - t2) @ r2
    z = camera[:, 2]
    seen = (camera @ sequence.intrinsics.T)[:, :2] / np.where(z > 0, z, 1)[:, None]
    height, width = sequence.inverse_depths[b].shape
    inside = (z > 0) & (seen >= 0).all(1) & (seen[:, 0] <= width - 1) & (seen[:, 1] <= height - 1)
    there, _ = sample(sequence.inverse_depths[b], np.where(inside[:, None], seen, 0))
    return seen, smooth & inside & (np.abs(there * z - 1) < SAME_DEPTH)
