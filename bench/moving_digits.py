"""Moving digits: videos of one or two written digits that move and bounce in 16 × 16 pixels, as arrays of series.

    python bench/moving_digits.py write            # data/moving-digits-1 and data/moving-digits-2
    regard train moving-digits
    regard train moving-digits --name two --set data.train='[{source="data/moving-digits-2/train.npz"}]'
        --set data.valid='[{source="data/moving-digits-2/valid.npz"}]'
    regard evaluate runs/moving-digits data/moving-digits-1/test.npz
    python bench/moving_digits.py baselines

``write``: 12 frames of each video, in ``x`` (videos, frames, 256 pixels between 0 and 1). The digits are the 1,797
images of scikit-learn; test videos show the last 360 of them, which no other part has. A digit moves by 1 or 2 pixels
down or up and right or left in each frame. Pixels of two digits are added, at most 1.

``baselines``: the squared error of the next frame by a ridge regression of the last three frames, by their mean frame
and by the last frame, on the windows that ``regard evaluate`` reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

SIZE, FRAMES, BACK = 16, 12, 8
VIDEOS = {"train": 20_000, "valid": 500, "test": 1_000}
RIDGE_FRAMES, PENALTIES = 3, (1.0, 10.0, 100.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("write", "baselines"))
    action = parser.parse_args().action
    for digits in (1, 2):
        folder = Path(f"data/moving-digits-{digits}")
        if action == "write":
            write(folder, digits)
        else:
            errors = ", ".join(f"{name} {error:.4f}" for name, error in baselines(folder).items())
            print(f"{digits} moving digits, squared error of a pixel: {errors}")


def write(folder: Path, digits: int) -> None:
    """Write the videos of all parts."""
    from sklearn.datasets import load_digits

    images = load_digits().images[np.random.default_rng(0).permutation(1797)] / 16
    folder.mkdir(parents=True, exist_ok=True)
    for number, (part, count) in enumerate(VIDEOS.items()):
        random = np.random.default_rng((1, digits, number))
        own = images[1437:] if part == "test" else images[:1437]
        videos = np.stack([video(own[random.integers(len(own), size=digits)], random) for _ in range(count)])
        np.savez(folder / f"{part}.npz", x=videos.reshape(count, FRAMES, SIZE * SIZE).astype(np.float32))


def video(images: Any, random: np.random.Generator) -> Any:
    """Return the frames (FRAMES, SIZE, SIZE) of images that move and bounce."""
    frames = np.zeros((FRAMES, SIZE, SIZE))
    room = SIZE - images.shape[1]
    for image in images:
        place, speed = random.integers(0, room + 1, 2), random.choice([-2, -1, 1, 2], 2)
        for frame in frames:
            y, x = place
            frame[y : y + len(image), x : x + len(image)] += image
            ahead = place + speed
            bounces = (ahead < 0) | (ahead > room)
            place, speed = (
                np.where(ahead < 0, -ahead, np.where(bounces, 2 * room - ahead, ahead)),
                np.where(bounces, -speed, speed),
            )
    return frames.clip(max=1)


def baselines(folder: Path) -> dict[str, float]:
    """Return the squared errors of the baselines on the test videos; the penalty of ridge is chosen on validation."""
    from sklearn.linear_model import Ridge

    inputs, outputs = {}, {}
    for part in VIDEOS:
        x = np.load(folder / f"{part}.npz")["x"]
        ends = range(BACK, FRAMES)
        inputs[part] = np.concatenate([x[:, end - RIDGE_FRAMES : end].reshape(len(x), -1) for end in ends])
        outputs[part] = np.concatenate([x[:, end] for end in ends])

    def error(predicted: Any, part: str) -> float:
        return float(np.square(predicted - outputs[part]).mean())

    models = [Ridge(alpha=alpha).fit(inputs["train"], outputs["train"]) for alpha in PENALTIES]
    best = min(models, key=lambda model: error(model.predict(inputs["valid"]), "valid"))
    last = inputs["test"][:, -SIZE * SIZE :]
    mean = outputs["train"].mean(0)
    return {
        f"ridge of {RIDGE_FRAMES} frames": error(best.predict(inputs["test"]), "test"),
        "mean frame": error(mean, "test"), "last frame": error(last, "test"),
    }  # fmt: skip


if __name__ == "__main__":
    main()
