import { expect, test } from "vitest";
import type { Inspection } from "../src/document";
import { measureOf, measuresOf, orderHeads } from "../src/measures";
import { defaultChoice, groupsOf, settle, show } from "../src/shown";
import { floats } from "./floats";
import { attentionOf, inspectionOf } from "./server";

const WEIGHTS = floats([2, 2, 2], [1, 0, 0, 1, 0, 1, 1, 0]);
const attention = (side: string, part: string, entropy: number[], query: string[], key: string[]) => attentionOf(side, 0, part, WEIGHTS, query, key, { measures: { entropy } });

const pieces = ["a", "</s>"];
const inspection = inspectionOf("a", {
  attention: {
    "encoder.0.self": attention("encoder", "self", [1, 2], pieces, pieces),
    "decoder.0.source": attention("decoder", "source", [4, 3], pieces, pieces),
    "decoder.0.self": attention("decoder", "self", [0, 5], pieces, ["<s>", "a"]),
  },
  rollout: { source: floats([2, 2], [0.5, 0.5, 0, 1]) },
});

test("the default is the aligning head, otherwise the mean of the last encoder-decoder attention", () => {
  expect(defaultChoice(inspection)).toEqual({ attention: "decoder.0.source", head: null });
  const alignment = { attention: "decoder.0.source", head: 1, shift: 0, why: "It fits.", links: [], weights: floats([1, 1], [0.5]) };
  const aligned = { ...inspection, alignment } as Inspection;
  expect(defaultChoice(aligned)).toEqual({ attention: "decoder.0.source", head: 1 });
  expect(show(aligned, { attention: "decoder.0.source", head: 1 }).why).toBe("It fits.");
  expect(defaultChoice({ ...inspection, attention: {} })).toBeNull();
});

test("a choice that does not exist is replaced by the default", () => {
  expect(settle(inspection, { attention: "decoder.9.source", head: 0 })).toEqual({ attention: "decoder.0.source", head: null });
  expect(settle(inspection, { attention: "encoder.0.self", head: 7 })).toEqual({ attention: "decoder.0.source", head: null });
  expect(settle(inspection, { rollout: "source" })).toEqual({ rollout: "source" });
});

test("labels of each type of attention", () => {
  expect(show(inspection, { attention: "decoder.0.self", head: 0 }).keys).toEqual(["<s>", "a"]);
  expect(show(inspection, { attention: "decoder.0.source", head: 0 }).queries).toEqual(["a", "</s>"]);
  expect([...show(inspection, { attention: "encoder.0.self", head: null }).matrix.values]).toEqual([0.5, 0.5, 0.5, 0.5]);
  expect(groupsOf(inspection)).toEqual(["Encoder-decoder attention", "Encoder self-attention", "Decoder self-attention"]);
});

test("measures, and heads sorted by a measure", () => {
  const names = Object.keys(inspection.attention);
  expect(measuresOf(inspection)).toEqual(["entropy"]);
  expect(measuresOf({ ...inspection, ablation: {} })).toEqual(["entropy", "off"]);
  expect(measureOf(inspection, "encoder.0.self", null, "entropy")).toBe(1.5);
  expect(measureOf(inspection, "encoder.0.self", 0, "off")).toBeUndefined();
  expect(orderHeads(inspection, names, "entropy").map(({ head }) => head)).toEqual([1, 0, 1, 1, 0, 0]);
});

test("the copying attention or the pooling is the default, and a single head is not a mean", () => {
  const pooling = attentionOf("pooling", null, "", floats([1, 1, 2], [0.5, 0.5]), ["answer"], pieces);
  const self = inspection.attention["encoder.0.self"];
  expect(defaultChoice({ ...inspection, attention: { pooling, "encoder.0.self": self } })).toEqual({ attention: "pooling", head: 0 });
  expect(defaultChoice({ ...inspection, attention: { ...inspection.attention, "copying.source": self } })).toEqual({ attention: "copying.source", head: null });
});

test("a head has the mask of its attention", () => {
  const masked = attentionOf("decoder", 0, "self", WEIGHTS, pieces, pieces, { allowed: floats([2, 2], [1, 0, 1, 1]) });
  expect([...show({ ...inspection, attention: { masked } }, { attention: "masked", head: 0 }).allowed!.values]).toEqual([1, 0, 1, 1]);
});
