"""Networks of supervised tasks as ONNX graphs from raw inputs to outputs, by the type of input.

Fixed steps around the network, such as standardization by the numbers of training, are part of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from regard.attention.kernel import Kernel
from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN
from regard.models.frame_input import FrameInput, PatchInput
from regard.models.head import Head
from regard.share.encoder_parity import MAX_TOKENS, ROWS
from regard.share.onnx_trace import ANY_LENGTH, SIZES, GraphNames, Lengths, data_free
from regard.tasks.net_outputs import run_causal, run_network


class ForwardPart(nn.Module):
    """A network with all steps that its graph computes.

    Args:
        net: the network.
        codecs: the codecs of its run.
    """

    names: GraphNames
    path: Kernel = "reference"  # of attention
    lengths: Lengths = ANY_LENGTH

    def __init__(self, net: nn.Module, codecs: Any) -> None:
        super().__init__()
        self.net, self.codecs = net, codecs

    def forward(self, *inputs: Tensor) -> Tensor:
        with data_free() if torch.compiler.is_exporting() else nullcontext():
            return self.compute(*inputs)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Return the outputs for inputs in the order of ``names``."""
        raise NotImplementedError

    def example(self, number: int) -> tuple[Tensor, ...]:
        """Return inputs in the sizes ``number``, 0 or 1, of ``SIZES``."""
        raise NotImplementedError

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        """Yield batches with the outputs of the network itself, for lines as ``Predictor.read`` accepts them."""
        raise NotImplementedError

    def random_tokens(self, types: int, length: int) -> ReferenceBatch:
        """Return random tokens, some of them padded, and their outputs at valid positions."""
        shape, generator = (ROWS, max(1, min(length, MAX_TOKENS))), torch.Generator().manual_seed(0)
        valid = torch.ones(shape, dtype=torch.bool)
        valid[:2, -(shape[1] // 2) or shape[1] :] = False
        numbers = torch.randint(min(len(SPECIALS), types - 1), types, shape, generator=generator)
        tokens = torch.where(valid, numbers, PAD)
        own = self.compute(tokens, valid)
        by_position = own.dim() == 3
        return ReferenceBatch((tokens, valid), own[valid] if by_position else own, valid if by_position else None)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the inputs; None if they are not tokens."""
        return getattr(self.codecs, "tokenizer", None)

    def facts(self) -> dict[str, Any]:
        """Return the entries of ``config.json`` about the inputs and outputs, beyond their names."""
        return {}


class ReferenceBatch(NamedTuple):
    """Inputs of a graph, and the outputs of the network for them; ``answered`` selects some positions of those."""

    inputs: tuple[Tensor, ...]
    expected: Tensor
    answered: Tensor | None = None


class FieldPart(ForwardPart):
    """The network of a supervised task with one field, and the scale of its answer."""

    names = GraphNames(["values", "valid"], ["logits"])

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        """Return the inputs of a batch.

        Args:
            values: the value of each example.
            rows: the encoded row of each example.
        """
        raise NotImplementedError

    def expected(self, values: Sequence[Any], rows: Sequence[Any]) -> Tensor:
        """Return the outputs of the network for rows as the field pads them, one for each answer."""
        return self.scaled(run_network(self.net, {"input": self.field.pad(rows)}).logits)

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        values = [self.field.parse(line) for line in lines]
        encoded = self.codecs.encode_inputs([values])
        owner = np.repeat(np.arange(len(values)), np.diff(encoded.starts)).tolist()
        examples = [(values[number], row) for number, (row,) in zip(owner, encoded.rows, strict=True)]
        for start in range(0, len(examples), ROWS):
            columns = [*zip(*examples[start : start + ROWS], strict=True)]
            answered = getattr(self.field.pad(columns[1]), "answered", None)
            yield ReferenceBatch(self.inputs(*columns), self.expected(*columns), answered)

    @property
    def field(self) -> Any:
        """The only field of the task."""
        (field,) = self.codecs.fields.values()
        return field

    @property
    def tokenizer(self) -> Any:
        return getattr(self.field, "tokenizer", None)

    def scaled(self, outputs: Tensor) -> Tensor:
        """Return outputs as the answer uses them: logits over the temperature, or numbers in their unit."""
        factor, shift = self.codecs.answer.output_scale
        return outputs * factor + shift

    def of_rows(self, values: Tensor, valid: Tensor) -> Tensor:
        """Return the scaled outputs of padded rows, or of each position."""
        outputs = self.net(values.flatten(0, valid.dim() - 2), Span.of(valid.flatten(0, -2)))
        return self.scaled(outputs if isinstance(outputs, Tensor) else outputs.logits)

    def facts(self) -> dict[str, Any]:
        names = self.codecs.answer.class_names
        by_label = {"label2id": {name: index for index, name in enumerate(names)}}
        return {"id2label": {str(index): name for index, name in enumerate(names)}, **by_label} if names else {}


def sizes(number: int, *names: str | int) -> list[int]:
    """Return the sizes of an example: those of ``SIZES`` by name, and fixed ones."""
    return [SIZES[name][number] if isinstance(name, str) else name for name in names]


def unknown_tokens(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return unknown tokens of this shape, and that all of them are valid."""
    return torch.full(shape, UNKNOWN), torch.ones(shape, dtype=torch.bool)


class TokenPart(FieldPart):
    """Tokens of one or several texts, or of the words of a sentence."""

    names = GraphNames(["tokens", "valid"], ["logits"])

    def compute(self, tokens: Tensor, valid: Tensor) -> Tensor:  # type: ignore[override]
        if self.field.window is not None:
            return self.of_rows(tokens.flatten(1), valid.flatten(1))
        return self.of_rows(tokens, valid)

    def example(self, number: int) -> tuple[Tensor, ...]:
        parts = [len(self.field.columns)] if getattr(self.field, "separate", False) else []
        length = ["source"] if self.field.window is None else ["windows", self.field.window]
        return unknown_tokens(sizes(number, "batch", *parts, *length))

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        padded, window = self.field.pad(rows), self.field.window
        if window is None:
            return padded.values, padded.valid
        missing = -padded.valid.shape[1] % window
        return tuple(pad(table, (0, missing)).unflatten(1, (-1, window)) for table in padded[:2])

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        if self.field.window is None and not getattr(self.field, "separate", False):
            yield self.random_tokens(len(self.field.tokenizer), self.field.max_length)
        yield from super().comparisons(lines)

    def facts(self) -> dict[str, Any]:
        field = self.field
        windows = {"window": field.max_length, "windows": field.max_windows} if field.window else {}
        return {**super().facts(), **special_pieces(field.tokenizer), "pieces_per_text": field.max_length, **windows}


class MaskPart(ForwardPart):
    """Tokens of one text, some of them masked; the outputs of each position are those of all pieces and the mask."""

    names = GraphNames(["tokens", "valid"], ["logits"])

    def __init__(self, net: nn.Module, codecs: Any, *, longest: int) -> None:
        super().__init__(net, codecs)
        self.longest = longest

    def compute(self, tokens: Tensor, valid: Tensor) -> Tensor:  # type: ignore[override]
        net = cast(Any, self.net)
        logits: Tensor = net.head(net(tokens, Span.of(valid)))
        return logits

    def example(self, number: int) -> tuple[Tensor, ...]:
        return unknown_tokens(sizes(number, "batch", "source"))

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        tokenizer = self.codecs.tokenizer
        yield self.random_tokens(len(tokenizer), self.longest)
        for line in lines:
            tokens = torch.tensor([[BEGIN, *tokenizer.encode(line), END]])
            if tokens.shape[1] <= self.longest:
                valid = torch.ones_like(tokens, dtype=torch.bool)
                yield ReferenceBatch((tokens, valid), self.compute(tokens, valid))

    def facts(self) -> dict[str, Any]:
        mask = len(self.codecs.tokenizer)
        return {**special_pieces(self.codecs.tokenizer), "types": mask + 1, "mask": mask}


def special_pieces(tokenizer: Any) -> dict[str, int]:
    """Return the entries of ``config.json`` about a vocabulary."""
    return {"pad": PAD, "unknown": UNKNOWN, "begin": BEGIN, "end": END, "types": len(tokenizer)}


class ItemPart(FieldPart):
    """Items of a session; the outputs are those of its last position."""

    names = GraphNames(["tokens", "valid"], ["logits"])

    def compute(self, tokens: Tensor, valid: Tensor) -> Tensor:  # type: ignore[override]
        net = cast(Any, self.net)
        features = net(tokens, Span.of(valid))[0]
        last = (valid.sum(1) - 1)[:, None, None].expand(-1, 1, features.shape[2])
        head: Head = net.head
        return self.scaled(head(features.gather(1, last)[:, 0]))

    def example(self, number: int) -> tuple[Tensor, ...]:
        return unknown_tokens(sizes(number, "batch", "source"))

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        padded = self.field.pad(rows)
        return padded.values, padded.valid

    def expected(self, values: Sequence[Any], rows: Sequence[Any]) -> Tensor:
        return self.scaled(run_causal(self.net, {"items": self.field.pad(rows).at_end()}).logits)

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        for comparison in super().comparisons(lines):
            yield comparison._replace(answered=None)

    def facts(self) -> dict[str, Any]:
        types = special_pieces(self.field.tokenizer)
        return {**types, "longest": self.field.max_length, "never": [PAD, UNKNOWN, BEGIN, END]}


class FramePart(FieldPart):
    """Frames as they are before standardization."""

    names = GraphNames(["frames", "valid"], ["logits"])

    def __init__(self, net: nn.Module, codecs: Any) -> None:
        super().__init__(net, codecs)
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(np.asarray(self.field.scale), dtype=torch.float32))
        reader: Any = next(module for module in net.modules() if isinstance(module, FrameInput | PatchInput))
        strided = isinstance(reader, PatchInput)
        self.lengths = Lengths(reader.stride, reader.patch) if strided else Lengths(reader.subsample)

    def compute(self, frames: Tensor, valid: Tensor) -> Tensor:  # type: ignore[override]
        return self.of_rows((frames - self.scale[0]) / self.scale[1], valid)

    def example(self, number: int) -> tuple[Tensor, ...]:
        shape = [SIZES["batch"][number], self.lengths.of(number)]
        return torch.zeros(*shape, self.scale.shape[1]), torch.ones(shape, dtype=torch.bool)

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        tables = [torch.tensor(value.frames[: len(row)]) for value, row in zip(values, rows, strict=True)]
        valid = pad_sequence([torch.ones(len(table), dtype=torch.bool) for table in tables], True)
        missing = self.lengths.padded(valid.shape[1]) - valid.shape[1]
        return pad(pad_sequence(tables, True), (0, 0, 0, missing)), pad(valid, (0, missing))

    def facts(self) -> dict[str, Any]:
        longest, channels = self.field.max_length, self.scale.shape[1]
        return {**super().facts(), "longest": longest, "channels": channels, "lengths": self.lengths._asdict()}


class SoundPart(FramePart):
    """Log-mel frames of recordings."""

    def facts(self) -> dict[str, Any]:
        recipe, options, speaker = self.field.features.recipe, self.field.options, self.field.unknown_speaker
        sound: dict[str, Any] = {"features": recipe.name, "normalization": options.normalization, "trim": options.trim}
        sound |= {"rate": recipe.rate, "window": recipe.window, "step": recipe.step, "transform": recipe.size}
        scale = {} if speaker is None else {"unknown_speaker": np.asarray(speaker.scale).tolist()}
        return {**super().facts(), "sound": {**sound, **scale}}


class PixelPart(FieldPart):
    """Pixels of images of a fixed size, from 0 to 255."""

    names = GraphNames(["pixels"], ["logits"])

    def __init__(self, net: nn.Module, codecs: Any) -> None:
        super().__init__(net, codecs)
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor([self.field.codec.mean, self.field.codec.deviation]))

    def compute(self, pixels: Tensor) -> Tensor:  # type: ignore[override]
        codec = self.field.codec
        (rows, columns), patch, (height, width) = codec.grid, codec.patch, codec.size
        whole = pad(pixels, (0, 0, 0, columns * patch - width, 0, rows * patch - height))
        standard = (whole - self.scale[0]) / self.scale[1]
        cut = standard.unflatten(2, (columns, patch)).unflatten(1, (rows, patch)).transpose(2, 3)
        patches = cut.flatten(3).flatten(1, 2)
        return self.of_rows(patches, torch.ones_like(patches[..., 0], dtype=torch.bool))

    def example(self, number: int) -> tuple[Tensor, ...]:
        return (torch.zeros(sizes(number, "batch", *self.field.codec.size, self.scale.shape[1])),)

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        return (torch.tensor(np.stack([value.pixels for value in values])).float(),)

    def facts(self) -> dict[str, Any]:
        (height, width), channels = self.field.codec.size, self.scale.shape[1]
        return {**super().facts(), "height": height, "width": width, "channels": channels}
