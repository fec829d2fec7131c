"""What transformers itself says of Marian folders; run by a Python that has it. A job as JSON comes in, answers go out.

A job names what to make (``make``: folders with vocabularies, and a config for each) and then what to ask (``ask``:
folders, and lines to read). ``path`` is where regard is found, whose own way of asking is tested along.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any


def main() -> None:
    job = json.loads(sys.stdin.read())
    sys.path += job["path"]  # at the end: what this Python has of its own counts
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    for folder, config in job["make"].items():
        make(Path(folder), config)
    with torch.no_grad():
        answers = {folder: ask(Path(folder), lines) for folder, lines in job["ask"].items()}
    json.dump(answers, sys.stdout)


def make(folder: Path, config: dict[str, Any]) -> None:
    """A Marian model of random weights, larger than usual so that outputs differ, saved as its users save one."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(11)
    model = MarianMTModel(MarianConfig(**config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(3 * parameter + 0.1 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
        model.model.get_encoder().embed_positions.weight.copy_(
            model.model.get_encoder().embed_positions.create_weight()
        )
        model.model.get_decoder().embed_positions.weight.copy_(
            model.model.get_decoder().embed_positions.create_weight()
        )
    model.generation_config.bad_words_ids = [[config["pad_token_id"]]]
    model.generation_config.num_beams = 3
    model.save_pretrained(folder)


def ask(folder: Path, lines: list[str]) -> dict[str, Any]:
    """Pieces of the lines, greedy outputs as pieces and text, log p of each type along the first outputs."""
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    from regard.share.marian import decoder
    from regard.share.parity import limit

    tokenizer = MarianTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()
    given = tokenizer(lines, return_tensors="pt", padding=True)
    outputs = model.generate(**given, num_beams=1, do_sample=False, max_new_tokens=30)
    logits = model(**given, decoder_input_ids=outputs).logits
    sources = [
        row[: int(mask.sum()) - 1] for row, mask in zip(given.input_ids.tolist(), given.attention_mask, strict=True)
    ]
    answer = {
        "sources": sources,
        "outputs": outputs.tolist(),
        "texts": tokenizer.batch_decode(outputs, skip_special_tokens=True),
        "log_p": torch.log_softmax(logits, -1).tolist(),
    }
    if (folder / "regard.json").is_file():  # ours, exported: the same question as ``regard export`` asks it
        own = json.loads((folder / "regard.json").read_text())
        answer["compared"] = decoder(folder)(own, limit(own))
    return answer


if __name__ == "__main__":
    main()
