import { expect, test } from "vitest";
import type { Attention, Inspection } from "../src/document";
import { measureOf, measuresOf, orderHeads } from "../src/measures";
import { defaultChoice, kindsOf, settle, show } from "../src/shown";
import { floats } from "./floats";

function attention(kind: Attention["kind"], entropy: number[]): Attention {
  return { kind, layer: 0, mechanism: "dot", weights: floats([2, 2, 2], [1, 0, 0, 1, 0, 1, 1, 0]), measures: { entropy } };
}

const side = { text: "a", ids: [5, 2], pieces: ["a", "</s>"], words: [0, 1], spelled: ["a", "</s>"] };
const inspection = {
  source: side,
  target: { ...side, inputs: ["<s>", "a"] },
  attention: { "encoder.0.self": attention("encoder", [1, 2]), "decoder.0.source": attention("source", [4, 3]), "decoder.0.self": attention("decoder", [0, 5]) },
  alignment: null,
  rollout: { source: floats([2, 2], [0.5, 0.5, 0, 1]) },
} as unknown as Inspection;

test("the default is the alignment, or else the mean of the last encoder-decoder attention", () => {
  expect(defaultChoice(inspection)).toEqual({ attention: "decoder.0.source", head: null });
  const alignment = { attention: "decoder.0.source", head: 1, shift: 0, why: "It fits.", links: [], weights: floats([1, 1], [0.5]) };
  const aligned = { ...inspection, alignment } as Inspection;
  expect(defaultChoice(aligned)).toEqual({ attention: "decoder.0.source", head: 1 });
  expect(show(aligned, { attention: "decoder.0.source", head: 1 }).why).toBe("It fits.");
  expect(defaultChoice({ ...inspection, attention: {} })).toBeNull();
});

test("a choice that an inspection lacks gives way to its default", () => {
  expect(settle(inspection, { attention: "decoder.9.source", head: 0 })).toEqual({ attention: "decoder.0.source", head: null });
  expect(settle(inspection, { attention: "encoder.0.self", head: 7 })).toEqual({ attention: "decoder.0.source", head: null });
  expect(settle(inspection, { rollout: "source" })).toEqual({ rollout: "source" });
});

test("labels by kind", () => {
  expect(show(inspection, { attention: "decoder.0.self", head: 0 }).keys).toEqual(["<s>", "a"]);
  expect(show(inspection, { attention: "decoder.0.source", head: 0 }).queries).toEqual(["a", "</s>"]);
  expect([...show(inspection, { attention: "encoder.0.self", head: null }).matrix.values]).toEqual([0.5, 0.5, 0.5, 0.5]);
  expect(kindsOf(inspection)).toEqual(["source", "encoder", "decoder"]);
});

test("measures, and heads in their order", () => {
  const names = Object.keys(inspection.attention);
  expect(measuresOf(inspection)).toEqual(["entropy"]);
  expect(measuresOf({ ...inspection, ablation: {} })).toEqual(["entropy", "off"]);
  expect(measureOf(inspection, "encoder.0.self", null, "entropy")).toBe(1.5);
  expect(measureOf(inspection, "encoder.0.self", 0, "off")).toBeUndefined();
  expect(orderHeads(inspection, names, "entropy").map(({ head }) => head)).toEqual([1, 0, 1, 1, 0, 0]);
});
