"""The gate's scenes: what they are, their frames, their cameras, and which frames are keyframes in every arm.

Rendered scenes are made by `examples/render_scene.rs`, 640 x 360, 30 frames/s for 6 s (a loop takes 8, an orbit meets
the wall after 5), with the depth of every frame that may be a keyframe. Real sequences are folders
`sequences/<name>/{video.mp4, calib.json, gt_poses.txt}` of a data folder.

The keyframes of a scene are chosen once, by tracks of corners and their motion (pipeline `tracks`), and stay: phase
correlation, which needs no tracker, sees too little of the motion straight ahead.
"""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
from truth import Sequence, pose_from_row

FPS = 30
WIDTH = 640


@dataclasses.dataclass(frozen=True)
class Scene:
    """`words`: what render_scene is told, none for a real sequence. `sampled`: frames a second that the tracker sees. A
    scene that is set aside is not looked at while options are chosen."""

    name: str
    sampled: int
    words: str = ""
    seconds: float = 6.0
    set_aside: bool = False

    @property
    def is_rendered(self):
        return bool(self.words)


SCENES = [
    Scene("rich walk", 10, "hand_held decor=rich noise=3"),
    Scene("poor walk", 10, "hand_held decor=poor noise=3 seed=2"),
    Scene("tiled orbit", 10, "orbit decor=repetitive gain_a_second=0.93 noise=3 seed=3", seconds=5.0),
    Scene("rich forward, blurred", 10, "forward decor=rich shutter_s=0.02 noise=3 seed=4"),
    Scene("rich loop", 10, "loop decor=rich noise=3 seed=5", seconds=8.2),
    Scene(
        "poor orbit, drifting", 10, "orbit decor=poor gain_a_second=0.9 gain_jitter=0.05 noise=4", 5.0, set_aside=True
    ),
    Scene("tiled walk", 10, "hand_held decor=repetitive noise=4 seed=7", set_aside=True),
    Scene("rich sweep, blurred", 10, "sweep decor=rich shutter_s=0.015 noise=3 seed=8", set_aside=True),
    Scene("poor forward", 10, "forward decor=poor noise=5 seed=9", set_aside=True),
    Scene("poor loop", 10, "loop decor=poor noise=3 seed=10", seconds=8.2, set_aside=True),
    Scene("vamr_corner", 5),
    Scene("icl_kt3_200", 10),
    Scene("kitti_s1", 10),
]
SMALL = ["rich walk", "poor walk", "tiled orbit", "rich forward, blurred"]


class Footage:
    """A scene on disk: its frames, cameras and keyframes."""

    def __init__(self, scene, folder, data, programs):
        self.scene, self.programs = scene, programs
        name = scene.name.replace(" ", "_").replace(",", "")
        self.folder = folder / f"{name}-{digest(scene.words, scene.seconds, scene.sampled)}"
        if scene.is_rendered:
            self.input = self.folder / "frames"
            if not self.input.exists():
                self.render()
            width, height, f, cx, cy = map(float, (self.input / "camera.txt").read_text().split()[1:])
            self.camera, self.fps = ["SIMPLE_PINHOLE", f, cx, cy], FPS
            fx, fy = f, f
        else:
            source = data / "sequences" / scene.name
            self.input = source / "video.mp4"
            calib = json.loads((source / "calib.json").read_text())
            width, fx, fy, self.fps = (calib[key] for key in ("width", "fx", "fy", "fps"))
            # COLMAP counts the first pixel centre as 0.5, the files as 0.
            cx, cy = calib["cx"] + 0.5, calib["cy"] + 0.5
            self.camera = ["PINHOLE", fx, fy, cx, cy]
        self.width = width
        self.intrinsics = np.array([[fx, 0, cx - 0.5], [0, fy, cy - 0.5], [0, 0, 1]])
        self.keyframes = self.folder / "keyframes.txt"
        if not self.keyframes.exists():
            self.choose_keyframes()

    def render(self):
        scene, part = self.scene, self.folder / "frames.part"
        shutil.rmtree(part, ignore_errors=True)
        path, *words = scene.words.split()
        words = [path, round(scene.seconds * FPS) + 1, WIDTH, FPS, f"depth_step={FPS // scene.sampled}", *words]
        quiet(self.programs / "examples/render_scene", part, *words)
        part.rename(self.input)

    def choose_keyframes(self):
        with tempfile.TemporaryDirectory() as out:
            quiet(*self.command("tracks", {}, out))
            frames = json.loads((pathlib.Path(out) / "run.json").read_text())["frames"]
        self.folder.mkdir(parents=True, exist_ok=True)
        write(self.keyframes, "".join(f"{frame['frame']}\n" for frame in frames if frame["kept"]))

    def command(self, pipeline, settings, out):
        """A run of trackweave on the scene."""
        model, *params = self.camera
        settings = {"frame_decode.sample_fps": self.scene.sampled, "frame_decode.folder_fps": FPS} | settings
        words = ["--input", self.input, "--out", out, "--overwrite", "--backend", "cpu", "--analysis-size", WIDTH]
        words += ["--camera-model", model, "--camera-params", ",".join(map(str, params))]
        words += [word for option, value in settings.items() for word in ("--set", f"{option}={value}")]
        return list(map(str, [self.programs / "trackweave", "run", pipeline, *words]))

    def truth(self, numbers):
        """True poses and inverse depths of the frames that have them."""
        rows = [line.split() for line in open(self.poses_file) if line[0] != "#"]
        poses = {round(float(row[0]) * self.fps): pose_from_row(list(map(float, row))) for row in rows}
        poses = {number: poses[number] for number in numbers if number in poses}
        depths = {}
        if self.scene.is_rendered:
            for number in numbers:
                depth = self.input / f"depth_{number:06}.f32"
                if depth.exists():
                    depths[number] = 1 / np.fromfile(depth, "<f4").reshape(-1, round(self.width))
        return Sequence(self.scene.name, {}, self.intrinsics, poses, depths)

    @property
    def poses_file(self):
        return (self.input if self.scene.is_rendered else self.input.parent) / "gt_poses.txt"


def quiet(*words):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def digest(*parts):
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def write(path, text):
    """Writes a file that is whole or not there."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
