#!/usr/bin/env python3
"""Time `trackweave run full` (decode to database) against COLMAP's own features and sequential matching, in turns.

  against_colmap.py VIDEO [--fps 5] [--size 640] [--repeats 5] [--trackweave target/release/trackweave] [-- MORE TRACKWEAVE FLAGS]

COLMAP (pycolmap, CPU, at most 4096 features, the same image size) runs on all sampled frames, and on trackweave's
keyframes only. Every turn runs all three once; the table gives medians and the ratio of medians. COLMAP's images are
written before the clock starts; trackweave's time includes decoding and writing.
Needs: pip install "pycolmap==4.2.1".
"""
import argparse, json, pathlib, resource, statistics, subprocess, sys, tempfile, time
import pycolmap


def trackweave(binary, pipeline, out, options, flags):
    command = [binary, "run", pipeline, "--input", options.video, "--out", str(out), "--fps", str(options.fps),
               "--analysis-size", str(options.size), "--overwrite", *flags]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def colmap(images, database, size):
    database.unlink(missing_ok=True)
    start = time.perf_counter()
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.max_image_size = size
    extraction.use_gpu = False
    extraction.sift.max_num_features = 4096
    pycolmap.extract_features(database, images, camera_mode=pycolmap.CameraMode.SINGLE, extraction_options=extraction)
    matching = pycolmap.FeatureMatchingOptions()
    matching.use_gpu = False
    pycolmap.match_sequential(database, matching_options=matching)
    return time.perf_counter() - start


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("video"); a.add_argument("--fps", default="5"); a.add_argument("--size", type=int, default=640)
    a.add_argument("--repeats", type=int, default=5); a.add_argument("--trackweave", default="target/release/trackweave")
    ours, flags = sys.argv[1:], []
    if "--" in ours:
        ours, flags = ours[:ours.index("--")], ours[ours.index("--") + 1:]
    o = a.parse_args(ours)
    pycolmap.logging.minloglevel = 2
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        trackweave(o.trackweave, "extract", folder / "all", o, ["--set", "keyframe_gate.tests=[]"])
        trackweave(o.trackweave, "full", folder / "full", o, flags)
        seconds = {"trackweave full": [], "COLMAP, all sampled frames": [], "COLMAP, keyframes only": []}
        for _ in range(o.repeats):
            seconds["trackweave full"].append(trackweave(o.trackweave, "full", folder / "full", o, flags))
            seconds["COLMAP, all sampled frames"].append(colmap(folder / "all" / "images", folder / "all.db", o.size))
            seconds["COLMAP, keyframes only"].append(colmap(folder / "full" / "images", folder / "full.db", o.size))
        counts = {name: len(list((folder / sub / "images").iterdir())) for name, sub in
                  [("trackweave full", "full"), ("COLMAP, all sampled frames", "all"), ("COLMAP, keyframes only", "full")]}
        ours = statistics.median(seconds["trackweave full"])
        for name, times in seconds.items():
            m = statistics.median(times)
            print(json.dumps({"what": name, "images": counts[name], "median_s": round(m, 3), "min_s": round(min(times), 3),
                              "max_s": round(max(times), 3), "trackweave_over_this": round(ours / m, 3)}))


if __name__ == "__main__":
    sys.exit(main())
