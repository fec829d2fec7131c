import { expect, test } from "vitest";
import { answersOf, huesOf, influenceOf, inputsOf, isContinued } from "../src/answers";
import type { Observation } from "../src/document";
import { readDocument, type InspectionDocument, type Prediction, type Surface } from "../src/reading";

function surface(pieces: string[], more: Partial<Surface> = {}): Surface {
  return { kind: "tokens", pieces, words: [], spelled: [], ids: [], separator: "", edges: [], center: null, ...more };
}

function prediction(kind: Prediction["at"]["kind"], pieces: number[], label: string, more: Partial<Prediction> = {}): Prediction {
  const alternatives = [{ label, log_probability: -0.1 }, { label: "other", log_probability: -2.3 }];
  return { at: { kind, pieces, surface: 0 }, kind: "label", label, log_probability: -0.1, alternatives, entropy: null, rank: null, ...more };
}

function observed(surfaces: Surface[], predictions: Prediction[]): Observation {
  const model = { name: "one", task: "some", checkpoint: "best" };
  const document: InspectionDocument = {
    format: "regard-inspection", version: 2, model, text: "as typed", surfaces, predictions, attention: {}, influences: [], facts: {},
  };
  return readDocument(document) as Observation;
}

test("a label of the whole input is ranked among the others, and two texts are shown without their symbols", () => {
  const found = observed([surface(["<s>", "a", "b", "</s>"]), surface(["c"])], [prediction("whole", [], "good")]);
  expect(answersOf(found)).toMatchObject([{ form: "ranked", about: null, options: [{ label: "good" }, { label: "other" }] }]);
  expect(inputsOf(found)).toEqual(["a b", "c"]);
  expect(isContinued(found)).toBe(false);
});

test("a number is its own answer", () => {
  expect(answersOf(observed([surface(["a"])], [prediction("whole", [], "3.5", { kind: "number" })]))).toEqual([{ form: "number", value: "3.5" }]);
});

test("all tags are one answer, and pieces without a gap have none", () => {
  const tags = answersOf(observed([surface(["a", "b"])], [prediction("piece", [0], "DET"), prediction("piece", [1], "NOUN")]));
  expect(tags).toMatchObject([{ form: "tags", pieces: [{ text: "a", answer: { label: "DET" } }, { text: "b", answer: { label: "NOUN" } }] }]);
  const gaps = answersOf(observed([surface(["the ", "___"])], [prediction("gap", [1], "cat")]));
  expect(gaps).toMatchObject([{ form: "gaps", pieces: [{ text: "the ", answer: null }, { text: "___", answer: { label: "cat" } }] }]);
});

test("of several nodes the first was asked for, and a link is between two", () => {
  const graph = surface(["ann", "bob"], { kind: "graph", edges: [[0, 1]] });
  const nodes = observed([graph], [prediction("node", [0], "reader"), prediction("node", [1], "writer")]);
  expect(answersOf(nodes)).toMatchObject([{ form: "ranked", about: "ann", options: [{ label: "reader" }, {}] }]);
  expect(inputsOf(nodes)).toEqual(["a graph of 2 nodes and 1 edge"]);
  expect(answersOf(observed([graph], [prediction("pair", [0, 1], "edge")]))).toMatchObject([{ about: "ann – bob" }]);
});

test("the next item follows the last, and a language model answers in its text", () => {
  const items = observed([surface(["i1", "i2"], { separator: " " })], [prediction("after", [0], "i2", { kind: "item" }), prediction("after", [1], "i3", { kind: "item" })]);
  expect(answersOf(items)).toMatchObject([{ form: "next", options: [{ label: "i3" }, {}] }]);
  const tokens = observed([surface(["a", "b"])], [prediction("after", [0], "b", { kind: "token" })]);
  expect([answersOf(tokens), isContinued(tokens)]).toEqual([[], true]);
});

test("labels have different hues", () => {
  expect([...huesOf(["b", "a", "b", "c"]).entries()]).toEqual([["a", 0], ["b", 120], ["c", 240]]);
});

test("the influence on what follows is shown unless another answer is chosen, and that of both texts of a pair", () => {
  const influences = [0, 1].map((prediction) => ({ prediction, surface: 0, values: [prediction, 2], hidden: "left out" }));
  const items = observed([surface(["i1", "i2"])], [prediction("after", [0], "i2"), prediction("after", [1], "i3")]).written as InspectionDocument;
  expect(influenceOf({ ...items, influences }, null, null)).toMatchObject({ label: "i3", values: [1, 2] });
  expect(influenceOf({ ...items, influences }, null, 0)).toMatchObject({ label: "i2", values: [0, 2] });
  const pair = observed([surface(["a"]), surface(["b"])], [prediction("whole", [], "good")]).written as InspectionDocument;
  const both = [0, 1].map((surface) => ({ prediction: 0, surface, values: [surface - 0.5], hidden: "left out" }));
  expect(influenceOf({ ...pair, influences: both }, null, null)).toMatchObject({ pieces: ["a", "b"], values: [-0.5, 0.5], least: -0.5, most: 0.5 });
  expect(influenceOf(pair, null, null)).toBeNull();
});
