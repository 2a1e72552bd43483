"""Which window and how many levels a picture of a size needs, and what a portrait picture follows.

    cargo build --release --examples
    python benches/compare/klt_sizes.py [--rendered FOLDER] [--set option=value ...]

Rendered rooms (`examples/render_scene.rs`) at several widths; points are OpenCV's corners, tracked from frame to frame
as in klt_opencv.py, b. Right: alive and off by less than 1 px for every 640 px of the longer side, of the points whose
true place the frame still shows, summed over the sequences; median: of the errors of those alive, in pixels of the
picture. A portrait picture is the same frame with x and y exchanged; "by the width" gives it what the program takes for
a landscape picture as wide. "Default" marks what the program takes by itself.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import cv2
import numpy as np
from sequences import read_rendered
from truth import true_points

SEQUENCES = {
    "parallax": "hand_held 11 {} 5",
    "zoom": "forward 11 {} 5",
    "roll": "roll 11 {} 5",
    "fast pan": "fast_pan 11 {} 10 shutter_s=0.03 noise=5",
    "blur": "hand_held 11 {} 5 shutter_s=0.04",
    "noise": "orbit 11 {} 5 noise=6",
    "night": "hand_held 11 {} 5 shutter_s=0.02 noise=5 gain_jitter=0.15 offset_jitter=6",
}
WIDTHS = (640, 960, 1280, 1920)
WINDOWS = (11, 15, 21, 25, 31)
AGES = (1, 5, 10)


def rendered(folder, programs, name, width):
    out = folder / f"{name.replace(' ', '_')}_{width}"
    if not (out / "gt_poses.txt").exists():
        command = [programs / "render_scene", out, *SEQUENCES[name].format(width).split()]
        subprocess.run(command, check=True, capture_output=True)
    sequence = read_rendered(out, 1)
    points = cv2.goodFeaturesToTrack(sequence.frames[0], 1000, 0.01, 8 * width / 640)[:, 0]
    frames = [sequence.frames[n] for n in range(max(AGES) + 1)]
    return frames, points, {age: true_points(sequence, 0, age, points) for age in AGES}


def track(programs, frames, points, settings):
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{n:06}.png" for n in range(len(frames))]
        for path, frame in zip(paths, frames):
            cv2.imwrite(path, frame)
        np.savetxt(f"{folder}/points.csv", points, "%.9g", ",")
        words = [f"{option}={value}" for option, value in settings.items()]
        command = [programs / "klt_dump", f"{folder}/out.npy", f"{folder}/points.csv", *words, *paths]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        records = np.load(f"{folder}/out.npy")
    return records[..., :2], records[..., 3].astype(int) & 1 == 1, output.splitlines()[0]


def score(programs, scenes, settings, portrait=False):
    """Right and visible points by age over all scenes, and the median error at the last age."""
    right, visible, errors = np.zeros(len(AGES), int), np.zeros(len(AGES), int), []
    for frames, points, truth in scenes:
        limit = max(frames[0].shape) / 640
        if portrait:
            frames, points = [np.ascontiguousarray(frame.T) for frame in frames], points[:, ::-1]
        positions, alive, _ = track(programs, frames, points, settings)
        for i, age in enumerate(AGES):
            true, seen = truth[age]
            error = np.hypot(*(positions[age] - (true[:, ::-1] if portrait else true)).T)
            visible[i] += seen.sum()
            right[i] += (seen & alive[age] & (error < limit)).sum()
        errors.extend(error[seen & alive[age]])
    return right, visible, np.median(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default="target/release/examples")
    parser.add_argument("--rendered", type=pathlib.Path, default="out/compare")
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS)
    parser.add_argument("--set", nargs="*", default=[])
    arguments = parser.parse_args()
    programs, more = arguments.programs, dict(word.split("=") for word in arguments.set)
    ages = [f"{age}: right %" for age in AGES]
    print("| size | window | levels | " + " | ".join(ages) + f" | {AGES[-1]}: median px | |")
    print("|---|---:|---:|" + "---:|" * (len(AGES) + 1) + "---|")
    for width in arguments.widths:
        height = width * 9 // 16
        scenes = [rendered(arguments.rendered, programs, name, width) for name in SEQUENCES]
        default = options_for(programs, width, height, more)
        window, levels = default
        for choice in [(w, levels) for w in sorted({*WINDOWS, window})] + [(window, levels + d) for d in (-1, 1)]:
            note = "default" if choice == default else ""
            row(programs, scenes, f"{width} x {height}", choice, note, more)
        # What a picture would take whose longer side is this one's shorter.
        shorter = options_for(programs, height, height * 9 // 16, more)
        for choice, note in [(default, "by the longer side"), (shorter, "by the width")]:
            row(programs, scenes, f"{height} x {width}", choice, note, more, portrait=True)


def options_for(programs, width, height, more):
    """Window and levels the program takes for a size."""
    blank = [np.zeros((height, width), np.uint8)] * 2
    options = json.loads(track(programs, blank, np.array([[1.0, 1.0]]), more)[2])
    return options["window_px"], options["levels"]


def row(programs, scenes, name, choice, note, more, portrait=False):
    settings = more | {"window_px": choice[0], "levels": choice[1]}
    right, visible, median = score(programs, scenes, settings, portrait)
    shares = [f"{100 * r / v:.1f}" for r, v in zip(right, visible)]
    print(f"| {name} | {choice[0]} | {choice[1]} | " + " | ".join(shares) + f" | {median:.3f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
