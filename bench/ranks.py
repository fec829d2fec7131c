"""What is promised of training on several processes, shown on this machine with gloo: minutes, and a line a promise.

    scripts/ranks [bits] [namespaces] [changes] [agreement] [evaluation] [death] [partition] [disk] [kills] [overhead]

bits         one sha256 of the weights after N updates by 1, 2 and 4 processes, translation and language model
namespaces   the same by two processes in two network namespaces (needs root)
changes      the same by a run that goes from 4 ranks to 2, 1 and 4, interrupted by SIGTERM
agreement    ddp and fsdp2 on two ranks beside one process: weights after an update, losses after 200
evaluation   the same figures by 1, 2 and 3 ranks
death        a rank killed with -9: when and with what words the others end
partition    a cable drawn between two namespaces: the same
disk         a full disk where rank 0 writes: the same; what was saved before is whole
kills        torchrun --max-restarts and kills of random ranks: the same end as undisturbed
overhead     seconds an update of each strategy and number of processes, at equal work

Data are generated: sentences of numbers and their reversal. Exit code 1 where a promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import median

from environments import ROOT
from machine import machine

from regard.core.tensors import digest
from regard.runs import checkpoint

STEPS = 24
SMALL = {
    "layers": 2, "width": 64, "heads": 4, "feed_forward": 128, "dropout": 0.1,
}  # fmt: skip
TRAIN = {"minutes": "", "shards": 4, "threads": 1, "precision": "float32", "validate_every": 10, "save_every": 5}
KINDS = ("translation", "language-model")
NAMESPACES = (("regard-0", "10.99.7.1"), ("regard-1", "10.99.7.2"))
failures: list[str] = []


def show(promise: str, kept: bool, told: str) -> None:
    """Print a promise, whether it is kept, and what was found."""
    print(f"{'kept    ' if kept else 'NOT KEPT'}  {promise}: {told}", flush=True)
    if not kept:
        failures.append(promise)


def write_data(folder: Path) -> None:
    """Sentences of numbers and the same backwards, as files of both sides and as one text."""
    draw = random.Random(1)
    lines = [[str(draw.randint(10, 99)) for _ in range(draw.randint(3, 12))] for _ in range(2_000)]
    (folder / "a.txt").write_text("".join(" ".join(line) + "\n" for line in lines))
    (folder / "b.txt").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))


def arguments(kind: str, name: str, **train: object) -> list[str]:
    """The command after ``regard train``."""
    files = ["a.txt", "b.txt"] if kind == "translation" else ["a.txt"]
    settings: dict[str, object] = {f"model.{key}": value for key, value in SMALL.items()}
    chosen = {"batch_tokens": 1024, **TRAIN, "steps": STEPS, **train}
    if chosen.get("strategy", "canonical") != "canonical":
        del chosen["shards"]  # one a rank
    settings.update({f"train.{key}": value for key, value in chosen.items()})
    return [*files, "--name", name, *(part for key, value in settings.items() for part in ("--set", f"{key}={value}"))]


def torchrun(ranks: int, *verb: str, restarts: int = 0) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
        "--max-restarts", str(restarts), "-m", "regard", *verb,
    ]  # fmt: skip


class Lab:
    """A folder with data and runs, and the processes that work there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_data(folder)

    def start(self, command: Sequence[str], place: Mapping[str, str] = {}, log: str = "log") -> subprocess.Popen[bytes]:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | place
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def run(self, command: Sequence[str], log: str = "log") -> str:
        """Run to the end and return what was printed; ends the program where that fails."""
        code = self.start(command, log=log).wait()
        printed = self.log(log)
        if code:
            sys.exit(f"{' '.join(command)} ended with {code}:\n{printed}")
        return printed

    def train(self, kind: str, ranks: int, name: str, **train: object) -> str:
        """Train by torchrun; the sha256 of the weights."""
        self.run(torchrun(ranks, "train", *arguments(kind, name, **train)))
        return self.weights(name)

    def weights(self, name: str) -> str:
        found = checkpoint.load_latest(self.folder / "runs" / name / "checkpoints", print)
        assert found is not None
        return digest({"model": found.groups["model"]})

    def apart(self, one: str, other: str) -> float:
        """The greatest difference of a weight between two runs."""
        found = [checkpoint.load_latest(self.folder / "runs" / name / "checkpoints", print) for name in (one, other)]
        first, second = (each.groups["model"] for each in found if each is not None)
        return max(float((first[name] - second[name]).abs().max()) for name in first)

    def losses(self, name: str) -> list[float]:
        lines = (self.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [record["loss"] for record in map(json.loads, lines) if "loss" in record]

    def updates(self, name: str) -> int:
        metrics = self.folder / "runs" / name / "metrics.jsonl"
        return metrics.read_bytes().count(b'"nll"') if metrics.exists() else 0

    def wait_for(self, name: str, updates: int, process: subprocess.Popen[bytes]) -> bool:
        """Wait until so many updates are done; whether the process still runs."""
        while process.poll() is None and self.updates(name) < updates:
            time.sleep(0.02)
        return process.poll() is None

    def log(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")

    def pair(
        self, kind: str, name: str, timeout: int, spaces: bool = False, **train: object
    ) -> list[subprocess.Popen[bytes]]:
        """Two ranks without torchrun, whose ends can be timed; in two network namespaces where asked for."""
        found = []
        for rank in (0, 1):
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
            place["MASTER_PORT"] = "29611"
            inside: list[str] = []
            if spaces:
                inside = ["ip", "netns", "exec", NAMESPACES[rank][0]]
                place |= {"MASTER_ADDR": NAMESPACES[0][1], "GLOO_SOCKET_IFNAME": f"cable{rank}"}
            command = [sys.executable, "-m", "regard", "train", *arguments(kind, name, **train)]
            found.append(self.start([*inside, *command, "--rank-timeout", str(timeout)], place, f"rank-{rank}"))
        return found

    def said(self, rank: int) -> str:
        """The error that a rank printed, in one line."""
        lines = self.log(f"rank-{rank}").splitlines()
        begin = next((at for at, line in enumerate(lines) if line.startswith("error")), None)
        return "no error" if begin is None else " / ".join(line.strip() for line in lines[begin:])[:300]


def bits(lab: Lab) -> None:
    for kind in KINDS:
        found = {ranks: lab.train(kind, ranks, f"bits-{kind}-{ranks}") for ranks in (1, 2, 4)}
        told = ", ".join(f"{ranks}: {value[:12]}" for ranks, value in found.items())
        show(f"{kind}, weights after {STEPS} updates by 1, 2 and 4 processes", len(set(found.values())) == 1, told)


@contextmanager
def two_namespaces() -> Iterator[None]:
    """Two network namespaces that a cable joins."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for name, _ in NAMESPACES:
            ip("netns", "add", name)
        ip("link", "add", "cable0", "netns", NAMESPACES[0][0], "type", "veth", "peer", "name", "cable1",
           "netns", NAMESPACES[1][0])  # fmt: skip
        for at, (name, address) in enumerate(NAMESPACES):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"cable{at}")
            ip("-n", name, "link", "set", f"cable{at}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name, _ in NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def namespaces(lab: Lab) -> None:
    for kind in KINDS:
        whole = lab.train(kind, 1, f"alone-{kind}")
        with two_namespaces():
            codes = [process.wait() for process in lab.pair(kind, f"spaces-{kind}", 60, spaces=True)]
        if any(codes):
            sys.exit(lab.log("rank-0") + lab.log("rank-1"))
        found = lab.weights(f"spaces-{kind}")
        show(f"{kind}, by two network namespaces", found == whole, f"{found[:12]}, alone {whole[:12]}")


def changes(lab: Lab) -> None:
    for kind in KINDS:
        whole, name, passed = lab.train(kind, 1, f"whole-{kind}"), f"changes-{kind}", []
        for ranks, until in ((4, 6), (2, 12), (1, 18), (4, None)):
            process = lab.start(torchrun(ranks, "train", *arguments(kind, name)))
            if until is not None and lab.wait_for(name, until, process):
                process.send_signal(signal.SIGTERM)
            process.wait()
            passed.append(f"{ranks} to update {lab.updates(name)}")
        found = lab.weights(name)
        show(
            f"{kind}, ranks changed between resumes",
            found == whole,
            f"{', '.join(passed)}: {found[:12]}, alone {whole[:12]}",
        )


FORMS: dict[str, dict[str, object]] = {
    "ddp": {"strategy": "ddp"},
    "fsdp2": {"strategy": "fsdp2"},
    "fsdp2, accumulated": {"strategy": "fsdp2", "accumulate": 2},
}


def agreement(lab: Lab) -> None:
    """Two shards in one process draw as two ranks do, so that only rounding differs.

    The promise is of an update by SGD, whose step is the gradient: Adam's first is nearly its sign, in which the
    rounding of a gradient near zero shows as a step of the whole rate.
    """
    for form, kind in product(FORMS, KINDS):
        name = f"{form} on 2 ranks, {kind}"
        apart = lab.apart(*_beside(lab, form, kind, steps=1, optimizer="sgd", learning_rate=1.0))
        show(f"{name}, weights after an update by SGD", apart <= 1e-6, f"at most {apart:.1e} from one process")
        apart = lab.apart(*_beside(lab, form, kind, steps=1))
        print(f"          by Adam at most {apart:.1e}", flush=True)
    for form in FORMS:
        curves = [lab.losses(run) for run in _beside(lab, form, KINDS[0], steps=200)]
        last = max(abs(one - other) for one, other in zip(*(curve[-50:] for curve in curves), strict=True))
        show(
            f"{form} on 2 ranks, loss of updates 151 to 200",
            last < 0.05,
            f"at most {last:.1e} nats from one process, which goes from {curves[0][0]:.2f} to {curves[0][-1]:.2f}",
        )


def _beside(lab: Lab, form: str, kind: str, **train: object) -> list[str]:
    """Train by one process and by two ranks of that form; the names of both runs."""
    alone = {key: value for key, value in FORMS[form].items() if key != "strategy"}
    settings = {"shards": 2, "warmup": 0, "save_every": 1000, **train}
    names = [f"{form.replace(', ', '-')}-{kind}-{ranks}-{'-'.join(map(str, train.values()))}" for ranks in (1, 2)]
    for ranks, name, given in zip((1, 2), names, (alone, FORMS[form]), strict=True):
        lab.train(kind, ranks, name, **settings, **given)
    return names


def evaluation(lab: Lab) -> None:
    lab.train("language-model", 1, "evaluated")
    lab.train("translation", 1, "translating")
    for name, files in (("evaluated", ["b.txt"]), ("translating", ["a.txt", "b.txt"])):
        found: list[dict[str, object]] = []
        for ranks in (1, 2, 3):
            printed = lab.run(torchrun(ranks, "evaluate", f"runs/{name}", *files, "--json"))
            result = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
            figures = result.get("figures") or {key: value["value"] for key, value in result["scores"].items()}
            found.append(
                {key: round(value, 6) for key, value in figures.items()}
                | {"examples": result.get("examples", result.get("lines"))}
            )
        show(f"{name}, figures of 1, 2 and 3 ranks", all(each == found[0] for each in found), str(found[0]))


def death(lab: Lab) -> None:
    for victim in (0, 1):
        name = f"death-{victim}"
        ranks = lab.pair("translation", name, 60, steps=100_000)
        lab.wait_for(name, 12, ranks[0])
        ranks[victim].kill()
        began = time.monotonic()
        code = ranks[1 - victim].wait()
        seconds, said = time.monotonic() - began, lab.said(1 - victim)
        whole = checkpoint.load_latest(lab.folder / "runs" / name / "checkpoints", print) is not None
        show(
            f"rank {victim} killed with -9",
            code == 5 and seconds < 10 and whole,
            f"the other ends after {seconds:.1f} s with {code}: {said}",
        )


def partition(lab: Lab) -> None:
    timeout = 10
    with two_namespaces():
        ranks = lab.pair("translation", "partition", timeout, spaces=True, steps=100_000)
        lab.wait_for("partition", 12, ranks[0])
        subprocess.run(["ip", "-n", NAMESPACES[0][0], "link", "set", "cable0", "down"], check=True)
        began = time.monotonic()
        for rank, process in enumerate(ranks):
            try:
                code: int | None = process.wait(6 * timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
            seconds = time.monotonic() - began
            show(
                f"cable drawn, rank {rank}",
                code == 5 and seconds < 3 * timeout,
                f"ends after {seconds:.1f} s with {code} at --rank-timeout {timeout}: {lab.said(rank)}",
            )
    whole = checkpoint.load_latest(lab.folder / "runs" / "partition" / "checkpoints", print)
    show("cable drawn, the newest checkpoint", whole is not None, f"step {whole.step if whole else None} is whole")


def disk(lab: Lab) -> None:
    runs = lab.folder / "runs" / "disk"
    runs.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(runs)], check=True)
    try:
        began = time.monotonic()
        codes = [process.wait() for process in lab.pair("translation", "disk", 60, steps=400, keep=20)]
        told = " | ".join(f"rank {rank} {code}: {lab.said(rank)}" for rank, code in enumerate(codes))
        steps = checkpoint.list_steps(runs / "checkpoints")
        for step in steps:
            checkpoint.load(checkpoint.step_path(runs / "checkpoints", step))
        show(
            "a full disk",
            codes == [6, 5] and bool(steps),
            f"after {time.monotonic() - began:.0f} s, {len(steps)} checkpoints, all whole; {told}",
        )
    finally:
        subprocess.run(["umount", str(runs)], check=True)


def kills(lab: Lab, number: int = 20) -> None:
    steps = 40 * number
    draw, name = random.Random(2), "kills"
    whole = lab.train("translation", 1, "unkilled", steps=steps)
    process, done = (
        lab.start(torchrun(2, "train", *arguments("translation", name, steps=steps), restarts=3 * number)),
        0,
    )
    began = time.monotonic()
    while done < number and process.poll() is None:
        before = lab.updates(name)
        time.sleep(draw.uniform(0.1, 1.0))
        if lab.updates(name) > before and (victims := _children(process.pid)):
            os.kill(draw.choice(victims), signal.SIGKILL)
            done += 1
            time.sleep(1)  # torchrun looks after its workers ten times a second
    code = process.wait()
    found = lab.weights(name)
    show(
        f"{done} random kills with -9 in {time.monotonic() - began:.0f} s",
        code == 0 and found == whole and done == number,
        f"torchrun ends with {code}; {found[:12]}, undisturbed {whole[:12]}",
    )


def _children(parent: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def overhead(lab: Lab) -> None:
    """Seconds an update at equal work: all processes share the cores, so more of them can only cost."""
    print(f"{machine()['processor']}, {os.cpu_count()} cores")
    for strategy in ("canonical", "ddp", "fsdp2"):
        for ranks in (1, 2, 4):
            if ranks == 1 and strategy != "canonical":
                continue
            name = f"overhead-{strategy}-{ranks}"
            lab.run(
                torchrun(
                    ranks,
                    "train",
                    *arguments(
                        "translation",
                        name,
                        strategy=strategy,
                        steps=60,
                        validate_every=1000,
                        save_every=1000,
                        batch_tokens=8192,
                    ),
                )
            )
            records = [
                json.loads(line) for line in (lab.folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
            ]
            seconds = [record["seconds"] for record in records if "seconds" in record][5:]
            print(f"{strategy:10} {ranks} ranks  {1000 * median(seconds):7.1f} ms an update", flush=True)


PARTS: dict[str, Callable[[Lab], None]] = {
    each.__name__: each
    for each in (bits, namespaces, changes, agreement, evaluation, death, partition, disk, kills, overhead)
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", default=list(PARTS))
    given = parser.parse_args().parts
    if unknown := set(given) - PARTS.keys():
        parser.error(f"there is no part {unknown.pop()}; they are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        for part in given:
            (place := Path(folder) / part).mkdir()
            PARTS[part](Lab(place))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
