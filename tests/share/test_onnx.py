"""Exports to ONNX say what the model says, of batches and lengths no trace has seen; the README has all the code."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from regard.attention.kernel import kernel
from regard.attention.span import Span
from regard.config.settings import SearchConfig
from regard.data.pairs import pad_sources
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, Tokenizer, TokenizerConfig
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.share import onnx
from regard.share.parity import compare, limit
from regard.tasks.translation.translator import Translator

from ..shape_checks import unchecked

LETTERS = "abcdefghijkl"
SMALL: dict[str, Any] = {
    "layers": 1, "width": 16, "heads": 2, "feed_forward": 24, "dropout": 0.0,
}  # fmt: skip
BLOCKS = {"blocks": [[16, 3, 2]]}
SHAPES: dict[str, dict[str, Any]] = {
    "newer parts": {  # the command's test exports the original ones
        "norm": "pre",
        "normalization": "rms",
        "activation": "swiglu",
        "key_heads": 1,
        "qk_norm": True,
        "context_norm": True,
        "attention_gate": True,
        "embedding_residual": True,
        "value_embedding": True,
        "mixer": "differential",
        "position": "rotary",
    },
    "bahdanau": {"preset": "rnnsearch-small", "encoder": {"width": 8}, "decoder": {"readout": 16}},
    "convs2s": {"preset": "convs2s-small", "encoder": BLOCKS, "decoder": BLOCKS, "longest": 60},
}
WIDENED = {"bahdanau": 2.5}  # else 1.5: outputs differ, and float32 still agrees
LENGTHS = [[1], [9], [2, 30, 5], [4] * 8]


class Export(NamedTuple):
    """A model, its folder, and what onnxruntime makes of it."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    folder: Path
    exported: Any


def needs(*libraries: str) -> None:
    for name in libraries:
        pytest.importorskip(name, reason=f"needs {name}: pip install '.[onnx]'")


def letters() -> Tokenizer:
    return train_tokenizer([" ".join(LETTERS)], TokenizerConfig(kind="word"))


def untrained(name: str) -> EncoderDecoder:
    torch.manual_seed(5)
    types = len(letters())
    model = build(ModelConfig.model_validate(SMALL | SHAPES[name]), source_types=types, target_types=types).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(WIDENED.get(name, 1.5)).add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Export]:
    """An export by the name of a shape, made when first asked for."""
    made: dict[str, Export] = {}

    def find(name: str) -> Export:
        needs("onnx", "onnxscript", "onnxruntime")
        from regard.share.onnx_example import Exported

        if name not in made:
            folder, model = tmp_path_factory.mktemp("onnx") / name, untrained(name)
            with unchecked():
                onnx.write(model, letters(), letters(), folder)
            made[name] = Export(model, letters(), folder, Exported(str(folder)))
        return made[name]

    return find


def sources(lengths: list[int]) -> list[list[int]]:
    draw = random.Random(sum(lengths))
    return [letters().encode(" ".join(draw.choices(LETTERS, k=length))) for length in lengths]


@torch.no_grad()
def both(found: Export, lengths: list[int], steps: int = 12) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Log-probabilities of each step along our own greedy outputs, ours and exported."""
    source, valid = pad_sources(sources(lengths))
    config, (session, theirs) = found.exported.config, (found.model.session(source, Span.of(valid)), found.exported)
    read = theirs.encoder.run(None, {"source": source.numpy(), "valid": valid.numpy()})
    known = dict(zip(config["encoder"]["outputs"], read, strict=True), valid=valid.numpy())
    tokens, outputs = torch.full((len(lengths), 1), BEGIN), ([], [])
    for _ in range(steps):
        with kernel("reference"):
            log_p, session = found.model.step(tokens, session)
        known["tokens"] = tokens[:, 0].numpy()
        exported, *state = theirs.decoder.run(None, {name: known[name] for name in config["decoder"]["inputs"]})
        known |= zip(config["decoder"]["state"], state, strict=True)
        outputs[0].append(log_p[:, 0].numpy())
        outputs[1].append(exported)
        tokens = log_p[:, 0].argmax(1, keepdim=True)
    return outputs


@pytest.mark.parametrize("name", SHAPES)
def test_both_say_the_same(export: Callable[[str], Export], name: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = export(name)
    assert capfd.readouterr() == ("", ""), "nothing that torch remarks reaches the user"
    for lengths in LENGTHS:
        for ours, exported in zip(*both(found, lengths), strict=True):
            np.testing.assert_allclose(exported, ours, rtol=0, atol=1e-4)
    translator = Translator(found.model, found.tokenizer, found.tokenizer, SearchConfig(), max_length=60)
    asked = sources([1 + number % 9 for number in range(70)])
    parity = compare(_ours(translator), onnx.decoder(found.folder), asked)
    assert not parity.differences, parity
    assert len({tuple(each) for each in _ours(translator)(asked, limit(asked))}) > 5, "they say different things"


def _ours(translator: Translator) -> Any:
    from regard.share.parity import greedy_decoder

    return greedy_decoder(translator)


def test_the_readme_is_all_that_decoding_needs(export: Callable[[str], Export]) -> None:
    found, asked = export("newer parts"), sources([2, 5, 9])
    (code,) = re.findall(r"```python\n(.*?)```", (found.folder / "README.md").read_text(), re.DOTALL)
    assert code.count("\n") <= 25
    asking = f"import sys\nprint(Exported('.').greedy({asked}))\nassert not {{'torch', 'regard'}} & set(sys.modules)\n"
    command = [sys.executable, "-I", "-c", f"{code}\n{asking}"]
    done = subprocess.run(command, cwd=found.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found.exported.greedy(asked)


def test_an_export_says_what_it_is_and_nothing_of_this_machine(export: Callable[[str], Export]) -> None:
    folder = export("convs2s").folder
    names = {"encoder.onnx", "decoder.onnx", "config.json", "README.md", "source_pieces.json", "target_pieces.json"}
    assert {path.name for path in folder.iterdir()} == names
    config = json.loads((folder / "config.json").read_text())
    assert (config["longest"], config["begin"], config["target_types"]) == (60, BEGIN, len(letters()))
    assert json.loads((folder / "target_pieces.json").read_text())[-1] in LETTERS
    here = str(Path(onnx.__file__).parents[2]).encode()
    assert not [path.name for path in folder.iterdir() if here in path.read_bytes()]


def test_a_model_that_one_trace_cannot_say_is_refused(tmp_path: Path) -> None:
    needs("onnx", "onnxscript")
    config = ModelConfig.model_validate(SMALL | {"cross_attention": {"kind": "top-k"}})
    model = build(config, source_types=len(letters()), target_types=len(letters()))
    with unchecked(), pytest.raises(ConfigError, match="every size of source"):
        onnx.write(model, letters(), letters(), tmp_path / "exported")
    assert not list(tmp_path.iterdir())
    assert len(torch.zeros(3)) == 3 and "len" not in vars(sys.modules["regard.models.transformer.transformer"])
