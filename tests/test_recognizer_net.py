"""Networks from frames to tokens: the joint loss, CTC alone, and decoding from frames with every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.config.settings import SearchConfig
from regard.errors import RegardError
from regard.inference.decoding import Decoding, Engine, max_lengths, native_obstacle
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput
from regard.models.build import build_recognizer
from regard.models.speech_config import SpeechModelConfig
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder

CHANNELS, TYPES = 3, 9
SMALL: dict[str, Any] = {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.0}


def network(**keys: Any) -> Any:
    torch.manual_seed(0)
    model = {**SMALL, "encoder": {"input": {"subsample": 2}}, **keys}
    return build_recognizer(SpeechModelConfig(**model), channels=CHANNELS, target_types=TYPES).eval()


def batch() -> tuple[Tensor, Span, Tensor, Span]:
    torch.manual_seed(1)
    valid = torch.arange(12) < torch.tensor([12, 8])[:, None]
    target_valid = torch.arange(4) < torch.tensor([4, 3])[:, None]
    return torch.randn(2, 12, CHANNELS), Span.of(valid), torch.randint(4, TYPES, (2, 4)), Span.of(target_valid)


def test_the_joint_loss_is_weighted_and_ctc_reads_no_end() -> None:
    net = network(ctc=0.3)
    source, span, target, target_span = batch()
    loss = net.loss(source, span, target, target_span, target, smoothing=0.0)
    ctc = net.ctc.loss(net.encoder(source, span), target, torch.tensor([3, 2]))
    torch.testing.assert_close(loss.ctc, ctc)
    torch.testing.assert_close(loss.smoothed, 0.7 * loss.nll + 0.3 * ctc)
    assert network(ctc=0).loss(source, span, target, target_span, target, smoothing=0.0).ctc is None


def test_ctc_alone_has_no_decoder() -> None:
    net = network(decoder="none")
    source, span, target, target_span = batch()
    loss = net.loss(source, span, target, target_span, target, smoothing=0.1)
    ctc = net.ctc.loss(net.encoder(source, span), target, torch.tensor([3, 2]))
    torch.testing.assert_close(loss.smoothed, ctc)
    assert not hasattr(net, "decoder")


class Frames:
    """Sources of frames whose outputs have up to 6 tokens."""

    def pad(self, sources: Any, ended: Any) -> tuple[Tensor, Tensor]:
        valid = torch.nn.utils.rnn.pad_sequence([torch.ones(len(x), dtype=torch.bool) for x in sources], True)
        return torch.nn.utils.rnn.pad_sequence(list(sources), True), valid

    def limits(self, sources: Any, settings: SearchConfig) -> list[int]:
        return [6] * len(sources)


@pytest.mark.parametrize("engine", ["float32", "torch"])
@pytest.mark.parametrize("beam", [1, 3])
def test_every_engine_decodes_frames_as_the_network_does(engine: Engine, beam: int) -> None:
    net = network()
    if engine == "float32" and native_obstacle(net) is not None:
        pytest.skip("the kernels are missing")
    sources, settings = [torch.randn(length, CHANNELS) for length in (12, 7, 9)], SearchConfig(beam=beam)

    def outputs(engine: Engine) -> dict[int, list[int]]:
        decoding = Decoding(net, engine, Frames())
        inputs = list(enumerate(map(SearchInput, sources)))
        return {
            number: best.tokens
            for done in run_search(decoding, inputs, settings, rows=2)
            for number, (best, *_) in done
        }  # fmt: skip

    assert outputs(engine) == outputs("reference")


def test_the_limit_of_an_output_comes_from_its_source() -> None:
    inputs = [SearchInput(torch.randn(3, CHANNELS))]
    assert max_lengths(Frames(), inputs, SearchConfig(), None).tolist() == [6]
    assert max_lengths(Frames(), inputs, SearchConfig(max_length=4), None).tolist() == [4]
    assert max_lengths(Frames(), inputs, SearchConfig(), 2).tolist() == [2]


@pytest.mark.parametrize(
    ("keys", "message"), [({"share": "all"}, "no embeddings"), ({"copying": True}, "repeat frames")]
)
def test_impossible_configs_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises((RegardError, ValueError), match=message):
        SpeechModelConfig(**SMALL, **keys)


def test_a_saved_run_without_ctc_is_opened(tmp_path: Path) -> None:
    def config(**search: float) -> Any:
        data = {"train": [{"source": "a.jsonl"}]}
        return load_config({"task": {"kind": "recognition"}, "data": data, "model": {"ctc": 0}, "search": search})

    assert RunFolder.open(RunFolder.create(tmp_path / "run", config()).path).config.model.ctc == 0
    with pytest.raises(RegardError, match=r"search\.ctc_weight and model\.ctc"):
        config(ctc_weight=0.5)
