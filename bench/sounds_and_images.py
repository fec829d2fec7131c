"""The files of the recipes ``fsdd`` and ``digits``.

    python bench/sounds_and_images.py fsdd FSDD.npz
    python bench/sounds_and_images.py digits
    python bench/sounds_and_images.py digits --baselines

``fsdd``: from the arrays of the Free Spoken Digit Dataset (samples, offsets, label, speaker, take, speaker_names), into
``data/fsdd``: takes 0 to 4 are ``test.npz`` (300 recordings), 5 to 9 ``valid.npz``, the others ``train.npz``; and
for each speaker ``without-NAME.npz`` and ``only-NAME.npz``.

``digits``: scikit-learn's 8 × 8 digits into ``data/digits``:
1,437 images to train and 360 to test, in order (``in-order-*.npz``) and shuffled (``train.npz``, ``test.npz``).
``--baselines`` prints the accuracies of support vectors and of the nearest neighbor on their pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=("fsdd", "digits"))
    parser.add_argument("file", type=Path, nargs="?", help="the arrays of fsdd")
    parser.add_argument("--baselines", action="store_true")
    chosen = parser.parse_args()
    folder = Path("data") / chosen.corpus
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.corpus == "fsdd":
        write_sounds(dict(np.load(chosen.file, allow_pickle=False)), folder)
    elif chosen.baselines:
        print_baselines(folder)
    else:
        write_images(folder)


def print_baselines(folder: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    for prefix in ("", "in-order-"):
        train, test = (np.load(folder / f"{prefix}{part}.npz") for part in ("train", "test"))
        x, held_out = (part["images"].reshape(len(part["images"]), -1) / 255 for part in (train, test))
        for model in (SVC(C=10, gamma=0.256), KNeighborsClassifier(1)):
            score = model.fit(x, train["label"]).score(held_out, test["label"])
            print(f"{prefix or 'shuffled-'}test: {type(model).__name__} {score:.4f}")


def write_sounds(arrays: Any, folder: Path) -> None:
    take, names = arrays["take"], arrays["speaker_names"]
    speaker = names[arrays["speaker"]]
    parts = {"test": take < 5, "valid": (take >= 5) & (take < 10), "train": take >= 10}
    for name in names:
        parts |= {f"without-{name}": speaker != name, f"only-{name}": speaker == name}
    bounds = arrays["offsets"]
    for part, mask in parts.items():
        sounds = [arrays["samples"][bounds[place] : bounds[place + 1]] for place in np.flatnonzero(mask)]
        offsets = np.cumsum([0, *map(len, sounds)])
        np.savez(
            folder / f"{part}.npz", samples=np.concatenate(sounds), offsets=offsets, rate=np.array(8000),
            label=arrays["label"][mask], speaker=speaker[mask],
        )  # fmt: skip


def write_images(folder: Path) -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = np.rint(images.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    for prefix, places in (("in-order-", np.arange(len(images))), ("", order)):
        for part, chosen in (("train", places[:1437]), ("test", places[1437:])):
            np.savez(folder / f"{prefix}{part}.npz", images=images[chosen], label=labels[chosen])


if __name__ == "__main__":
    main()
