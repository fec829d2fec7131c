"""Log-probabilities of models of other translation toolkits, and of their imports: differences of at most 1e-5.

    python bench/toolkit_checkpoints.py write joeynmt FOLDER    # with the toolkit's own environment
    python bench/toolkit_checkpoints.py compare FOLDER          # with that of Regard

``write`` makes a small model with random weights by the toolkit's own code, and saves it with its own functions. It
also saves log-probabilities of a few pairs. Toolkits: ``joeynmt`` 2.3 and ``sockeye`` 3.1. Regard is only
imported to compare. ``tests/share/test_toolkits.py`` compares all toolkits with torch's own layers.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

SOURCE, TARGET = [f"s{number}" for number in range(20)], [f"t{number}@@" for number in range(17)]
WIDTH, INNER, HEADS, LAYERS = 16, 24, 4, 2
Score = Callable[[list[int], list[int]], torch.Tensor]


def randomize(model: torch.nn.Module, fixed: str = "\n") -> None:
    """Set all parameters to random numbers, except those whose name has a part."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if fixed not in name:
                parameter.copy_(torch.randn_like(parameter) * 0.4)


def record(folder: Path, specials: Sequence[str], score: Score) -> None:
    """Write the log-probabilities of five pairs; the score of the ids of a pair has a row per target position."""
    draw, pairs = random.Random(1), []
    count = len(specials)
    for _ in range(5):
        ids = [[draw.randrange(len(side)) for _ in range(draw.randint(1, 6))] for side in (SOURCE, TARGET)]
        with torch.no_grad():
            log_p = score(*([number + count for number in side] for side in ids))
        texts = [[side[number] for number in own] for side, own in zip((SOURCE, TARGET), ids, strict=True)]
        pairs.append({"source": texts[0], "target": texts[1], "log_p": log_p.tolist()})
    (folder / "expected.json").write_text(json.dumps({"pairs": pairs, "skip": count}))


def write_joeynmt(folder: Path) -> None:
    import yaml
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    ids = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None}
    symbols = SimpleNamespace(**names, **ids, lang_tags=[])
    source, target = Vocabulary(SOURCE, symbols), Vocabulary(TARGET, symbols)
    side = {
        "type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH, "ff_size": INNER,
        "dropout": 0.1, "layer_norm": "pre", "activation": "gelu",
        "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": 0.0},
    }  # fmt: skip
    config = {"encoder": side, "decoder": side}
    model = build_model(config, source, target).eval()
    randomize(model)
    torch.save({"model_state": model.state_dict()}, folder / "best.ckpt")  # noqa: TID251
    data = {"src": {"lang": "de"}, "trg": {"lang": "en"}}
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": data, "model": config}))
    source.to_file(folder / "src_vocab.txt")
    target.to_file(folder / "trg_vocab.txt")

    def score(first: list[int], second: list[int]) -> torch.Tensor:
        x, y = torch.tensor([[*first, 3]]), torch.tensor([[2, *second]])
        mask = {"src_mask": torch.ones(1, 1, x.shape[1]).bool()}
        states, hidden, _, _ = model(return_type="encode", src=x, src_length=torch.tensor([x.shape[1]]), **mask)
        logits, _, _, _ = model(
            return_type="decode", trg_input=y, encoder_output=states, encoder_hidden=hidden, unroll_steps=None,
            decoder_hidden=None, trg_mask=torch.ones(1, 1, y.shape[1]).bool(), **mask,
        )  # fmt: skip
        return logits.log_softmax(-1)[0]

    record(folder, ["<unk>", "<pad>", "<s>", "</s>"], score)


def write_sockeye(folder: Path) -> None:
    from sockeye import data_io, encoder, model, transformer

    specials = ["<pad>", "<unk>", "<s>", "</s>"]
    sizes = [len(specials) + len(side) for side in (SOURCE, TARGET)]
    side = transformer.TransformerConfig(
        model_size=WIDTH, attention_heads=HEADS, feed_forward_num_hidden=INNER, act_type="swish1", num_layers=LAYERS,
        dropout_attention=0.0, dropout_act=0.0, dropout_prepost=0.0, positional_embedding_type="fixed",
        preprocess_sequence="n", postprocess_sequence="dr", max_seq_len_source=30, max_seq_len_target=30,
        depth_key_value=WIDTH,
    )  # fmt: skip
    data = data_io.DataConfig(
        data_statistics=None, max_seq_len_source=30, max_seq_len_target=30, num_source_factors=1, num_target_factors=1
    )
    tables = [encoder.EmbeddingConfig(size, WIDTH, 0.0) for size in sizes]
    net = model.SockeyeModel(model.ModelConfig(data, *sizes, *tables, side, side, weight_tying_type="trg_softmax"))
    randomize(net, fixed="pos_embedding")
    net.train()
    net.save_parameters(str(folder / "params.best"))
    net.save_config(str(folder))
    for name, own in (("src", SOURCE), ("trg", TARGET)):
        ids = {piece: id for id, piece in enumerate([*specials, *own])}
        (folder / f"vocab.{name}.0.json").write_text(json.dumps(ids))

    def score(first: list[int], second: list[int]) -> torch.Tensor:
        x, y = torch.tensor([[*first, 3]])[..., None], torch.tensor([[2, *second]])[..., None]
        outputs = net(x, torch.tensor([[x.shape[1], 0]]), y, torch.tensor([y.shape[1]]))
        logits: torch.Tensor = outputs["logits"]
        return logits.log_softmax(-1)[0]

    record(folder, specials, score)


def compare(folder: Path) -> float:
    """Return the maximum difference of the log-probabilities of ordinary pieces."""
    from regard.share.import_folder import import_folder
    from regard.tasks.load import load

    expected, worst = json.loads((folder / "expected.json").read_text()), 0.0
    with tempfile.TemporaryDirectory() as run:
        model = load(import_folder(folder, Path(run) / "run").path, device="cpu")
    order = [model.target.encode(piece)[0] for piece in TARGET]
    for pair in expected["pairs"]:
        source, target = model.source.encode(" ".join(pair["source"])), model.target.encode(" ".join(pair["target"]))
        imported = model.log_probabilities([source], [target])[0][:, order]
        original = torch.tensor(pair["log_p"])[:, expected["skip"] :]
        worst = max(worst, float((imported - original).abs().max()))
    return worst


WRITERS: dict[str, Callable[[Path], Any]] = {"joeynmt": write_joeynmt, "sockeye": write_sockeye}


def main() -> None:
    folder = Path(sys.argv[-1])
    if sys.argv[1] == "write":
        folder.mkdir(parents=True)
        WRITERS[sys.argv[2]](folder)
    else:
        print(f"largest difference: {compare(folder):.1e}")


if __name__ == "__main__":
    main()
