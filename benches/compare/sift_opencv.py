"""Our SIFT against OpenCV's and COLMAP's: matches that keep the true epipolar geometry, at equal keypoint counts.

    cargo build --release --example sift_dump
    python benches/compare/sift_opencv.py DATA [--dump target/release/examples/sift_dump] [--set max_features=500 ...]

DATA holds `sequences/<name>/{video.mp4, calib.json, gt_poses.txt}`. Frames are resized by area to 640 wide; every
extractor reads the same 8-bit gray. OpenCV runs with its defaults but for nfeatures and contrastThreshold, COLMAP with
its defaults but for max_num_features and peak_threshold: the threshold is lowered until there are as many keypoints as
ours. A match is a mutual nearest neighbour that keeps the ratio 0.8; it is right when both points lie within 2 px of
the epipolar lines of the true poses. Times are the fastest of three, in turns.
"""

import argparse
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
MAX_EPIPOLAR_PX = 2.0
RATIO = 0.8


def read_sequence(folder, step):
    """Gray frames by number, the intrinsics at their size, world-from-camera poses by number."""
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
    return frames, np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]), poses


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


def run_opencv(gray, count):
    threshold = 0.04
    while True:
        sift = cv2.SIFT_create(nfeatures=count, contrastThreshold=threshold)
        start = time.perf_counter()
        keypoints, descriptors = sift.detectAndCompute(gray, None)
        seconds = time.perf_counter() - start
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
        start = time.perf_counter()
        keypoints, descriptors = sift.extract(gray.astype(np.float32) / 255)
        seconds = time.perf_counter() - start
        if len(keypoints) >= count or threshold < 1e-4:
            order = np.argsort(-keypoints[:, 2], kind="stable")[:count]
            return keypoints[order, :2] - 0.5, 512 * descriptors[order], seconds, threshold
        threshold *= 0.8


def root(descriptors):
    return np.sqrt(descriptors / np.maximum(descriptors.sum(1, keepdims=True), 1e-9)) * 512


def score(features, gap, f_of):
    right = total = 0
    for number in features:
        if number + gap in features:
            (p1, d1), (p2, d2) = features[number], features[number + gap]
            i, j = matches(d1, d2)
            f = f_of(number, number + gap)
            far = np.maximum(line_distances(f, p1[i], p2[j]), line_distances(f.T, p2[j], p1[i]))
            right, total = right + int((far < MAX_EPIPOLAR_PX).sum()), total + len(i)
    return right, total


def compare(name, gaps, arguments):
    step = int(np.gcd.reduce(gaps))
    frames, intrinsics, poses = read_sequence(arguments.data / "sequences" / name, step)
    frames = {n: gray for n, gray in frames.items() if n in poses}
    features = {"ours": {}, "opencv": {}, "opencv root": {}, "colmap": {}}
    times, thresholds = {kind: [] for kind in features}, {"opencv": [], "colmap": []}
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{n:06}.png" for n in frames]
        for path, gray in zip(paths, frames.values()):
            cv2.imwrite(str(path), gray)
        ours, times["ours"] = run_ours(arguments.dump, folder, paths, arguments.set)
        for (number, gray), mine in zip(frames.items(), ours):
            features["ours"][number] = mine
            points, rows, seconds, threshold = run_opencv(gray, len(mine[0]))
            features["opencv"][number], features["opencv root"][number] = (points, rows), (points, root(rows))
            times["opencv"].append(1e3 * seconds)
            thresholds["opencv"].append(threshold)
            if pycolmap and not arguments.no_colmap:
                points, rows, seconds, threshold = run_colmap(gray, len(mine[0]))
                features["colmap"][number] = (points, rows)
                times["colmap"].append(1e3 * seconds)
                thresholds["colmap"].append(threshold)
    print(f"\n{name}: {len(frames)} pictures of {gray.shape[1]} x {gray.shape[0]}")
    for kind, each in features.items():
        if not each:
            continue
        count = np.mean([len(points) for points, _ in each.values()])
        cells = []
        for gap in gaps:
            right, total = score(each, gap, lambda a, b: fundamental(intrinsics, poses[a], poses[b]))
            cells.append(f"{gap}: {right:5} right of {total:5} = {right / max(total, 1):.3f}")
        spent = f"{np.median(times[kind]):6.1f} ms" if times[kind] else " " * 9
        least = f"  threshold {np.median(thresholds[kind]):.4f}" if thresholds.get(kind) else ""
        print(f"  {kind:12} {count:6.0f} keypoints {spent}  " + "   ".join(cells) + least)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--dump", default="target/release/examples/sift_dump")
    parser.add_argument("--set", nargs="*", default=[], help="option=value of our extractor")
    parser.add_argument("--sequences", nargs="*", default=list(SEQUENCES))
    parser.add_argument("--no-colmap", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.sequences:
        compare(name, SEQUENCES[name], arguments)


if __name__ == "__main__":
    main()
