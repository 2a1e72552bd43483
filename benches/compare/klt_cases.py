"""The cases of the tracker's verification, ours beside OpenCV's with the same settings.

    make compare

    cargo build --release --example klt_cases
    python benches/compare/klt_cases.py [--programs FOLDER] [--cases FOLDER]

The cases are those of `tests/klt`: a frozen scene with known motion. A figure is the number of tracks kept, the largest
and the median error of these in px, and how many are off by more than 1 px where some are.

  design          what the design reports of the case, on a scene of its own that it describes in words
  design, here    its tracker (bilinear windows, equal weights, no step halved) in f64 on our scene
  ours            the tracker in use, on frames in f32 as both before
  ours, 8 bit     on the frames that OpenCV reads
  OpenCV, 8 bit   calcOpticalFlowPyrLK with the window, levels, iterations and epsilon of ours; a track lives on while
                  both ways have an answer, the way back ends within 0.5 px of its start and it stays inside the
                  picture; it knows the plain residual only, and no correlation

Needs: pip install -r benches/compare/requirements.txt
"""

import argparse
import json
import pathlib
import subprocess

import cv2
import numpy as np
from klt_opencv import run_opencv


def figure(alive, positions, truth):
    errors = np.hypot(*(positions - truth).T)[alive]
    if not len(errors):
        return "0"
    off = (errors > 1).sum()
    text = f"{len(errors)}, {errors.max():.3f}, {np.median(errors):.4f}"
    return text + (f", {off} off" if off else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default="target/release/examples")
    parser.add_argument("--cases", type=pathlib.Path, default="out/compare/cases", help="keeps frames and points")
    arguments = parser.parse_args()
    subprocess.run([arguments.programs / "klt_cases", arguments.cases], check=True)
    print("\n## Cases of the verification\n")
    columns = ["case", "points", "design", "design, here", "ours", "ours, 8 bit", "OpenCV, 8 bit"]
    print("| " + " | ".join(columns) + " |\n|---|---:|" + "---|" * (len(columns) - 2))
    for n, case in enumerate(json.loads((arguments.cases / "cases.json").read_text())):
        frames = [
            cv2.imread(str(arguments.cases / f"{n:02}_{name}.png"), cv2.IMREAD_GRAYSCALE)
            for name in ("first", "second")
        ]
        points, truth = (np.array(case[key], np.float32) for key in ("points", "truth"))
        opencv = run_opencv(frames, points, case["options"])
        records = [np.array(case[key]) for key in ("plain", "ours", "ours_8_bit")]
        answers = [(record[:, 2] == 0, record[:, :2]) for record in records]
        answers.append((opencv.alive[1], opencv.positions[1]))
        cells = [case["name"], len(points), case["design"], *(figure(*answer, truth) for answer in answers)]
        print("| " + " | ".join(map(str, cells)) + " |")
        if case["name"] == "failures":
            ends = [" ".join(map(str, record[:, 2].astype(int))) for record in records]
            lives = " ".join("alive" if alive else "-" for alive in opencv.alive[1])
            cells = ["failures, the ends (0: alive)", len(points), "2 2 2 1 1 1 4 3 0 0", *ends, lives]
            print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
