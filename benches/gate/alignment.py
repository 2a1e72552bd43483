"""A map's poses against the true ones, after a similarity."""

import numpy as np


def similarity(source, target):
    """Scale, rotation and translation with target = s R source + t in the least squares (Umeyama 1991)."""
    source_mean, target_mean = source.mean(0), target.mean(0)
    covariance = (target - target_mean).T @ (source - source_mean) / len(source)
    u, d, vt = np.linalg.svd(covariance)
    sign = np.diag([1, 1, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    rotation = u @ sign @ vt
    scale = np.trace(np.diag(d) @ sign) / ((source - source_mean) ** 2).sum(1).mean()
    return scale, rotation, target_mean - scale * rotation @ source_mean


def angle_deg(rotation):
    return float(np.degrees(np.arccos(np.clip((np.trace(rotation) - 1) / 2, -1, 1))))


def against_truth(cam_from_world, truth):
    """`cam_from_world`: 3 x 4 by frame number; `truth`: rotation and centre, world from camera, by frame number. ATE is
    the root mean square of the centres' errors in percent of the true path through them; the rotation's error is the
    median between registered neighbours. Nothing from fewer than three poses."""
    numbers = sorted(number for number in cam_from_world if number in truth)
    if len(numbers) < 3:
        return {}
    mapped = [np.array(cam_from_world[number]) for number in numbers]
    rotations = [pose[:, :3].T for pose in mapped]
    centers = np.array([-pose[:, :3].T @ pose[:, 3] for pose in mapped])
    true_rotations = [truth[number][0] for number in numbers]
    true_centers = np.array([truth[number][1] for number in numbers])
    scale, rotation, shift = similarity(centers, true_centers)
    errors = np.linalg.norm(scale * centers @ rotation.T + shift - true_centers, axis=1)
    length = np.linalg.norm(np.diff(true_centers, axis=0), axis=1).sum()
    turns, true_turns = ([a.T @ b for a, b in zip(of, of[1:])] for of in (rotations, true_rotations))
    return {
        "ate_percent": float(100 * np.sqrt((errors**2).mean()) / length),
        "rotation_deg": float(np.median([angle_deg(a.T @ b) for a, b in zip(turns, true_turns)])),
    }
