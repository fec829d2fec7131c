"""Draws the pictures of the tutorials that are not screenshots: python docs/pictures/draw.py

Each is one SVG with a light background, readable in light and dark themes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent
INK, PALE, BLUE, GREEN, ORANGE = "#22303c", "#eef1f4", "#d6e6f7", "#dcefdc", "#fbe5c8"


class Drawing:
    """Shapes on a plane; ``text`` of several lines is centered."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, size: int = 13, anchor: str = "middle", bold: bool = False
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        for number, line in enumerate(text.split("\n")):
            self.parts.append(
                f'<text x="{x:g}" y="{y + 16 * number:g}" font-size="{size}" text-anchor="{anchor}"{weight}>'
                f"{escape(line)}</text>"
            )

    def box(self, x: float, y: float, width: float, height: float, text: str, fill: str = PALE) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="{INK}"/>'
        )
        lines = text.count("\n")
        self.text(x + width / 2, y + height / 2 + 4.5 - 8 * lines, text)

    def circle(self, x: float, y: float, text: str, fill: str = PALE, radius: float = 12) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{INK}"/>')
        self.text(x, y + 4.5, text)

    def line(self, *points: tuple[float, float], head: bool = True, dashed: bool = False) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        marker = ' marker-end="url(#head)"' if head else ""
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{INK}"{marker}{dashes}/>')

    def save(self, name: str) -> None:
        body = "\n".join(self.parts)
        (FOLDER / f"{name}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="sans-serif" fill="{INK}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#fdfdfb"/>\n{body}\n</svg>\n',
            encoding="utf-8",
        )


def heads() -> None:
    d = Drawing(860, 330, "Multi-head attention: project, split, attend, concatenate, project")
    d.box(20, 140, 70, 40, "X\nn × 512", BLUE)
    for number, letter in enumerate("QKV"):
        y = 50 + 90 * number
        d.line((90, 160), (140, y + 20))
        d.box(140, y, 90, 40, f"W^{letter}\n512 × 512")
        d.line((230, y + 20), (275, y + 20))
        d.box(275, y, 80, 40, f"{letter}\nn × 512", BLUE)
    for number, head in enumerate(("head 1", "head 2", "…", "head 8")):
        y = 30 + 70 * number
        for source in (70, 160, 250):
            d.line((355, source), (430, y + 22), head=False)
        if head == "…":
            d.text(520, y + 26, "…   six more   …")
            continue
        d.box(
            430,
            y,
            190,
            44,
            f"{head}: columns {64 * int(head[-1]) - 63}–{64 * int(head[-1])}\nattention → n × 64",
            GREEN,
        )
        d.line((620, y + 22), (668, 160))
    d.box(670, 120, 60, 80, "concat\nn × 512", BLUE)
    d.line((730, 160), (750, 160))
    d.box(750, 140, 90, 40, "W^O\n512 × 512")
    d.line((795, 180), (795, 225))
    d.text(795, 242, "n × 512")
    d.text(
        430,
        318,
        "Each head sees all of X, through 64 columns of W^Q, W^K, W^V of its own; the embedding itself is not cut.",
    )
    d.save("heads")


def block() -> None:
    d = Drawing(660, 430, "One encoder layer, post-norm as in the paper, and pre-norm")
    for left, name, steps in (
        (40, "post-norm (the paper)", ("attention", "+", "norm", "feed-forward", "+", "norm")),
        (380, "pre-norm", ("norm", "attention", "+", "norm", "feed-forward", "+")),
    ):
        x, y = left + 110, 375
        d.text(x, 25, name, bold=True)
        d.text(x, 412, "x: n × 512")
        start = (x, 395.0)
        d.line(start, (x, y + 2))
        branch = 388.0
        for step in steps:
            if step == "+":
                d.circle(x, y - 12, "+", ORANGE)
                d.line((x, branch), (left + 5, branch), (left + 5, y - 12), (x - 13, y - 12))
                y -= 24
                branch = y - 9
            else:
                label, fill, height = {
                    "attention": ("multi-head self-attention\nmixes positions", GREEN, 44),
                    "feed-forward": ("W₂ ReLU(W₁ x + b₁) + b₂\neach position alone: 512→2048→512", BLUE, 44),
                    "norm": ("LayerNorm", PALE, 26),
                }[step]
                d.box(x - 100, y - height, 240, height, label, fill)
                y -= height
            d.line((x, y), (x, y - 18))
            y -= 18
        d.text(x + 8, y - 3, "n × 512")
    d.save("block")


def transformer() -> None:
    d = Drawing(900, 560, "Encoder and decoder of a Transformer with the shape of what flows along each arrow")
    d.text(190, 545, "source tokens: le chat dort </s>   (4)")
    d.text(620, 545, "target so far: <s> the cat   (3)")
    for x in (190, 620):
        d.line((x, 530), (x, 512))
        d.box(x - 110, 472, 220, 40, "embedding E: V × 512\n× √512, + positions", BLUE)
        d.line((x, 472), (x, 436))
        d.text(x + 40, 458, "4 × 512" if x == 190 else "3 × 512")
    d.parts.append(
        f'<rect x="50" y="280" width="280" height="156" rx="8" fill="none" stroke="{INK}" stroke-dasharray="4 3"/>'
    )
    d.text(66, 296, "6 times", anchor="start")
    d.box(80, 380, 220, 44, "self-attention, + and norm\nscores 8 × 4 × 4", GREEN)
    d.line((190, 380), (190, 352))
    d.text(230, 370, "4 × 512")
    d.box(80, 308, 220, 44, "feed-forward, + and norm\n512 → 2048 → 512", PALE)
    d.line((190, 308), (190, 226))
    d.box(140, 196, 100, 30, "H: 4 × 512", ORANGE)
    d.text(190, 186, "computed once a sentence")
    d.parts.append(
        f'<rect x="440" y="196" width="360" height="240" rx="8" fill="none" stroke="{INK}" stroke-dasharray="4 3"/>'
    )
    d.text(784, 212, "6 times", anchor="end")
    d.box(510, 380, 220, 44, "causal self-attention, + and norm\nscores 8 × 3 × 3, mask M", GREEN)
    d.line((620, 380), (620, 350))
    d.text(666, 370, "Q: 3 × 512")
    d.box(510, 306, 220, 44, "attention to H, + and norm\nscores 8 × 3 × 4", ORANGE)
    d.line((240, 211), (390, 211), (390, 328), (510, 328))
    d.text(318, 204, "K, V: 4 × 512")
    d.line((620, 306), (620, 278))
    d.text(660, 297, "3 × 512")
    d.box(510, 234, 220, 44, "feed-forward, + and norm\n512 → 2048 → 512", PALE)
    d.line((620, 234), (620, 172))
    d.text(660, 187, "3 × 512")
    d.box(510, 132, 220, 40, "× Eᵀ: 512 × V", BLUE)
    d.line((620, 132), (620, 104))
    d.text(672, 122, "logits 3 × V")
    d.box(510, 64, 220, 40, "softmax of each row", PALE)
    d.line((620, 64), (620, 38))
    d.text(620, 28, "row i: probability of token i + 1; the last row predicts the token after “cat”")
    d.save("transformer")


def masks() -> None:
    d = Drawing(860, 290, "The causal mask, the mask of padding, and the shifted target")

    def grid(left: float, names: Sequence[str], allowed: Callable[[int, int], bool], title: str) -> None:
        d.text(left + 34 * len(names) / 2, 28, title, bold=True)
        for row, name in enumerate(names):
            d.text(left - 6, 79 + 34 * row, name, anchor="end", size=12)
            d.text(left + 17 + 34 * row, 52, name, size=12)
            for column in range(len(names)):
                may = allowed(row, column)
                x, y = left + 34 * column, 58 + 34 * row
                d.box(x, y, 34, 34, "0" if may else "−∞", GREEN if may else PALE)

    grid(70, ["<s>", "the", "cat", "sits"], lambda i, j: j <= i, "M of a decoder: causal")
    grid(310, ["le", "chat", "dort", "pad"], lambda i, j: j < 3, "M of an encoder: padding")
    d.text(170, 225, "rows are queries, columns keys: softmax(QKᵀ/√d + M)")
    d.text(420, 225, "no query attends to padding")
    d.text(680, 28, "the shifted target", bold=True)
    inputs, targets = ("<s>", "the", "cat", "sits"), ("the", "cat", "sits", "</s>")
    for column, (before, after) in enumerate(zip(inputs, targets, strict=True)):
        x = 530 + 75 * column
        d.box(x, 60, 66, 32, before, BLUE)
        d.line((x + 33, 92), (x + 33, 138))
        d.box(x, 140, 66, 32, after, ORANGE)
    d.text(680, 225, "inputs above, targets below; M hides the answer")
    d.text(430, 268, "exp(−∞) = 0: a masked pair gets the weight 0, and the weights of the others still sum to 1.")
    d.save("masks")


def gates() -> None:
    d = Drawing(860, 400, "The gates of an LSTM cell and of a GRU cell")
    _lstm(d)
    _gru(d)
    d.save("gates")


def _gate(d: Drawing, x: float, name: str, meaning: str) -> None:
    d.box(x, 230, 70, 34, name, GREEN)
    d.text(x + 35, 282, meaning, size=12)
    d.line((x + 35, 320), (x + 35, 290), head=False)


def _lstm(d: Drawing) -> None:
    d.text(215, 28, "LSTM", bold=True)
    d.line((20, 90), (410, 90))
    d.text(30, 80, "c⁻", anchor="start")
    d.text(405, 80, "c", anchor="end")
    d.circle(110, 90, "×", ORANGE)
    d.circle(230, 90, "+", ORANGE)
    d.circle(230, 160, "×", ORANGE)
    d.circle(350, 190, "×", ORANGE)
    _gate(d, 80, "f = σ", "forget")
    _gate(d, 160, "i = σ", "write")
    _gate(d, 240, "g = tanh", "what")
    _gate(d, 320, "o = σ", "show")
    d.line((110, 230), (110, 103))
    d.line((195, 230), (195, 160), (217, 160))
    d.line((275, 230), (275, 160), (243, 160))
    d.line((230, 148), (230, 103))
    d.line((355, 230), (352, 203))
    d.line((350, 90), (350, 177))
    d.text(358, 140, "tanh", anchor="start", size=12)
    d.line((363, 190), (410, 190))
    d.text(405, 180, "h", anchor="end")
    d.line((20, 320), (355, 320), head=False)
    d.text(30, 340, "[x; h⁻], each gate has W, U and b of its own", anchor="start", size=12)
    d.text(215, 378, "c = f ∘ c⁻ + i ∘ g and h = o ∘ tanh(c)")


def _gru(d: Drawing) -> None:
    d.text(645, 28, "GRU", bold=True)
    d.line((450, 90), (840, 90))
    d.text(460, 80, "h⁻", anchor="start")
    d.text(835, 80, "h", anchor="end")
    d.circle(570, 90, "×", ORANGE)
    d.circle(740, 90, "+", ORANGE)
    d.circle(740, 150, "×", ORANGE)
    d.circle(520, 190, "×", ORANGE)
    _gate(d, 485, "r = σ", "reset")
    _gate(d, 575, "z = σ", "keep")
    _gate(d, 705, "n = tanh", "new")
    d.line((520, 230), (520, 203))
    d.line((490, 90), (490, 190), (507, 190))
    d.line((533, 190), (690, 190), (690, 247), (704, 247))
    d.line((610, 230), (610, 150), (570, 150), (570, 103))
    d.text(562, 130, "z", anchor="end", size=12)
    d.line((610, 150), (727, 150))
    d.text(670, 143, "1 − z", size=12)
    d.line((740, 230), (740, 163))
    d.line((740, 138), (740, 103))
    d.line((460, 320), (740, 320), head=False)
    d.text(460, 340, "x and h⁻; n takes r ∘ h⁻ in its place", anchor="start", size=12)
    d.text(645, 378, "h = z ∘ h⁻ + (1 − z) ∘ n")


def rnn() -> None:
    d = Drawing(860, 350, "Kinds of recurrent networks by inputs and outputs, and a bidirectional one")

    def unrolled(left: float, top: float, title: str, reads: set[int], writes: set[int], cells: int) -> None:
        d.text(left + 26 * cells, top, title, bold=True, size=12)
        for cell in range(cells):
            x = left + 52 * cell
            d.box(x, top + 60, 36, 28, "h", GREEN)
            if cell:
                d.line((x - 16, top + 74), (x - 1, top + 74))
            if cell in reads:
                d.box(x, top + 110, 36, 24, "x", BLUE)
                d.line((x + 18, top + 110), (x + 18, top + 89))
            if cell in writes:
                d.box(x, top + 14, 36, 24, "y", ORANGE)
                d.line((x + 18, top + 60), (x + 18, top + 39))

    unrolled(30, 24, "many to one: judge a text", {0, 1, 2}, {2}, 3)
    unrolled(250, 24, "one to many: describe a picture", {0}, {0, 1, 2}, 3)
    unrolled(470, 24, "one for one: tag words", {0, 1, 2}, {0, 1, 2}, 3)
    unrolled(30, 196, "many to many: translate", {0, 1, 2}, {3, 4, 5}, 6)
    d.text(110, 345, "encoder", size=12)
    d.text(255, 345, "decoder", size=12)
    d.line((183, 250), (183, 340), head=False, dashed=True)
    left, top = 470, 196
    d.text(left + 130, top, "bidirectional: both sides of each word", bold=True, size=12)
    for cell in range(4):
        x = left + 70 * cell
        d.box(x - 7, top + 14, 58, 24, "[→; ←]", ORANGE)
        d.box(x, top + 54, 36, 24, "→", GREEN)
        d.box(x + 10, top + 86, 36, 24, "←", GREEN)
        d.box(x + 4, top + 122, 36, 24, "x", BLUE)
        d.line((x + 22, top + 54), (x + 22, top + 39))
        if cell:
            d.line((x - 34, top + 66), (x - 1, top + 66))
            d.line((x + 10, top + 98), (x - 23, top + 98))
        d.line((x + 22, top + 122), (x + 22, top + 111))
    d.save("rnn")


def readers() -> None:
    d = Drawing(860, 330, "When Bahdanau's decoder reads the source, and when Luong's does")
    d.text(215, 28, "Bahdanau: read, then step", bold=True)
    d.box(20, 250, 150, 36, "source states h₁ … hₙ", BLUE)
    d.box(20, 150, 150, 50, "attention\nvᵀ tanh(W s⁻ + U hⱼ)", GREEN)
    d.line((95, 250), (95, 201))
    d.box(20, 60, 70, 36, "s⁻")
    d.line((55, 96), (55, 149))
    d.line((90, 78), (249, 78))
    d.line((170, 175), (285, 175), (285, 97))
    d.text(225, 168, "c")
    d.box(250, 60, 70, 36, "cell")
    d.line((320, 78), (380, 78))
    d.text(395, 82, "s")
    d.box(250, 250, 70, 36, "y⁻", BLUE)
    d.line((305, 250), (305, 97))
    d.text(215, 318, "the question is the last state: c goes into the cell")
    d.text(645, 28, "Luong: step, then read", bold=True)
    d.box(450, 60, 60, 36, "s⁻")
    d.line((510, 78), (549, 78))
    d.box(550, 60, 70, 36, "cell")
    d.box(550, 250, 90, 36, "[y⁻; h̃⁻]", BLUE)
    d.line((585, 250), (585, 97))
    d.line((620, 78), (699, 78))
    d.text(655, 70, "s")
    d.box(700, 150, 140, 50, "attention\nsᵀ hⱼ or sᵀ W hⱼ", GREEN)
    d.line((655, 78), (655, 175), (699, 175))
    d.box(690, 250, 150, 36, "source states h₁ … hₙ", BLUE)
    d.line((770, 250), (770, 201))
    d.box(700, 60, 140, 36, "h̃ = tanh(W [c; s])", ORANGE)
    d.line((770, 150), (770, 97))
    d.text(782, 128, "c", anchor="start")
    d.text(645, 318, "the question is the new state; h̃ is fed to the next cell")
    d.save("readers")


def graph() -> None:
    d = Drawing(
        860, 290, "A node and its neighbors: fixed weights in a GCN, computed ones in a GAT, and the mask of the edges"
    )
    points = {"a": (110, 150), "b": (40, 70), "c": (180, 70), "d": (60, 230), "e": (200, 210)}
    for left, title, weights in (
        (10, "GCN: weights of the degrees", {"b": "1/√10", "c": "1/√15", "d": "1/√10", "e": "1/√15", "a": "1/5"}),
        (290, "GAT: weights of the contents", {"b": ".05", "c": ".52", "d": ".08", "e": ".20", "a": ".15"}),
    ):
        d.text(left + 120, 28, title, bold=True)
        x, y = points["a"]
        d.line((left + points["c"][0], points["c"][1]), (left + points["e"][0], points["e"][1]), head=False)
        d.text(left + x - 16, y + 5, weights.pop("a"), size=12, anchor="end")
        for name, weight in weights.items():
            nx, ny = points[name]
            d.line((left + nx, ny), (left + x, y), head=False)
            d.text(left + (nx + x) / 2 + 6, (ny + y) / 2 + 4, weight, size=12, anchor="start")
        for name, (nx, ny) in points.items():
            d.circle(left + nx, ny, name, GREEN if name == "a" else BLUE)
    d.text(715, 28, "edges as a mask", bold=True)
    edges = {("a", "b"), ("a", "c"), ("a", "d"), ("a", "e"), ("c", "e")}
    for row, query in enumerate("abcde"):
        d.text(625, 77 + 34 * row, query)
        d.text(657 + 34 * row, 50, query)
        for column, key in enumerate("abcde"):
            may = query == key or (query, key) in edges or (key, query) in edges
            d.box(640 + 34 * column, 56 + 34 * row, 34, 34, "0" if may else "−∞", GREEN if may else PALE)
    d.text(430, 272, "A sentence is the graph in which every word is joined to every word: attention without a mask.")
    d.save("graph")


ALL = (heads, block, transformer, masks, gates, rnn, readers, graph)

if __name__ == "__main__":
    for draw in ALL:
        draw()
