"""Word and character errors of a recognizer on the test part of AN4, by search, and on texts that training lacks.

    python bench/an4.py runs/an4 data/an4/an4_mfcc13.npz [--validation]
    python bench/an4.py runs/an4 data/an4/an4_mfcc13.npz --texts transcripts.txt
    regard train transcripts.txt --name an4-lm --set data.tokenizer.kind=character
    python bench/an4.py runs/an4 data/an4/an4_mfcc13.npz --lm runs/an4-lm [--validation]

``--texts`` writes the transcripts of the training speakers, for a language model; ``--lm`` measures searches with it.
``--validation`` measures the held-out speakers of the training part instead, to choose a search. Prints a JSON line for
each search, and for the text of the nearest training recording, with substitutions, deletions and insertions, and the
processor seconds of one second of sound.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.baselines.nearest_recording import NearestRecording
from regard.metrics.edits import Edits, count_edits, units

SEARCHES: dict[str, dict[str, Any]] = {
    "CTC alone, greedy": {"beam": 1, "ctc_weight": 1.0},
    "attention alone, greedy": {"beam": 1, "ctc_weight": 0.0},
    "attention alone, beam 8": {"beam": 8, "ctc_weight": 0.0},
    "joint, greedy": {"beam": 1, "ctc_weight": 0.3},
    "joint, beam 8, CTC .3": {"beam": 8, "ctc_weight": 0.3},
    "joint, beam 8, CTC .5": {"beam": 8, "ctc_weight": 0.5},
    "joint, beam 8, CTC .7": {"beam": 8, "ctc_weight": 0.7},
}
SEARCHES_WITH_LM = {
    f"joint and language model, beam 8, CTC .3, LM {weight:g}": {"beam": 8, "ctc_weight": 0.3, "lm_weight": weight}
    for weight in (0.1, 0.2, 0.3, 0.5)
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--lm", type=Path)
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    model: Any = regard.load(options.run, lm=options.lm)
    arrays = dict(np.load(options.file, allow_pickle=False))
    if options.texts is not None:
        kept = {*range(len(arrays["train_text"]))} - {*held_out(model, arrays)}
        options.texts.write_text("".join(f"{arrays['train_text'][number]}\n" for number in sorted(kept)))
        return
    prefix = "train_" if options.validation else "test_"
    bounds, texts = arrays[f"{prefix}offsets"], arrays[f"{prefix}text"].tolist()
    frames = [arrays[f"{prefix}frames"][start:end] for start, end in pairwise(bounds)]
    if options.validation:
        kept = held_out(model, arrays)
        frames, texts = [frames[number] for number in kept], [texts[number] for number in kept]
    known = {*arrays["train_text"].tolist()}
    new = [number for number, text in enumerate(texts) if text not in known]
    seconds = sum(map(len, frames)) / 100
    trained = sorted({*range(len(arrays["train_text"]))} - {*held_out(model, arrays)})
    baseline = rates(texts, nearest(arrays, trained, frames))
    print(json.dumps({"search": "text of the nearest training recording", **baseline}), flush=True)
    for name, settings in (SEARCHES if options.lm is None else SEARCHES_WITH_LM).items():
        began = time.process_time()
        try:
            outputs = [transcript.text for transcript in model(frames, **settings)]
        except regard.errors.RegardError as error:
            print(json.dumps({"search": name, "error": str(error)}), flush=True)
            continue
        spent = (time.process_time() - began) / seconds
        record = {"search": name, **rates(texts, outputs), "seconds per second": round(spent, 4)}
        own = rates([texts[number] for number in new], [outputs[number] for number in new])
        print(json.dumps(record | {f"{key} on {len(new)} new texts": value for key, value in own.items()}), flush=True)


def nearest(arrays: dict[str, Any], kept: Sequence[int], frames: Sequence[Any]) -> list[str]:
    """Return the text of the training recording with the nearest frames."""
    model, bounds = NearestRecording(), arrays["train_offsets"]
    known = [arrays["train_frames"][bounds[number] : bounds[number + 1]] for number in kept]
    model.learn(known.__getitem__, [str(arrays["train_text"][number]) for number in kept])
    return model.outputs(frames)


def held_out(model: Any, arrays: dict[str, Any]) -> list[int]:
    """Return the recordings of the training part whose speakers were held out."""
    from regard.data.shared_files import falls_into

    share = model.config.data.valid[0].share
    return [n for n, speaker in enumerate(arrays["train_speaker"].tolist()) if falls_into(str(speaker), share)]


def rates(references: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for metric in ("wer", "cer"):
        counts = [count_edits(units(metric, a), units(metric, b)) for a, b in zip(references, outputs, strict=True)]
        total = Edits(*(sum(column) for column in zip(*counts, strict=True))) if counts else Edits(0, 0, 0, 0)
        result[metric] = round(total.rate, 2)
        result[f"{metric} S/D/I"] = f"{total.substitutions}/{total.deletions}/{total.insertions}"
    return result


if __name__ == "__main__":
    main()
