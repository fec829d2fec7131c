import { expect, test } from "vitest";
import { answersOf, huesOf, inputsOf, isSpelled, spanLabel } from "../src/answers";
import type { Prediction, Surface } from "../src/document";
import { isContinued } from "../src/reading";
import { documentOf, predictionOf as prediction, surfaceOf as surface } from "./server";

const observed = (surfaces: Surface[], predictions: Prediction[]) => documentOf({ surfaces, predictions });

test("a label of the whole input is ranked with its alternatives, and two texts have no special symbols", () => {
  const found = observed([surface(["<s>", "a", "b", "</s>"]), surface(["c"])], [prediction("whole", [], "good")]);
  expect(answersOf(found)).toMatchObject([{ form: "ranked", about: null, options: [{ label: "good" }, { label: "other" }] }]);
  expect(inputsOf({ ...found, text: "a b\tc" })).toEqual(["a b", "c"]);
  expect(isContinued(found)).toBe(false);
});

test("a number is its own answer", () => {
  expect(answersOf(observed([surface(["a"])], [prediction("whole", [], "3.5", { kind: "number" })]))).toEqual([{ form: "number", value: "3.5" }]);
});

test("all tags are one answer, and pieces without a gap have no answer", () => {
  const tags = answersOf(observed([surface(["a", "b"])], [prediction("piece", [0], "DET"), prediction("piece", [1], "NOUN")]));
  expect(tags).toMatchObject([{ form: "tags", pieces: [{ text: "a", answer: { label: "DET" } }, { text: "b", answer: { label: "NOUN" } }] }]);
  const gaps = answersOf(observed([surface(["the ", "___"])], [prediction("gap", [1], "cat")]));
  expect(gaps).toMatchObject([{ form: "gaps", pieces: [{ text: "the ", answer: null }, { text: "___", answer: { label: "cat" } }] }]);
});

test("the first of several nodes is the answer, and a link names two nodes", () => {
  const graph = surface(["ann", "bob"], { kind: "graph", edges: [[0, 1]] });
  const nodes = observed([graph], [prediction("node", [0], "reader"), prediction("node", [1], "writer")]);
  expect(answersOf(nodes)).toMatchObject([{ form: "ranked", about: "ann", options: [{ label: "reader" }, {}] }]);
  expect(inputsOf(nodes)).toEqual(["a graph of 2 nodes and 1 edge"]);
  expect(answersOf(observed([graph], [prediction("pair", [0, 1], "edge")]))).toMatchObject([{ about: "ann – bob" }]);
});

test("the next item is ranked, and a language model has no separate answer", () => {
  const items = observed([surface(["i1", "i2"], { separator: " " })], [prediction("after", [0], "i2", { kind: "item" }), prediction("after", [1], "i3", { kind: "item" })]);
  expect(answersOf(items)).toMatchObject([{ form: "next", options: [{ label: "i3" }, {}] }]);
  const tokens = observed([surface(["a", "b"])], [prediction("after", [0], "b", { kind: "token" })]);
  expect([answersOf(tokens), isContinued(tokens)]).toEqual([[], true]);
});

test("labels have different hues", () => {
  expect([...huesOf(["b", "a", "b", "c"]).entries()]).toEqual([["a", 0], ["b", 120], ["c", 240]]);
});

test("a tag has the label of its span, and the tag O has no label", () => {
  expect(["B-PER", "I-PER", "O", "NOUN"].map(spanLabel)).toEqual(["PER", "PER", null, "NOUN"]);
});

test("letters are recognized", () => {
  expect([["<s>", "A", "C", "</s>"], ["A", "CG"], ["A"]].map((pieces) => isSpelled(surface(pieces)))).toEqual([true, false, false]);
});
