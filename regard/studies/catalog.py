"""Table of studies: each is a file in this folder and an entry here. Imports no torch."""

from __future__ import annotations

from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.studies.study import Study

# In the order of the page docs/evidence/studies.md: from a single lookup to whole models.
_ALL = (
    Study(
        name="dictionary",
        claim="Attention is a soft dictionary lookup: with the temperature going to 0 it answers as a dict does, and "
        "the order of the pairs does not matter.",
        source="Vaswani et al. 2017, §3.2 and Eq. 1",
        seconds=0,
    ),
    Study(
        name="saturation",
        claim="q·k has variance d_k, so without the scale 1/√d_k the softmax saturates as d_k grows and passes hardly "
        "any gradient; with it, none of that depends on d_k.",
        source="Vaswani et al. 2017, §3.2.1 and footnote 4",
        seconds=11,
    ),
    Study(
        name="dimension",
        claim="With wider keys a learned lookup by the unscaled product gets worse; scaled by 1/√d_k, or with an "
        "additive score, it does not.",
        source="Vaswani et al. 2017, §3.2.1; Britz et al. 2017, §4.4",
        seconds=82,
    ),
    Study(
        name="lookup",
        claim="The attention of GAT ranks the keys alike for every query, so that it cannot look up a key that depends "
        "on the query; GATv2's can.",
        source="Brody et al. 2022, Theorems 1 and 2, and §4.1",
        seconds=173,
    ),
    Study(
        name="oversmoothing",
        claim="Each graph convolution brings the nodes nearer to one another, by the second eigenvalue of the "
        "normalized adjacency; a deep network of them tells nodes apart only with skip connections.",
        source="Li et al. 2018, Theorem 1; Oono & Suzuki 2020, Theorem 1",
        seconds=36,
    ),
    Study(
        name="positions",
        claim="Without positions a self-attention encoder is blind to order (permuted words give permuted states); "
        "with sinusoids PE(p + k) is one linear function of PE(p) for all p.",
        source="Vaswani et al. 2017, §3.5",
        seconds=1,
    ),
    Study(
        name="gradients",
        claim="Over τ steps back the gradients of recurrent cells vanish or explode as ρ^τ; gates keep them alive, if "
        "they start open.",
        source="Pascanu et al. 2013, §2.1; Hochreiter & Schmidhuber 1997; Jozefowicz et al. 2015",
        seconds=1,
    ),
    Study(
        name="layers",
        claim="A layer costs n²·d (self-attention), n·d² (recurrent), k·n·d² (convolutional) or r·n·d (restricted); "
        "only the recurrent one takes n steps; the longest path is 1, n, n/k and n/r.",
        source="Vaswani et al. 2017, §4 and Table 1",
        seconds=26,
    ),
    Study(
        name="normalization",
        claim="LayerNorm gives each column mean 0 and variance 1 whatever the scale of the weights, sees no "
        "neighbors, and shortens training; BatchNorm lets other sentences and padding in.",
        source="Ba et al. 2016, §3, §5 and Table 1",
        seconds=199,
    ),
    Study(
        name="warmup",
        claim="At a large learning rate a deep Transformer with its norms behind the sums (post-LN) stays at chance "
        "without a warm-up; with norms before the sub-layers (pre-LN) it learns with and without.",
        source="Xiong et al. 2020, §3 and §4; Vaswani et al. 2017, §5.3",
        seconds=140,
    ),
    Study(
        name="length",
        claim="With one vector for the whole source a recurrent model gets worse with longer sentences; with "
        "attention it does not.",
        source="Bahdanau et al. 2015, §5.1 and Fig. 2; Cho et al. 2014",
        seconds=50,
    ),
    Study(
        name="convergence",
        claim="A Transformer comes to the same loss in less time than recurrent models with attention.",
        source="Vaswani et al. 2017, §1 and §6.1",
        seconds=36,
    ),
    Study(
        name="heads",
        claim="Of equal width, several heads cost what one costs, and can look at several places where one averages.",
        source="Vaswani et al. 2017, §3.2.2 and Table 3, rows A",
        seconds=37,
    ),
    Study(
        name="alignment",
        claim="Attention by content alone loses its place in sentences longer than those of the training; with its "
        "last weights among what it sees, and sharpened, it stays aligned at five times their length.",
        source="Chorowski et al. 2015, §2.2, §2.3 and §4",
        seconds=57,
    ),
    Study(
        name="memory",
        claim="Of models that look at equally many places, one that remembers the segments before it recalls what "
        "one of windows cannot, and one that also compresses what leaves its memory recalls what was longer ago.",
        source="Dai et al. 2019, §3.2; Rae et al. 2019, §3",
        seconds=1788,
    ),
    Study(
        name="senses",
        claim="A word has one embedding for all of its senses; the states an encoder gives it in sentences tell them "
        "apart.",
        source="Peters et al. 2018, §5.3; Tang et al. 2018",
        seconds=8,
    ),
    Study(
        name="pronoun",
        claim="Whether it is es or sie hangs on which noun is meant; some head, of the encoder or of the decoder, "
        "looks at that noun, and without it the right pronoun gets less probable.",
        source="Vaswani et al. 2017, appendix; Uszkoreit 2017",
        seconds=39,
    ),
    Study(
        name="global-local",
        claim="With one global column any two columns are connected within two layers, however narrow the window, and "
        "what stands anywhere is found by way of it; the cost grows with the radius, not with the length.",
        source="Ainslie et al. 2020, §2; Beltagy et al. 2020, §3",
        seconds=706,
    ),
    Study(
        name="long-costs",
        claim="Attention over everything takes time that grows with the square of the length; windows with sinks, "
        "global and local attention, linear attention and recurrences take time and memory in proportion to it.",
        source="Katharopoulos et al. 2020, §3; Beltagy et al. 2020, Fig. 1; Ainslie et al. 2020, §2",
        seconds=197,
    ),
    Study(
        name="hashes",
        claim="The nearer two vectors, the more often random rotations hash them into one bucket; and on copying, "
        "hashed attention is as good as full attention, the better the more rounds it hashes in evaluation.",
        source="Kitaev et al. 2020, §2, §4 and Table 2",
        seconds=184,
    ),
    Study(
        name="reversible",
        claim="What reversible layers keep for the gradient does not grow with their number, and their gradients are "
        "those of automatic differentiation.",
        source="Gomez et al. 2017; Kitaev et al. 2020, §3 and Table 3",
        seconds=18,
    ),
    Study(
        name="modern",
        claim="After equally many updates a small language model has a lower loss by Muon than by AdamW, each at the "
        "best of three rates, and by rotary positions, QK-norm, squared ReLU, outputs from zero and a residual from "
        "the embedding; and by both a lower one than by either.",
        source="Jordan et al. 2024; Su et al. 2021; Henry et al. 2020; So et al. 2021; Zhang et al. 2019",
        seconds=2595,
        needs_text=True,
    ),
    Study(
        name="middle-word",
        claim="The words after a place tell what stands there as the words before it do, and both together tell more "
        "than either.",
        source="Taylor 1953; Melamud et al. 2016",
        seconds=2558,
        needs_text=True,
    ),
    Study(
        name="pretrain",
        claim="An encoder that first learned to fill gaps in the texts of a task, or to go on with them, tells their "
        "labels better than one that begins from nothing, although it has read nothing else.",
        source="Dai & Le 2015; Krishna et al. 2023",
        seconds=6885,
        needs_text=True,
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
