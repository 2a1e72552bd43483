"""Real and rendered sequences with known cameras, and what these say of points: shared by the comparisons.

A real sequence is a folder with `video.mp4`, `calib.json`, `gt_poses.txt`; its frames are resized by area to 640
wide. A rendered one is a folder written by `examples/render_scene.rs`; its frames are taken as they are. All
frames are 8-bit gray, pixel centres at integers. A flow pair is a folder of the Middlebury benchmark:
`frame10.png`, `frame11.png`, `flow10.flo`.

The true point of a rendered picture in another is known only where the depth is consistent: the four pixels around
the first point agree on its inverse depth within 2 %, and the second picture sees that point, within 1 % of its
depth.
"""

import dataclasses
import json

import cv2
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


def read_video(folder, step):
    calib = json.loads((folder / "calib.json").read_text())
    scale = min(1.0, 640 / calib["width"])
    video, frames, number = cv2.VideoCapture(str(folder / "video.mp4")), {}, 0
    while True:
        good, frame = video.read()
        if not good:
            break
        if number % step == 0:
            gray = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
            size = (round(gray.shape[1] * scale), round(gray.shape[0] * scale))
            frames[number] = cv2.resize(gray, size, interpolation=cv2.INTER_AREA) if scale < 1 else gray
        number += 1
    fx, fy = calib["fx"] * scale, calib["fy"] * scale
    cx, cy = (calib["cx"] + 0.5) * scale - 0.5, (calib["cy"] + 0.5) * scale - 0.5
    rows = [list(map(float, line.split())) for line in open(folder / "gt_poses.txt") if line[0] != "#"]
    poses = {round(row[0] * calib["fps"]): pose_from_row(row) for row in rows}
    frames = {n: gray for n, gray in frames.items() if n in poses}
    return Sequence(folder.name, frames, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]), poses, {})


def read_rendered(folder, step):
    width, height, f, cx, cy = map(float, (folder / "camera.txt").read_text().split()[1:])
    rows = [list(map(float, line.split())) for line in open(folder / "gt_poses.txt")]
    numbers, size = range(0, len(rows), step), (int(height), int(width))
    gray = {n: cv2.imread(str(folder / f"frame_{n:06}.png"), cv2.IMREAD_GRAYSCALE) for n in numbers}
    inverse = {n: 1 / np.fromfile(folder / f"depth_{n:06}.f32", "<f4").reshape(size) for n in numbers}
    poses = {n: pose_from_row(rows[n]) for n in numbers}
    # COLMAP counts the first pixel centre as 0.5, we as 0.
    return Sequence("rendered room", gray, np.array([[f, 0, cx - 0.5], [0, f, cy - 0.5], [0, 0, 1]]), poses, inverse)


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
    lines = np.c_[points, np.ones(len(points))] @ f.T
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


def read_flow_pair(folder):
    """Both pictures in gray and the true flow (height, width, 2) of the first, NaN where it is unknown."""
    gray = [cv2.imread(str(folder / name), cv2.IMREAD_GRAYSCALE) for name in ("frame10.png", "frame11.png")]
    magic, width, height = np.fromfile(folder / "flow10.flo", np.dtype("<f4, <i4, <i4"), 1)[0]
    assert magic == np.float32(202021.25), f"{folder}/flow10.flo is no flow file"
    flow = np.fromfile(folder / "flow10.flo", "<f4", offset=12).reshape(height, width, 2)
    return *gray, np.where(np.abs(flow) < 1e9, flow, np.nan)
