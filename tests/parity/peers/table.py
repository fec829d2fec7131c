"""Prints how far ours and each peer are apart, as docs/evidence/parity.md has it: python -m tests.parity.peers.table"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import torch
from torch import nn

from regard.attention.contract import Mechanism
from regard.attention.heads import AttentionReader
from regard.attention.positions.distance_bias import EnergyBias
from regard.attention.positions.rotary import Rotary

from .. import (
    test_peers_compressive,
    test_peers_espnet,
    test_peers_keras,
    test_peers_long,
    test_peers_opennmt,
    test_peers_pyg,
    test_peers_reformer,
    test_peers_transformers,
)
from .asking import Case, Peer, compared, ways

PEERS: tuple[tuple[str, Peer], ...] = (
    ("espnet", test_peers_espnet.PEER),
    ("OpenNMT-py", test_peers_opennmt.PEER),
    ("keras", test_peers_keras.PEER),
    ("torch-geometric", test_peers_pyg.PEER),
    ("reformer-pytorch", test_peers_reformer.PEER),
    ("compressive-transformer-pytorch", test_peers_compressive.PEER),
    ("transformers", test_peers_transformers.TRANSFORMERS),
    ("transformers", test_peers_long.PEER),
    ("x-transformers", test_peers_transformers.X_TRANSFORMERS),
)
COLUMNS = [(dtype, what) for dtype in (torch.float32, torch.float64) for what in ("output", "gradient")]


def versions() -> dict[str, str]:
    lines = (Path(__file__).parent / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def ours(case: Case) -> str:
    """The classes that stand for the peer's; a reader is known by its mechanism."""
    whole: nn.Module = case.ours()
    within = [part for part in whole.modules() if isinstance(part, Mechanism | EnergyBias | Rotary)]
    named = {type(part) for part in within} - {type(whole)}
    if type(whole) is not AttentionReader and not type(whole).__module__.startswith("tests."):
        named.add(type(whole))
    return ", ".join(f"`{kind.__name__}`" for kind in sorted(named, key=lambda kind: kind.__name__))


def row(name: str, peer: Peer, case: Case) -> str:
    found: dict[tuple[torch.dtype, str], float] = defaultdict(float)
    for mine, dtype, way in (parameter.values for parameter in ways(peer)):
        if mine is case:
            for what, one, other in compared(peer, case, dtype, way):
                key = dtype, what.split()[0]
                one, other = one.detach().double(), other.double()
                apart = (one - other).abs().max() / other.abs().max().clamp_min(1)
                found[key] = max(found[key], float(apart))
    cells = [_short(found[column]) if column in found else "–" for column in COLUMNS]
    return f"| {name} | {case.name} | {ours(case)} | " + " | ".join(cells) + " |"


def _short(difference: float) -> str:
    return f"{difference:.0e}" if difference else "0"


def main() -> None:
    lines = [
        "| peer | class | ours | float32 | its gradient | float64 | its gradient |",
        "|---|---|---|---|---|---|---|",
    ]
    known = versions()
    for name, peer in PEERS:
        lines += [row(f"{name} {known[name]}", peer, case) for case in peer.cases]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
