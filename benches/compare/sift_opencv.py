"""Our SIFT against OpenCV's and COLMAP's: matches that keep the true geometry, at equal keypoint counts.

    cargo build --release --examples
    python benches/compare/sift_opencv.py DATA [--dump target/release/examples/sift_dump] [--set max_features=500 ...]

    target/release/examples/render_scene ROOM hand_held 100 640
    python benches/compare/sift_opencv.py ROOM [--gaps 10 20 40] [--every 5]

DATA holds `sequences/<name>/{video.mp4, calib.json, gt_poses.txt}`; frames are resized by area to 640 wide. ROOM is a
folder written by `examples/render_scene.rs`; its frames are taken as they are. Every extractor reads the same 8-bit
gray. OpenCV runs with its defaults but for nfeatures and contrastThreshold, COLMAP with its defaults but for
max_num_features and peak_threshold: the threshold is lowered until there are as many keypoints as ours; the table gives
its median. A match is a mutual nearest neighbour that keeps the ratio 0.8.

"On the line": both points lie within 2 px of the epipolar lines of the true poses. "At the point" (ROOM): the second
point lies within 2 px of where the first is truly seen. It is asked only where the depth is consistent: the four pixels
around the first point agree on its inverse depth within 2 %, and the second picture sees that point, within 1 % of its
depth. Times are the fastest of two, the median over the pictures; COLMAP works on one thread, the others on all.
Needs: pip install numpy opencv-python-headless "pycolmap==4.2.1" (without pycolmap its rows are left out).
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import tempfile
import time
import warnings

import cv2
import numpy as np

try:
    import pycolmap
except ImportError:
    pycolmap = None

warnings.simplefilter("ignore", DeprecationWarning)
SEQUENCES = {"vamr_corner": (15, 30, 45, 60), "icl_kt3_200": (15, 30, 60, 90), "kitti_s1": (2, 4, 8)}
MAX_ERROR_PX = 2.0
RATIO = 0.8
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


def matches(first, second):
    """Indices of mutual nearest neighbours that keep the ratio in the first picture's direction."""
    distance = np.sqrt(np.maximum(0, (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T))
    nearest = distance.argmin(1)
    two = np.partition(distance, 1, axis=1)[:, :2]
    keep = (distance.argmin(0)[nearest] == np.arange(len(first))) & (two[:, 0] < RATIO * two[:, 1])
    return np.flatnonzero(keep), nearest[keep]


def run_ours(dump, folder, paths, settings):
    output = subprocess.run([dump, folder, *settings, *map(str, paths)], check=True, capture_output=True, text=True)
    times = [float(line.split()[-2]) for line in output.stdout.splitlines()]
    features = []
    for path in paths:
        keypoints = np.load(f"{folder}/{path.stem}.keypoints.npy")
        features.append((keypoints[:, :2], np.load(f"{folder}/{path.stem}.descriptors.npy").astype(np.float32)))
    return features, times


def fastest_of_two(call):
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return *result, min(seconds)


def run_opencv(gray, count):
    threshold = 0.04
    while True:
        sift = cv2.SIFT_create(nfeatures=count, contrastThreshold=threshold)
        keypoints, descriptors, seconds = fastest_of_two(lambda: sift.detectAndCompute(gray, None))
        if len(keypoints) >= count or threshold < 1e-4:
            order = np.argsort([-k.response for k in keypoints], kind="stable")[:count]
            points = np.array([k.pt for k in keypoints]).reshape(-1, 2)[order]
            return points, descriptors[order], seconds, threshold
        threshold *= 0.8


def run_colmap(gray, count):
    threshold = 0.02 / 3
    while True:
        options = pycolmap.FeatureExtractionOptions()
        options.sift.max_num_features, options.sift.peak_threshold = count, threshold
        sift = pycolmap.Sift(options)
        keypoints, descriptors, seconds = fastest_of_two(lambda: sift.extract(gray.astype(np.float32) / 255))
        if len(keypoints) >= count or threshold < 1e-4:
            order = np.argsort(-keypoints[:, 2], kind="stable")[:count]
            return keypoints[order, :2] - 0.5, 512 * descriptors[order], seconds, threshold
        threshold *= 0.8


def root(descriptors):
    return np.sqrt(descriptors / np.maximum(descriptors.sum(1, keepdims=True), 1e-9)) * 512


def score(sequence, features, gap):
    """Matches, those on the line, those with a known true point, those at it."""
    counts = np.zeros(4, int)
    for number in features:
        other = number + gap
        if other in features:
            (p1, d1), (p2, d2) = features[number], features[other]
            i, j = matches(d1, d2)
            p1, p2 = p1[i], p2[j]
            f = fundamental(sequence.intrinsics, sequence.poses[number], sequence.poses[other])
            far = np.maximum(line_distances(f, p1, p2), line_distances(f.T, p2, p1))
            counts[:2] += len(i), (far < MAX_ERROR_PX).sum()
            if sequence.inverse_depths:
                seen, known = true_points(sequence, number, other, p1)
                near = np.hypot(*(seen - p2).T) < MAX_ERROR_PX
                counts[2:] += known.sum(), (known & near).sum()
    return counts


def extract(sequence, arguments):
    """Features by extractor and frame number, times in ms and thresholds by extractor."""
    features = {"ours": {}, "OpenCV": {}, "OpenCV, root": {}, "COLMAP": {}}
    times, thresholds = {kind: [] for kind in features}, {kind: [] for kind in features}
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{n:06}.png" for n in sequence.frames]
        for path, gray in zip(paths, sequence.frames.values()):
            cv2.imwrite(str(path), gray)
        ours, times["ours"] = run_ours(arguments.dump, folder, paths, arguments.set)
    for (number, gray), mine in zip(sequence.frames.items(), ours):
        features["ours"][number] = mine
        points, rows, seconds, threshold = run_opencv(gray, len(mine[0]))
        features["OpenCV"][number], features["OpenCV, root"][number] = (points, rows), (points, root(rows))
        times["OpenCV"].append(1e3 * seconds)
        thresholds["OpenCV"].append(threshold)
        if pycolmap and not arguments.no_colmap:
            points, rows, seconds, threshold = run_colmap(gray, len(mine[0]))
            features["COLMAP"][number] = (points, rows)
            times["COLMAP"].append(1e3 * seconds)
            thresholds["COLMAP"].append(threshold)
    return {kind: each for kind, each in features.items() if each}, times, thresholds


def compare(sequence, gaps, arguments):
    features, times, thresholds = extract(sequence, arguments)
    height, width = next(iter(sequence.frames.values())).shape
    print(f"\n{sequence.name}: {len(sequence.frames)} pictures of {width} x {height}\n")
    print("| extractor | keypoints | ms | threshold |")
    print("|---|---:|---:|---:|")
    for kind, each in features.items():
        count = np.mean([len(points) for points, _ in each.values()])
        spent = f"{np.median(times[kind]):.1f}" if times[kind] else "as above"
        least = f"{np.median(thresholds[kind]):.4f}" if thresholds[kind] else ""
        print(f"| {kind} | {count:.0f} | {spent} | {least} |")
    columns = ["gap in frames", "extractor", "matches", "on the line", "share"]
    columns += ["true point known", "at the point", "share"] if sequence.inverse_depths else []
    print("\n| " + " | ".join(columns) + " |\n|---:|---|" + "---:|" * (len(columns) - 2))
    for gap in gaps:
        for kind, each in features.items():
            total, on_line, known, at_point = score(sequence, each, gap)
            cells = [gap, kind, total, on_line, f"{on_line / max(total, 1):.3f}"]
            cells += [known, at_point, f"{at_point / max(known, 1):.3f}"] if sequence.inverse_depths else []
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--dump", default="target/release/examples/sift_dump")
    parser.add_argument("--set", nargs="*", default=[], help="option=value of our extractor")
    parser.add_argument("--sequences", nargs="*", default=list(SEQUENCES))
    parser.add_argument("--no-colmap", action="store_true")
    parser.add_argument("--gaps", nargs="*", type=int, default=[10, 20, 40], help="of a rendered room, in frames")
    parser.add_argument("--every", type=int, default=5, help="of a rendered room, take every so many-th frame")
    arguments = parser.parse_args()
    if (arguments.data / "camera.txt").exists():
        compare(read_rendered(arguments.data, arguments.every), arguments.gaps, arguments)
        return
    for name in arguments.sequences:
        gaps = SEQUENCES[name]
        compare(read_video(arguments.data / "sequences" / name, int(np.gcd.reduce(gaps))), gaps, arguments)


if __name__ == "__main__":
    main()
