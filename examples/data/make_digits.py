"""Draws `digits.npz`: small grey images of handwritten-looking digits, from the strokes below.

Every image is drawn with its own rotation, slant, size, position, pen width and shaky hand. The
same seed gives the same file: `python examples/data/make_digits.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

IMAGES = 5000
SIDE = 16
GREY_LEVELS = 8
SEED = 20240229


def arc(x: float, y: float, width: float, height: float, start: float, end: float) -> np.ndarray:
    """Points of an ellipse between two angles in degrees; 0 is right, 90 is down."""
    angles = np.radians(np.linspace(start, end, 12))
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)


def line(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points)


# The strokes of each digit in a square from -1 to 1.
STROKES = [
    [arc(0, 0, 0.5, 0.8, 0, 360)],
    [line((-0.3, -0.5), (0.1, -0.8), (0.1, 0.8))],
    [arc(0, -0.4, 0.5, 0.4, 180, 380), line((0.45, -0.25), (-0.5, 0.8), (0.5, 0.8))],
    [arc(0, -0.4, 0.45, 0.4, 200, 450), arc(0, 0.4, 0.5, 0.4, 270, 520)],
    [line((0.2, 0.8), (0.2, -0.8), (-0.5, 0.3), (0.5, 0.3))],
    [line((0.4, -0.8), (-0.4, -0.8), (-0.4, -0.1)), arc(-0.05, 0.35, 0.5, 0.45, 230, 500)],
    [arc(0.4, 0.3, 0.9, 1.1, 190, 260), arc(0, 0.4, 0.45, 0.4, 0, 360)],
    [line((-0.5, -0.8), (0.5, -0.8), (-0.1, 0.8))],
    [arc(0, -0.4, 0.4, 0.38, 0, 360), arc(0, 0.4, 0.48, 0.4, 0, 360)],
    [arc(0, -0.4, 0.45, 0.4, 0, 360), arc(-0.5, -0.3, 0.95, 1.1, 0, 75)],
]


def distance_to_stroke(pixels: np.ndarray, stroke: np.ndarray) -> np.ndarray:
    """Distance of each pixel to the nearest segment of a stroke."""
    start, end = stroke[:-1], stroke[1:]
    along = end - start
    from_start = pixels[:, None, :] - start[None, :, :]
    length = np.maximum((along**2).sum(axis=1), 1e-9)
    position = np.clip((from_start * along[None]).sum(axis=2) / length, 0, 1)
    nearest = start[None] + position[..., None] * along[None]
    return np.sqrt(((pixels[:, None, :] - nearest) ** 2).sum(axis=2)).min(axis=1)


def draw(digit: int, random: np.random.Generator) -> np.ndarray:
    angle, slant = random.normal(0, 0.18), random.normal(0, 0.2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[1, slant], [0, 1]]) @ np.diag(random.uniform(0.65, 1.0, 2))
    shift = random.normal(0, 0.1, 2)
    grid = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    pixels = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    distance = np.full(SIDE * SIDE, np.inf)
    for stroke in STROKES[digit]:
        shaky = stroke + random.normal(0, 0.035, stroke.shape)
        distance = np.minimum(distance, distance_to_stroke(pixels, shaky @ shape.T + shift))
    ink = np.clip((random.uniform(0.1, 0.22) - distance) / 0.12 + 0.5, 0, 1)
    return ink + random.normal(0, 0.1, ink.shape)


def main() -> None:
    random = np.random.default_rng(SEED)
    labels = random.integers(0, 10, IMAGES).astype(np.uint8)
    ink = np.stack([draw(label, random) for label in labels])
    grey = np.clip(np.rint(ink * (GREY_LEVELS - 1)), 0, GREY_LEVELS - 1).astype(np.uint8)
    path = Path(__file__).with_name("digits.npz")
    np.savez_compressed(path, images=grey.reshape(-1, SIDE, SIDE), labels=labels)
    print(f"{path.name}: {IMAGES} images, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
