import { expect, test } from "vitest";
import { groupOf, outputOf, rowOf, siteName, stepsOf, wordsOf } from "../src/reading";
import { floats } from "./floats";
import { attentionOf, documentOf, inspectionOf, predictionOf as prediction, surfaceOf as surface } from "./server";

const WEIGHTS = floats([1, 1, 1], [1]);
const attention = (query: string[], key = query) => attentionOf("encoder", 0, "self", WEIGHTS, query, key);

test("each token has the prediction after the token before it, and one more step follows the last token", () => {
  const predictions = [-1, 0, 1].map((place) => prediction("after", [place], "abc"[place + 1], { kind: "token" }));
  const steps = stepsOf(documentOf({ surfaces: [surface(["a", "b"], { separator: " " })], predictions }));
  expect(steps.map(({ label, log_probability }) => [label, log_probability])).toEqual([["a", -0.1], [" b", -0.1], [null, null]]);
  expect(steps.map((step) => step.alternatives[0].label)).toEqual(["a", "b", "c"]);
});

test("the row of a prediction: after a piece, at its piece, at its gap, or all rows for a whole input", () => {
  const surfaces = [surface(["a", "___", "___"])];
  const of = (labels: string[], kind: Parameters<typeof prediction>[0], pieces: number[]) => rowOf(attention(labels), prediction(kind, pieces, "x"), surfaces);
  expect([of(["<s>", "a", "___", "___"], "after", [-1]), of(["<s>", "a", "___", "___"], "after", [2])]).toEqual([0, 3]);
  expect([of(["<s>", "a", "___", "___"], "piece", [1]), of(["a", "___", "___"], "piece", [1])]).toEqual([2, 1]);
  expect([of(["<s>", "a", "b", "___", "___"], "gap", [1]), of(["<s>", "a", "b", "___", "___"], "gap", [2])]).toEqual([3, 4]);
  expect([of(["answer"], "whole", []), of(["<s>", "a"], "whole", []), of(["a"], "node", [2])]).toEqual([0, null, 0]);
});

test("pieces have the words of their surface, and decoder inputs are shifted by one piece", () => {
  const found = inspectionOf("a", { surfaces: [surface(["a", "b", "</s>"], { words: [0, 0, 1], spelled: ["ab", "</s>"] })] });
  expect(wordsOf(found, ["a", "b", "</s>"])).toEqual({ of: [0, 0, 1], spelled: ["ab", "</s>"] });
  expect(wordsOf(found, ["<s>", "a", "b"])).toEqual({ of: [0, 1, 1], spelled: ["<s>", "ab"] });
  expect(wordsOf(found, ["x", "y"])).toEqual({ of: [0, 1], spelled: ["x", "y"] });
});

test("the type of an attention in words", () => {
  const name = (side: string, part: string) => groupOf(attentionOf(side, null, part, WEIGHTS, ["a"], ["a"]));
  expect([name("encoder", "self"), name("decoder", "source"), name("pooling", ""), name("encoder", "edges of n0"), name("", "self")]).toEqual([
    "Encoder self-attention", "Encoder-decoder attention", "Pooling", "Encoder attention along edges of n0", "Self-attention",
  ]);
});

test("an output is the pieces of a translation, or the most probable labels, each at its site", () => {
  const steps = [prediction("after", [-1], "a", { alternatives: [{ label: "b", log_probability: -0.1 }] }), prediction("after", [0], "c")];
  const found = documentOf({ surfaces: [surface(["a"])], predictions: [...steps, prediction("whole", [], "good")] });
  expect(outputOf(found)).toEqual(["b", "c", "good"]);
  expect(found.predictions.map((each) => siteName(found, each))).toEqual(["start", "after a", "answer"]);
  expect(outputOf(inspectionOf("x"))).toEqual(["a", "</s>"]);
});
