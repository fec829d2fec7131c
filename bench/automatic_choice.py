"""Files of labels and of tags without a recipe: what ``regard train`` chooses, against six settings made by hand.

    REGARD_DATA=FOLDER .venv/bin/python bench/automatic_choice.py sst splice lines capitals

``sst``: sentences and their sentiment; ``splice``: DNA of three classes; ``lines``: parts of speech of UD English
LinES; ``capitals``: which words of Multi30k's German captions begin with a capital, 4,000 to learn from. Settings lie
over what is chosen, and are meant as somebody would set them who knows the literature, each with a rate that
falls to zero; nothing was chosen among them. Accuracy on the test parts, one seed, which also goes to
runs/bench/automatic-choice.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from regard.data.text_files import read_lines

FOLDER = Path("runs") / "bench" / "automatic-choice"
FALLING = ["train.schedule=linear", "train.early_stopping=", "train.epochs=", "train.weight_decay=0.1"]
AVERAGED = ["train.save_every=50", "train.keep=6", "train.average=3", "train.validate_every=100"]
CONVOLUTION = ["model.preset=", "model.encoder.kind=convolutional", "model.width=128", "model.encoder.position=none"]
TRANSFORMER = [
    "model.encoder.kind=transformer", "model.layers=2", "model.width=128", "model.feed_forward=256", "model.heads=4",
    "model.norm=pre", "model.position=rotary",
]  # fmt: skip


def recurrent(cell: str, layers: int, width: int) -> list[str]:
    """Keys of a recurrent encoder that reads in both directions."""
    kind = ["model.encoder.kind=recurrent", f"model.encoder.cell={cell}", "model.encoder.blocks="]
    return [*kind, f"model.layers={layers}", f"model.width={width}"]


def learning(steps: int, rate: float) -> list[str]:
    """Keys of so many updates at a rate that falls to zero."""
    return [*FALLING, *AVERAGED, f"train.steps={steps}", f"train.learning_rate={rate}"]


SETTINGS: dict[str, dict[str, list[str]]] = {
    "sst": {
        "affixes of words": [
            *CONVOLUTION,
            "model.encoder.blocks=[[128, 1, 1]]",
            "model.affixes=20000",
            "model.dropout=0.5",
            "data.hidden_tokens=0.3",
            *learning(300, 4e-3),
        ],
        "convolution of width 3": [
            *CONVOLUTION,
            "model.encoder.blocks=[[128, 3, 1]]",
            "model.dropout=0.5",
            *learning(400, 2e-3),
        ],
        "GRU": ["model.preset=", *recurrent("gru", 1, 128), "model.dropout=0.5", *learning(400, 2e-3)],
        "LSTM, 2 layers": ["model.preset=", *recurrent("lstm", 2, 128), "model.dropout=0.5", *learning(400, 2e-3)],
        "Transformer, mean": [
            "model.preset=",
            *TRANSFORMER,
            "model.pooling=mean",
            "model.dropout=0.3",
            *learning(400, 1e-3),
        ],
        "Transformer over BPE": [
            "model.preset=",
            *TRANSFORMER,
            "data.tokenizer.kind=bpe",
            "data.tokenizer.size=4000",
            "model.dropout=0.3",
            *learning(400, 1e-3),
        ],
    },
    "splice": {
        "k-mers, convolutions": [
            "data.tokenizer.kind=k-mer",
            "data.tokenizer.k=3",
            "model.dropout=0.4",
            *learning(800, 3e-3),
        ],
        "convolutions, wider": ["model.width=128", "model.encoder.blocks=[[128, 7, 3]]", *learning(800, 2e-3)],
        "GRU": [*recurrent("gru", 1, 128), "model.dropout=0.3", *learning(600, 2e-3)],
        "LSTM": [*recurrent("lstm", 1, 128), "model.dropout=0.3", *learning(600, 2e-3)],
        "Transformer": ["model.encoder.blocks=", *TRANSFORMER, "model.dropout=0.2", *learning(800, 1e-3)],
        "k-mers, Transformer": [
            "model.encoder.blocks=",
            *TRANSFORMER,
            "data.tokenizer.kind=k-mer",
            "data.tokenizer.k=3",
            "model.dropout=0.3",
            *learning(800, 1e-3),
        ],
    },
}
TAGS = {
    "GRU, words alone": ["model.affixes=0", "model.width=128", *learning(800, 2e-3)],
    "GRU, 2 layers": ["model.layers=2", *learning(800, 2e-3)],
    "LSTM with affixes": ["model.encoder.cell=lstm", *learning(800, 2e-3)],
    "Transformer with affixes": ["model.encoder.cell=", *TRANSFORMER, "model.dropout=0.3", *learning(1000, 1e-3)],
    "convolution with affixes": [
        "model.encoder.cell=",
        *CONVOLUTION[1:],
        "model.layers=",
        "model.encoder.blocks=[[128, 3, 2]]",
        "model.dropout=0.4",
        *learning(800, 2e-3),
    ],
    "GRU, a higher rate": ["model.dropout=0.5", "data.hidden_tokens=0.2", *learning(800, 4e-3)],
}
SETTINGS |= {"lines": TAGS, "capitals": TAGS}


def main() -> None:
    arguments = _arguments()
    results: dict[str, dict[str, float]] = {}
    for name in arguments.corpora:
        parts = PARTS[name](Path(os.environ["REGARD_DATA"]))
        results[name] = {}
        for setting, keys in {"chosen by itself": [], **SETTINGS[name]}.items():
            found = measured(f"{name}-{setting}", parts, [*keys, *arguments.set])
            results[name] |= {"majority": found["majority"], setting: found["accuracy"]}
            print(json.dumps({"corpus": name, "setting": setting, **found}), flush=True)
    (FOLDER.parent / "automatic-choice.json").write_text(json.dumps(results, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", choices=sorted(SETTINGS))
    parser.add_argument("--set", action="append", default=[], help="a key of every training")
    return parser.parse_args()


def sst(data: Path) -> list[Path]:
    return [next((data / "sst").glob(f"*{part}.tsv*")) for part in ("train", "dev", "test")]


def splice(data: Path) -> list[Path]:
    return [data / "splice" / f"{part}.tsv" for part in ("train", "dev", "test")]


def lines(data: Path) -> list[Path]:
    texts = {part: gzip.open(data / "ud-lines" / f"{part}.jsonl.gz", "rt").read() for part in ("train", "dev", "test")}
    return [written(f"lines-{part}.jsonl", text) for part, text in texts.items()]


def capitals(data: Path) -> list[Path]:
    """Lower-cased words of captions, tagged with whether they began with a capital; the first word is left out."""
    captions = list(read_lines(data / "multi30k" / "train.de.gz"))
    tagged = []
    for caption in captions[:6000]:
        words = caption.replace(",", " ,").replace(".", " .").split()[1:]
        tags = ["capital" if word[0].isupper() else "small" for word in words]
        tagged.append(json.dumps({"tokens": [word.lower() for word in words], "tags": tags}, ensure_ascii=False) + "\n")
    cuts = {"train": slice(4000), "dev": slice(4000, 5000), "test": slice(5000, 6000)}
    return [written(f"capitals-{part}.jsonl", "".join(tagged[cut])) for part, cut in cuts.items()]


PARTS = {"sst": sst, "splice": splice, "lines": lines, "capitals": capitals}


def written(name: str, text: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / name).write_text(text, encoding="utf-8")
    return FOLDER / name


def measured(name: str, parts: list[Path], keys: list[str]) -> dict[str, float]:
    """Accuracy of a new training's best or averaged weights, share of the most frequent label, seconds of training."""
    run = FOLDER / name.replace(" ", "-").replace(",", "")
    train, valid, test = map(str, parts)
    overrides = [part for key in keys for part in ("--set", key)]
    if not run.exists():
        regard("train", train, "--valid-file", valid, "--runs", str(FOLDER), "--name", run.name, *overrides)
    told = json.loads(regard("evaluate", str(run), test, "--json"))["figures"]
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seconds = sum(record["seconds"] for record in records if "loss" in record)
    return {"accuracy": told["accuracy"], "majority": told["majority"], "seconds": round(seconds)}


def regard(*arguments: str) -> str:
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
