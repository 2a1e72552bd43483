"""Real and rendered sequences with known cameras: shared by the comparisons.

A real sequence is a folder with `video.mp4`, `calib.json`, `gt_poses.txt`; its frames are resized by area to 640
wide. A rendered one is a folder written by `examples/render_scene.rs`; its frames are taken as they are. All
frames are 8-bit gray, pixel centres at integers. A flow pair is a folder of the Middlebury benchmark:
`frame10.png`, `frame11.png`, `flow10.flo`.
"""

import json

import cv2
import numpy as np
from truth import Sequence, pose_from_row


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


def read_flow_pair(folder):
    """Both pictures in gray and the true flow (height, width, 2) of the first, NaN where it is unknown."""
    gray = [cv2.imread(str(folder / name), cv2.IMREAD_GRAYSCALE) for name in ("frame10.png", "frame11.png")]
    magic, width, height = np.fromfile(folder / "flow10.flo", np.dtype("<f4, <i4, <i4"), 1)[0]
    assert magic == np.float32(202021.25), f"{folder}/flow10.flo is no flow file"
    flow = np.fromfile(folder / "flow10.flo", "<f4", offset=12).reshape(height, width, 2)
    return *gray, np.where(np.abs(flow) < 1e9, flow, np.nan)
