"""What a run's folder says without a mapper: right matches by source and distance, residuals, tracks, times.

A match is on the line where both of its points lie within 2 px (of a picture 640 wide) of the epipolar lines of the
true poses; it is at the point where the second one lies within 2 px of what the first truly shows. The latter is asked
on rendered scenes, where the depth is consistent (`truth.py`). The distance of a pair is counted in keyframes.
"""

import collections
import csv
import json
import sqlite3

import numpy as np
from truth import fundamental, line_distances, true_points

MAX_ERROR_PX = 2.0
SOURCES = ("klt", "sift", "both")
# Image ids of a COLMAP pair id.
MAX_IMAGES = 2147483647
COUNTS = ("matches", "on_line", "known", "at_point", "inliers", "inliers_on_line", "inliers_known", "inliers_at_point")


def read_run(folder):
    """The record, keypoints by image id (pixel centres at integers), matches by pair: (raw pairs of indices, rows of
    matches.csv as first, second, source, track or -1, inlier)."""
    record = json.loads((folder / "run.json").read_text())
    database = sqlite3.connect(f"file:{folder / 'database.db'}?mode=ro", uri=True)
    keypoints = {}
    for image, rows, cols, data in database.execute("select image_id, rows, cols, data from keypoints"):
        keypoints[image] = np.frombuffer(data or b"", "<f4").reshape(rows, cols)[:, :2].astype(float) - 0.5
    raw = {}
    for pair, rows, data in database.execute("select pair_id, rows, data from matches"):
        raw[divmod(pair, MAX_IMAGES)] = np.frombuffer(data or b"", "<u4").reshape(rows, 2).astype(int)
    database.close()
    rows = collections.defaultdict(list)
    with open(folder / "matches.csv") as file:
        for first, second, a, b, source, track, inlier in list(csv.reader(file))[1:]:
            rows[int(first), int(second)].append((int(a), int(b), SOURCES.index(source), int(track or -1), int(inlier)))
    return record, keypoints, raw, {pair: np.array(of_pair) for pair, of_pair in rows.items()}


def measure(footage, folder):
    record, keypoints, raw, matches = read_run(folder)
    numbers = [frame["frame"] for frame in record["frames"] if frame["image"]]
    truth = footage.truth(numbers)
    scale = 640 / footage.width
    counts = collections.defaultdict(lambda: np.zeros(len(COUNTS), int))
    residuals = {source: [] for source in SOURCES}
    errors = {source: [] for source in SOURCES}
    for (first, second), rows in matches.items():
        a, b = numbers[first - 1], numbers[second - 1]
        if a not in truth.poses or b not in truth.poses:
            continue
        p, q = keypoints[first][rows[:, 0]], keypoints[second][rows[:, 1]]
        inlier = rows[:, 4] == 1
        is_raw = np.isin(rows[:, 0] << 32 | rows[:, 1], as_keys(raw.get((first, second), np.zeros((0, 2), int))))
        f = fundamental(truth.intrinsics, truth.poses[a], truth.poses[b])
        far = scale * np.maximum(line_distances(f, p, q), line_distances(f.T, q, p))
        off, known = np.full(len(rows), np.inf), np.zeros(len(rows), bool)
        if a in truth.inverse_depths and b in truth.inverse_depths:
            seen, known = true_points(truth, a, b, p)
            off = scale * np.hypot(*(seen - q).T)
        on_line, at_point = far < MAX_ERROR_PX, known & (off < MAX_ERROR_PX)
        for index, source in enumerate(SOURCES):
            of = rows[:, 2] == index
            asked = [is_raw, is_raw & on_line, is_raw & known, is_raw & at_point]
            asked += [inlier, inlier & on_line, inlier & known, inlier & at_point]
            counts[second - first, source] += [(of & these).sum() for these in asked]
            residuals[source].append(far[of & inlier])
            errors[source].append(off[of & inlier & known])
    return {
        "keyframes": len(record["keyframes"]),
        "keypoints": float(np.mean([keyframe["keypoints"] for keyframe in record["keyframes"]])),
        "by_distance": [
            {"distance": int(distance), "source": source, **dict(zip(COUNTS, map(int, row)))}
            for (distance, source), row in sorted(counts.items())
        ],
        "verified_pairs": sum(pair["inliers"] > 0 for pair in record["pairs"]),
        "residual_px": {source: quantiles(residuals[source]) for source in SOURCES},
        "point_error_px": {source: quantiles(errors[source]) for source in SOURCES},
        **claims(record, matches),
        "graph": graph(keypoints, matches),
        "ends": record["ends"],
        "stages": {stage["name"]: stage["busy_s"] for stage in record["stages"]},
    }


def as_keys(pairs):
    return pairs[:, 0] << 32 | pairs[:, 1]


def quantiles(parts):
    values = np.concatenate(parts) if parts else np.zeros(0)
    values = values[np.isfinite(values)]
    return [float(v) for v in np.quantile(values, [0.5, 0.9])] if len(values) else None


def claims(record, matches):
    """Seeds and joins, and the keypoints that the tracks with two or more of them claim."""
    keypoints = collections.defaultdict(set)
    for (first, second), rows in matches.items():
        for a, b, _, track, _ in rows[rows[:, 3] >= 0]:
            keypoints[track] |= {(first, a), (second, b)}
    total = {key: sum(keyframe[key] for keyframe in record["keyframes"]) for key in ("seeds", "joined", "fill_ins")}
    n_claims = sum(map(len, keypoints.values()))
    return {**total, "tracks": len(keypoints), "claims_a_track": n_claims / len(keypoints) if keypoints else None}


def graph(keypoints, matches):
    """What the inliers of all pairs join: points seen in three or more images, their mean number of images, and the
    share that holds two keypoints of one image."""
    starts, n = {}, 0
    for image in sorted(keypoints):
        starts[image], n = n, n + len(keypoints[image])
    edges = [rows[rows[:, 4] == 1, :2] + [starts[a], starts[b]] for (a, b), rows in matches.items()]
    edges = np.concatenate(edges) if edges else np.zeros((0, 2), int)
    labels = np.arange(n)
    while True:
        least = labels[edges].min(1)
        before = labels.copy()
        np.minimum.at(labels, labels[edges[:, 0]], least)
        np.minimum.at(labels, labels[edges[:, 1]], least)
        labels = labels[labels]
        if (labels == before).all():
            break
    image = np.repeat(sorted(keypoints), [len(keypoints[i]) for i in sorted(keypoints)]) if n else np.zeros(0, int)
    n_keypoints = np.bincount(labels, minlength=n)
    n_images = np.bincount(np.unique(np.c_[labels, image], axis=0)[:, 0], minlength=n) if n else n_keypoints
    long = n_images >= 3
    return {
        "points": int(long.sum()),
        "observations": int(n_images[long].sum()),
        "mean_images": float(n_images[long].mean()) if long.any() else None,
        "conflicting": float((n_keypoints > n_images)[long].mean()) if long.any() else None,
    }
