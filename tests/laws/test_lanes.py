"""Language models that carry their memory: every law of tasks, over documents and over one stream, and the lanes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.contract import Mixed
from regard.core.state import leaves, rebuilt
from regard.core.task import ExampleIndices, Task, find_task
from regard.data.lanes import LaneExamples
from regard.errors import ConfigError, ModelError
from regard.runs.config import load_config
from regard.tasks.evaluation import evaluate_run
from regard.tasks.language_model.objective import batch_span
from regard.tasks.load import load_net
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.testing.task_case import trained
from regard.training.carry import continued, detach_carry
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.trainer import Trainer

LINES = ["the hare and the tortoise", "a fox", "three bears sat down to eat", "once upon a time", "rain in may", "no"]
XL = {"kind": "segment-memory", "segment": 4, "memory": 6}
MIXERS = {
    "documents": XL,
    "stream": {"kind": "compressive", "segment": 4, "memory": 4, "compressed": 2, "rate": 2},
    "most-used": {"kind": "compressive", "segment": 4, "memory": 4, "compressed": 2, "rate": 2,
                  "compression": "most-used"},
    "recurrent": "ssru",
}  # fmt: skip


def of(name: str, **data: object) -> Task:
    """The language model in lanes, small."""
    task = find_task("language-model")

    def sample(folder: Path) -> Any:
        tables = dict(task.sample(folder))
        (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
        text: dict[str, object] = {part: [{"source": str(folder / "lines.txt")}] for part in ("train", "valid")}
        text |= {"documents": "stream" if name == "stream" else "line", "order": "lanes", "context": 4} | data
        model = tables["model"] | {"mixer": MIXERS[name], "position": "none"}
        return tables | {"data": text, "model": model, "train": {"batch_tokens": 12}}

    return replace(task, sample=sample)


CASES: dict[str, TaskCase] = {}


def made(name: str) -> TaskCase:
    return CASES.setdefault(name, TaskCase(of(name), "language-model"))


@pytest.fixture(scope="module", params=["documents", "stream"])
def case(request: pytest.FixtureRequest) -> TaskCase:
    return made(request.param)


# Of the others what memory may break; evaluation reads a stream in other pieces than training does.
CARRYING = ("lanes_carry_on_their_own", "the_number_of_workers_changes_no_bit")
OF_ORDER = (
    *CARRYING, "an_epoch_is_a_function_of_its_number", "visits_count_uses", "terms_add_over_dealing",
    "interrupted_and_resumed_is_as_if_never_stopped", "the_number_of_ranks_changes_no_bit",
)  # fmt: skip
HELD = {"documents": [law.name for law in TASK_LAWS], "stream": OF_ORDER, "most-used": CARRYING, "recurrent": CARRYING}


@pytest.mark.parametrize(
    ("name", "law"), [(name, law) for name in HELD for law in TASK_LAWS if law.name in HELD[name]],
    ids=lambda part: getattr(part, "name", part),
)  # fmt: skip
def test_task(name: str, law: Any) -> None:
    assert isinstance(made(name).data.train, LaneExamples)
    law.check(made(name), Draw(random.Random(1)))


def lanes(case: TaskCase, epoch: int | None) -> list[list[int]]:
    """The examples of each lane, one after the other."""
    plan = case.data.train.batches(epoch)
    return [[int(batch.index[lane]) for batch in plan if lane < len(batch.index)] for lane in range(len(plan[0].index))]


def test_a_lane_reads_documents_from_beginning_to_end(case: TaskCase) -> None:
    """Every token of every document is a target once an epoch; a segment goes on where the one before it ended."""
    train = case.data.train
    for epoch in (0, 1, None):
        texts, sizes = [], [len(batch.index) for batch in train.batches(epoch)]
        assert sizes == sorted(sizes, reverse=True), "the last lanes end first"
        for lane in lanes(case, epoch):
            for at, index in enumerate(lane):
                batch = train.collate(ExampleIndices(np.array([index]), np.array([0])))
                assert bool(batch.fresh[0]) or lane[at - 1] == index - 1, "a lane leaps"
                tokens = batch.target[0][batch.valid[0]].tolist()
                texts = [*texts, tokens] if bool(batch.fresh[0]) else [*texts[:-1], texts[-1] + tokens]
        stream = train.streams[0]
        if hasattr(stream, "offsets"):
            ends = zip(stream.offsets[:-1].tolist(), stream.offsets[1:].tolist(), strict=True)
            assert sorted(texts) == sorted(stream.tokens[begin + 1 : end].tolist() for begin, end in ends)
        else:
            assert len(texts) == (1 if epoch is None else train.lanes)
            assert sorted(token for text in texts for token in text) == sorted(stream.tokens[1:].tolist())


@pytest.mark.parametrize("name", ["documents", "stream"])
def test_evaluation_carries_the_memory_over_a_whole_document(name: str) -> None:
    """Its loss is that of each document in one pass."""
    case = made(name)
    net, objective = case.net(), case.task.objective(case.config)
    valid, carry, total = case.part("valid"), (), 0.0
    counts = valid.token_counts()
    with torch.no_grad():
        for examples in valid.batches(None):
            batch = valid.collate(examples)
            assert batch.weight == counts[examples.index].sum()
            terms = objective(net, batch, continued(carry, len(batch.index)))
            carry, total = detach_carry(terms.carry, len(batch.index)), total + float(terms.sums["nll"])
        stream, expected = valid.streams[0], 0.0
        offsets = getattr(stream, "offsets", np.array([0, len(stream)]))
        for begin, end in itertools.pairwise(offsets.tolist()):
            tokens = torch.from_numpy(stream.tokens[begin:end].astype(np.int64))[None]
            log_p, _ = net.step(tokens[:, :-1], net.start(1))
            expected -= float(log_p.gather(-1, tokens[:, 1:, None]).sum())
    assert total == pytest.approx(expected, rel=1e-9)


def test_memory_matters_and_is_in_the_checkpoint() -> None:
    """A run that goes on without what it carried ends in other weights."""
    case = made("documents")
    _, whole = case.undisturbed
    run = case.run()
    trained(case, run, stop=3)
    assert any(run.path.rglob("*.safetensors"))
    ready = set_up(case.reopened(run), log=lambda message: None)
    trainer = Trainer(run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), interrupted=lambda: False)
    assert trainer.resume()
    assert trainer.updater.carry, "nothing was carried"
    trainer.updater.carry = {}
    trainer.fit()
    after = trainer.optimizer.weights()
    assert any(not torch.equal(weight, after[name]) for name, weight in whole.items())


def test_a_checkpoint_of_another_memory_is_refused() -> None:
    """Its carried memory is shorter than the model's."""
    case = made("documents")
    run = case.run()
    trained(case, run, stop=3)
    path = run.path / "config.toml"
    path.write_text(path.read_text().replace("memory = 6", "memory = 7"))
    with pytest.raises(ModelError) as failure:
        trained(case, case.reopened(run))
    assert "does not fit" in f"{failure.value} {failure.value.why}"


def test_what_grows_with_each_token_cannot_be_carried(tmp_path: Path) -> None:
    task = of("documents")
    tables = dict(task.sample(tmp_path))
    tables["model"] = tables["model"] | {"mixer": "dot"}
    with pytest.raises(ConfigError, match=r"'dot' does not support data\.order"):
        task.build(load_config(tables | {"task": {"kind": "language-model"}}), {"types": 9})
    with pytest.raises(ConfigError, match=r"stride"):
        load_config(dict(of("documents", stride=2).sample(tmp_path)) | {"task": {"kind": "language-model"}})


def test_losses_of_mixers_reach_what_is_minimized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summed over layers, under whatever execution; they are not in the loss that is reported."""
    case = made("stream")
    net, train = case.net(), case.data.train
    objective, batches = case.task.objective(case.config), train.batches(0)[:3]
    carry: tuple[Any, ...] = ()
    for examples in batches:
        batch = train.collate(examples)
        state = rebuilt(net.start(len(batch.input)), carry) if carry else None
        before, carry = carry, (terms := objective(net, batch, carry)).carry
    _, _, losses = net(batch.input, batch_span(batch, state), state)
    (lost,) = losses.values()
    assert float(lost.detach()) > 0
    smoothed = float(terms.minimized.detach()) - float(terms.sums["nll"])
    assert smoothed == pytest.approx(float(lost.detach()), rel=1e-9)
    for layer in net.stack:
        mixer = layer.mixer

        def with_a_loss(*given: Any, mixer: Any = mixer) -> Mixed:
            mixed = type(mixer).forward(mixer, *given)
            return mixed._replace(losses={"mine": mixed.output.sum() * 0 + 2.5})

        monkeypatch.setattr(mixer, "forward", with_a_loss)
    found = objective(net, batch, before)
    assert float(found.minimized.detach() - found.sums["nll"]) == pytest.approx(2.5 * len(list(net.stack)))


def test_a_state_of_another_shape_is_refused() -> None:
    start = made("documents").net().start(2)
    tensors = leaves(start)
    assert all(torch.equal(*pair) for pair in zip(leaves(rebuilt(start, tensors)), tensors, strict=True))
    with pytest.raises(ValueError, match="not"):
        rebuilt(start, tensors[:-1])
    with pytest.raises(ValueError, match="another model"):
        rebuilt(start, [each.float() for each in tensors])


def test_evaluation_may_remember_more_than_training() -> None:
    """Longer than the documents, it is the loss of one segment with all of the document before it in sight."""
    case = made("documents")
    run, _ = case.undisturbed
    files = [run.config.data.valid[0].source]
    short, same, longer = (evaluate_run(run, files, memory=memory).figures["loss"] for memory in (None, 6, 64))
    assert short == same != longer
    net = load_net(run.path)[0].eval()
    for layer in net.stack:
        layer.mixer.set_memory(64)
    valid, total = case.part("valid"), 0.0
    offsets = valid.streams[0].offsets.tolist()
    for begin, end in itertools.pairwise(offsets):
        tokens = torch.from_numpy(valid.streams[0].tokens[begin:end].astype(np.int64))[None]
        with torch.no_grad():
            log_p, _ = net.step(tokens[:, :-1], net.start(1))
        total -= float(log_p.gather(-1, tokens[:, 1:, None]).sum())
    assert longer == pytest.approx(total / (offsets[-1] - len(offsets) + 1), rel=1e-5)
    with pytest.raises(ConfigError, match="`memory` cannot be 3"):
        evaluate_run(made("stream").undisturbed[0], files, memory=3)
    with pytest.raises(ConfigError, match="does not apply to this model"):
        evaluate_run(made("recurrent").undisturbed[0], files, memory=3)


def test_scores_and_texts_go_on_beyond_the_context() -> None:
    """A score is of one pass over the whole text; generation of what was generated before, read as it was."""
    case = made("documents")
    generator = case.predictor
    assert generator.carried
    text = "the hare and the tortoise and three bears"
    tokens = torch.tensor([generator.tokens(text)])
    with torch.no_grad():
        log_p, _ = generator.model.step(tokens[:, :-1], generator.model.start(1))
        expected = log_p.gather(-1, tokens[:, 1:, None])[0, :, 0].tolist()
    assert generator.score(text).piece_log_probabilities == pytest.approx(expected, abs=1e-5)
    told = generator.score(" bears", prompt="the hare and the tortoise and three")
    assert told.piece_log_probabilities == pytest.approx(expected[-6:], abs=1e-5)
    found = generator("the hare", length=30, greedy=True)
    if found.text:
        again = generator.score(found.text, prompt="the hare")
        assert -again.nll >= found.log_probability - 1e-3
