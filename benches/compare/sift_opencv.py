"""Our SIFT against OpenCV's and COLMAP's: matches that keep the true geometry, at equal keypoint counts.

    cargo build --release --examples
    python benches/compare/sift_opencv.py DATA [--dump target/release/examples/sift_dump] [--set max_features=500 ...]
        [--adapter NAME]

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
Ours runs on the CPU, or on the GPU that --adapter names.
Needs: pip install numpy opencv-python-headless "pycolmap==4.2.1" (without pycolmap its rows are left out).
"""

import argparse
import pathlib
import subprocess
import tempfile
import time
import warnings

import cv2
import numpy as np
from sequences import read_rendered, read_video
from truth import fundamental, line_distances, true_points

try:
    import pycolmap
except ImportError:
    pycolmap = None

warnings.simplefilter("ignore", DeprecationWarning)
SEQUENCES = {"vamr_corner": (15, 30, 45, 60), "icl_kt3_200": (15, 30, 60, 90), "kitti_s1": (2, 4, 8)}
MAX_ERROR_PX = 2.0
RATIO = 0.8


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
    adapter = [f"--adapter={arguments.adapter}"] if arguments.adapter else []
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{n:06}.png" for n in sequence.frames]
        for path, gray in zip(paths, sequence.frames.values()):
            cv2.imwrite(str(path), gray)
        ours, times["ours"] = run_ours(arguments.dump, folder, paths, arguments.set + adapter)
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
    parser.add_argument("--adapter", help="part of the name of the GPU that ours runs on")
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
