"""The table of studies. A new one is a file in this folder and an entry here. Imports no torch."""

from __future__ import annotations

from regard.errors import ConfigError
from regard.studies.study import Study

__all__ = ["STUDIES", "find_study"]

# In the order of the page docs/studies.md: from a single lookup to whole models.
_ALL = (
    Study(
        name="dictionary",
        claim="Attention is a soft dictionary lookup: with the temperature going to 0 it answers as a dict does, and "
        "the order of the pairs does not matter.",
        source="Vaswani et al. 2017, §3.2 and Eq. 1",
        seconds=3,
    ),
    Study(
        name="saturation",
        claim="q·k has variance d_k, so without the scale 1/√d_k the softmax saturates as d_k grows and passes hardly "
        "any gradient; with it, none of that depends on d_k.",
        source="Vaswani et al. 2017, §3.2.1 and footnote 4",
        seconds=8,
    ),
    Study(
        name="dimension",
        claim="With wider keys a learned lookup by the unscaled product gets worse; scaled by 1/√d_k, or with an "
        "additive score, it does not.",
        source="Vaswani et al. 2017, §3.2.1; Britz et al. 2017, §4.4",
        seconds=40,
    ),
    Study(
        name="positions",
        claim="Without positions a self-attention encoder is blind to order (permuted words give permuted states); "
        "with sinusoids PE(p + k) is one linear function of PE(p) for all p.",
        source="Vaswani et al. 2017, §3.5",
        seconds=3,
    ),
    Study(
        name="gradients",
        claim="Over τ steps back the gradients of recurrent cells vanish or explode as ρ^τ; gates keep them alive, if "
        "they start open.",
        source="Pascanu et al. 2013, §2.1; Hochreiter & Schmidhuber 1997; Jozefowicz et al. 2015",
        seconds=3,
    ),
    Study(
        name="layers",
        claim="A layer costs n²·d (self-attention), n·d² (recurrent), k·n·d² (convolutional) or r·n·d (restricted); "
        "only the recurrent one takes n steps; the longest path is 1, n, n/k and n/r.",
        source="Vaswani et al. 2017, §4 and Table 1",
        seconds=15,
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


def find_study(name: str) -> Study:
    """The study of that name. Raises ConfigError with the names there are."""
    if name not in STUDIES:
        raise ConfigError(
            f"no study is called {name!r}", why=f"there are {', '.join(STUDIES)}", help="regard study list"
        )
    return STUDIES[name]
