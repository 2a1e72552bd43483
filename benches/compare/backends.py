"""Tracks of the GPU backend against those of the CPU's, on the same inputs through the pipeline `tracks`.

    python3 benches/compare/backends.py TRACKWEAVE [--adapter NAME] INPUT ...

INPUT is a video or a folder of pictures; TRACKWEAVE is the program. A track of one run is a track of the other where
both begin in the same frame at the same pixel. Equal: seen in the same frames, ended for the same reason. Prints two
Markdown tables; needs nothing but Python.
"""

import argparse
import collections
import csv
import json
import pathlib
import subprocess
import tempfile

DISTANCES_PX = 1e-3, 1e-2, 1e-1


def run(program, source, out, *backend):
    command = [program, "run", "tracks", "--input", source, "--fps", "10", "--out", out, *backend]
    done = subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads((out / "run.json").read_text()), read_tracks(out / "tracks.csv")


def read_tracks(path):
    """By first frame and pixel: positions by frame, and the end reason."""
    rows = collections.defaultdict(list)
    with open(path) as lines:
        for row in csv.DictReader(lines):
            rows[int(row["track_id"])].append(row)
    tracks = {}
    for seen in rows.values():
        place = {int(row["frame"]): (float(row["x"]), float(row["y"])) for row in seen}
        first = min(place)
        pixel = tuple(round(value) for value in place[first])
        tracks[first, pixel] = place, seen[-1]["end_reason"]
    return tracks


def farthest(a, b):
    """Largest distance of two tracks of the same frames."""
    return max(((a[n][0] - b[n][0]) ** 2 + (a[n][1] - b[n][1]) ** 2) ** 0.5 for n in a)


def compare(cpu, gpu):
    both = [(*cpu[key], *gpu[key]) for key in cpu.keys() & gpu.keys()]
    equal = [farthest(a, b) for a, end, b, other_end in both if a.keys() == b.keys() and end == other_end]
    largest = max(len(cpu), len(gpu))
    within = [sum(distance <= limit for distance in equal) / largest for limit in DISTANCES_PX]
    return len(both), len(equal) / largest, within


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("inputs", nargs="+", type=pathlib.Path)
    parser.add_argument("--adapter", default=None)
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    gpu = ["--backend", "gpu", *(["--adapter", arguments.adapter] if arguments.adapter else [])]
    ends = []
    limits = " | ".join(f"within {limit} px" for limit in DISTANCES_PX)
    for source in arguments.inputs:
        name = source.parent.name if source.is_file() else source.name
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            record, on_cpu = run(program, source, folder / "cpu", "--backend", "cpu")
            other, on_gpu = run(program, source, folder / "gpu", *gpu)
        if not ends:
            print(f"{other['adapter']}\n")
            print(f"| input | frames | kept CPU | GPU | tracks CPU | GPU | in both | equal | {limits} |")
            print("|---" * 11 + "|")
        n_both, equal, within = compare(on_cpu, on_gpu)
        kept = [sum(frame["kept"] for frame in run["frames"]) for run in (record, other)]
        shares = " | ".join(f"{100 * share:.2f} %" for share in [equal, *within])
        print(f"| {name} | {len(record['frames'])} | {kept[0]} | {kept[1]} | {len(on_cpu)} | {len(on_gpu)} | {n_both} | {shares} |")
        ends.append((name, record["ends"], other["ends"]))
    reasons = sorted({reason for _, a, b in ends for reason in (*a, *b)})
    print(f"\nEnds by reason, CPU / GPU:\n\n| input | {' | '.join(reasons)} |")
    print("|---" * (len(reasons) + 1) + "|")
    for name, a, b in ends:
        print(f"| {name} | {' | '.join(f'{a.get(r, 0)} / {b.get(r, 0)}' for r in reasons)} |")


if __name__ == "__main__":
    main()
