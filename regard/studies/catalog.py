"""Table of studies: each is a file in this folder and an entry here. Imports no torch."""

from __future__ import annotations

from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.studies.study import Study

# In the order of the page docs/evidence/studies.md: from a single lookup to whole models.
_ALL = (
    Study(
        name="dictionary",
        claim="Attention is a soft dictionary lookup. At temperatures near 0 it returns the value that a dict "
        "returns, and the order of the pairs does not matter.",
        source="Vaswani et al. 2017, §3.2 and Eq. 1",
        seconds=0,
        check=True,
    ),
    Study(
        name="saturation",
        claim="q·k has variance d_k. Without the scale 1/√d_k, the softmax therefore saturates as d_k grows, and its "
        "gradients vanish. With the scale, neither depends on d_k.",
        source="Vaswani et al. 2017, §3.2.1 and footnote 4",
        seconds=11,
        check=True,
    ),
    Study(
        name="dimension",
        claim="A learned lookup by the unscaled dot product becomes less accurate with wider keys. Scaled by 1/√d_k, "
        "or with an additive score, it does not.",
        source="Vaswani et al. 2017, §3.2.1; Britz et al. 2017, §4.4",
        seconds=82,
    ),
    Study(
        name="lookup",
        claim="The attention of GAT ranks the keys equally for all queries, so it cannot look up a key that depends "
        "on the query. GATv2 can.",
        source="Brody et al. 2022, Theorems 1 and 2, and §4.1",
        seconds=173,
    ),
    Study(
        name="oversmoothing",
        claim="Each graph convolution makes the nodes more similar, by the second eigenvalue of the normalized "
        "adjacency. A deep network of them can only distinguish nodes with skip connections.",
        source="Li et al. 2018, Theorem 1; Oono & Suzuki 2020, Theorem 1",
        seconds=36,
    ),
    Study(
        name="positions",
        claim="A self-attention encoder without positions ignores order: permuted words have permuted states. With "
        "sinusoids, PE(p + k) is one linear function of PE(p) for all p.",
        source="Vaswani et al. 2017, §3.5",
        seconds=1,
        check=True,
    ),
    Study(
        name="gradients",
        claim="The gradients of recurrent cells vanish or explode as ρ^τ over τ steps. Gates preserve them if they "
        "start open.",
        source="Pascanu et al. 2013, §2.1; Hochreiter & Schmidhuber 1997; Jozefowicz et al. 2015",
        seconds=1,
    ),
    Study(
        name="layers",
        claim="A layer costs n²·d (self-attention), n·d² (recurrent), k·n·d² (convolutional) or r·n·d (restricted). "
        "Only the recurrent one takes n steps. The longest path is 1, n, n/k and n/r.",
        source="Vaswani et al. 2017, §4 and Table 1",
        seconds=26,
        check=True,
    ),
    Study(
        name="normalization",
        claim="LayerNorm gives each position mean 0 and variance 1 at any scale of the weights, independent of other "
        "positions, and shortens training. With BatchNorm, a state depends on other sentences and on padding.",
        source="Ba et al. 2016, §3, §5 and Table 1",
        seconds=199,
    ),
    Study(
        name="warmup",
        claim="At a high learning rate, a deep post-LN Transformer (norms after the residual sums) stays at chance "
        "without a warm-up. A pre-LN Transformer (norms before the sub-layers) learns with and without it.",
        source="Xiong et al. 2020, §3 and §4; Vaswani et al. 2017, §5.3",
        seconds=140,
    ),
    Study(
        name="length",
        claim="A recurrent model with one vector for the whole source becomes worse with longer sentences. With "
        "attention it does not.",
        source="Bahdanau et al. 2015, §5.1 and Fig. 2; Cho et al. 2014",
        seconds=50,
    ),
    Study(
        name="convergence",
        claim="A Transformer reaches the same loss in less time than recurrent models with attention.",
        source="Vaswani et al. 2017, §1 and §6.1",
        seconds=36,
    ),
    Study(
        name="heads",
        claim="At equal width, several heads have the cost of one head, and they can attend to several positions "
        "where one head averages.",
        source="Vaswani et al. 2017, §3.2.2 and Table 3, rows A",
        seconds=37,
    ),
    Study(
        name="alignment",
        claim="Attention by content alone loses alignment in sentences that are longer than those of the training. "
        "If its score also depends on its last weights, and is sharpened, it stays aligned at five times their "
        "length.",
        source="Chorowski et al. 2015, §2.2, §2.3 and §4",
        seconds=57,
    ),
    Study(
        name="memory",
        claim="Three models attend to equally many positions. One that remembers earlier segments recalls values "
        "that windows cannot. One that also compresses its oldest memory recalls even older values.",
        source="Dai et al. 2019, §3.2; Rae et al. 2019, §3",
        seconds=1788,
    ),
    Study(
        name="senses",
        claim="A word has one embedding for all of its senses. An encoder's states of the word in sentences "
        "distinguish them.",
        source="Peters et al. 2018, §5.3; Tang et al. 2018",
        seconds=8,
    ),
    Study(
        name="pronoun",
        claim="The choice between es and sie depends on the noun that is meant. Some head of the encoder or the "
        "decoder attends to that noun, and without it the right pronoun becomes less probable.",
        source="Vaswani et al. 2017, appendix; Uszkoreit 2017",
        seconds=39,
    ),
    Study(
        name="global-local",
        claim="With one global position, any two positions are connected within two layers at any window size, and a "
        "distant symbol can be found through it. The cost grows with the radius, not with the length.",
        source="Ainslie et al. 2020, §2; Beltagy et al. 2020, §3",
        seconds=706,
    ),
    Study(
        name="long-costs",
        claim="The time of full attention grows with the square of the length. Windows with sinks, global-local "
        "attention, linear attention and recurrences take time and memory proportional to the length.",
        source="Katharopoulos et al. 2020, §3; Beltagy et al. 2020, Fig. 1; Ainslie et al. 2020, §2",
        seconds=197,
    ),
    Study(
        name="hashes",
        claim="The closer two vectors are, the more often random rotations hash them into one bucket. On copying, "
        "hashed attention is as good as full attention, and better with more rounds in evaluation.",
        source="Kitaev et al. 2020, §2, §4 and Table 2",
        seconds=184,
    ),
    Study(
        name="reversible",
        claim="The memory that reversible layers keep for the backward pass does not grow with their number, and "
        "their gradients equal those of automatic differentiation.",
        source="Gomez et al. 2017; Kitaev et al. 2020, §3 and Table 3",
        seconds=18,
        check=True,
    ),
    Study(
        name="modern",
        claim="After equally many updates, a small language model has a lower loss with Muon than with AdamW, "
        "each at the best of three rates. It also has a lower loss with newer parts: rotary positions, QK-norm, "
        "squared ReLU, zero-initialized outputs and a residual from the embedding. Both together are better than "
        "either.",
        source="Jordan et al. 2024; Su et al. 2021; Henry et al. 2020; So et al. 2021; Zhang et al. 2019",
        seconds=2595,
        needs_text=True,
        seeds_per_run=3,
    ),
    Study(
        name="middle-word",
        claim="The words after a gap predict the missing word, as the words before it do. Both together predict it "
        "better than either side alone.",
        source="Taylor 1953; Melamud et al. 2016",
        seconds=2558,
        needs_text=True,
        seeds_per_run=3,
    ),
    Study(
        name="point-adjust",
        claim="Point adjustment counts all rows of an event as found at one alarm in it. It lifts random scores from "
        "almost nothing to nearly the figure of a detector.",
        source="Kim et al. 2022, §3; Wu & Keogh 2021",
        seconds=7,
        options=("length",),
    ),
    Study(
        name="long-speech",
        claim="On speech of five times the trained length, attention by content alone loses its position. "
        "Location-aware attention with CTC keeps it.",
        source="Chorowski et al. 2015, §4; Watanabe et al. 2017",
        seconds=3431,
        needs_data=True,
        options=("updates",),
    ),
    Study(
        name="waiting",
        claim="A model that also learned from beginnings translates unfinished sentences better than one that learned "
        "from whole sentences only. Local agreement and AlignAtt wait where it matters, wait-k everywhere.",
        source="Ma et al. 2019; Liu et al. 2020; Papi et al. 2023",
        seconds=785,
        needs_data=True,
        options=("updates",),
    ),
    Study(
        name="pretrain",
        claim="An encoder is first trained on the texts of a task, to fill gaps or to predict the next token. It then "
        "classifies them better than an encoder from random weights, although it has read no other text.",
        source="Dai & Le 2015; Krishna et al. 2023",
        seconds=6885,
        needs_text=True,
        seeds_per_run=3,
    ),
    Study(
        name="crossover",
        claim="With few examples, a simple baseline is better than the network alone. The network gains more from "
        "further examples, so their learning curves cross. A model of both parts is not worse than either at any size.",
        source="Perlich et al. 2003; Cheng et al. 2016",
        seconds=0,
        needs_data=True,
        seeds_per_run=5,
        options=(
            "tasks",
            "sizes",
            "seeds",
            "minutes",
            "sentiment",
            "tags",
            "characters",
            "links",
            "items",
            "translation",
        ),
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
EARLIER_NAMES = {"normalisation": "normalization"}  # remain valid on the command line


def find_study(name: str) -> Study:
    """Return the study of that name, or of that earlier name. ConfigError with the known names for any other."""
    name = EARLIER_NAMES.get(name, name)
    if name not in STUDIES:
        why = f"the studies are {', '.join(STUDIES)}"
        help = did_you_mean(name, [*STUDIES, "list", "all", "page"]) or "regard study list"
        raise ConfigError(f"unknown study {name!r}", why=why, help=help)
    return STUDIES[name]
