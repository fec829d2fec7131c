import { expect, test } from "vitest";
import type { Inspection, Observation } from "../src/document";
import { readDocument, writtenDocument, type InspectionDocument, type Prediction } from "../src/reading";
import { floats } from "./floats";

const WEIGHTS = floats([1, 2, 2], [1, 0, 0.5, 0.5]);
const AXIS = { name: "token", labels: ["a", "b"] };
const MAP = { side: "decoder", layer: 0, part: "self", weights: WEIGHTS, allowed: null, query: AXIS, key: AXIS, measures: {} };

function surface(pieces: string[], separator = "") {
  return { kind: "tokens", pieces, words: [0, 1], spelled: pieces, ids: [5, 3], separator, edges: [], center: null };
}

function prediction(kind: Prediction["at"]["kind"], pieces: number[], label: string, more: Partial<Prediction> = {}): Prediction {
  const alternatives = [{ label, log_probability: -0.1, id: 7 }];
  return { at: { kind, pieces, surface: 0 }, kind: "token", label, log_probability: -0.1, alternatives, entropy: 0.5, rank: 0, ...more };
}

function document(more: Partial<InspectionDocument>): InspectionDocument {
  return {
    format: "regard-inspection", version: 2, model: { name: "one", task: "masked", checkpoint: "best" }, text: "a b", surfaces: [surface(["a", "b"], " ")],
    predictions: [], attention: { "decoder.0.self": MAP }, influences: [], facts: {}, ...more,
  };
}

const observed = (more: Partial<InspectionDocument>) => readDocument(document(more)) as Observation;

test("a tagger's tokens are steps, joined by spaces", () => {
  const found = observed({ predictions: [prediction("piece", [0], "DET"), prediction("piece", [1], "NOUN")] });
  expect(found.steps.map((step) => [step.label, step.alternatives[0].label])).toEqual([["a", "DET"], [" b", "NOUN"]]);
  expect(found.following).toEqual([]);
  expect(found.attention["decoder.0.self"]).toEqual({ weights: WEIGHTS, query: AXIS, key: AXIS });
});

test("a token is predicted after the one before it, and something follows the last", () => {
  const predictions = [prediction("after", [-1], "a"), prediction("after", [0], "b"), prediction("after", [1], "c")];
  const found = observed({ predictions });
  expect(found.steps.map((step) => step.alternatives[0].label)).toEqual(["a", "b"]);
  expect(found.following[0].label).toBe("c");
});

test("a gap has candidates, and what is read is certain", () => {
  const found = observed({ surfaces: [surface(["a ", "___"])], predictions: [prediction("gap", [1], "b")] });
  expect(found.steps.map((step) => [step.label, step.log_probability, step.alternatives.length])).toEqual([["a ", 0, 0], ["___", -0.1, 1]]);
});

test("labels of the whole follow, and a number has no alternatives", () => {
  expect(observed({ predictions: [prediction("whole", [], "good")] }).following[0].label).toBe("good");
  const number = prediction("whole", [], "3.5", { kind: "number", log_probability: null, alternatives: [] });
  expect(observed({ predictions: [number] }).following).toEqual([{ label: "3.5", log_probability: 0 }]);
});

const search = { settings: { beam: 4, length_penalty: 0.6, nbest: 1 }, forced: 0, candidate: 0, candidates: [], output: "A", score: -1, log_probability: -1, finished: true };

test("a translation has two sides, and steps of its pieces", () => {
  const target = surface(["A", "</s>"]);
  const found = readDocument(document({ search, surfaces: [surface(["a", "</s>"]), target], predictions: [prediction("after", [-1], "A"), prediction("after", [0], "</s>")] })) as Inspection;
  expect([found.source.text, found.target.text, found.target.inputs]).toEqual(["a b", "A", ["<s>", "A"]]);
  expect(found.steps[0]).toEqual({ entropy: 0.5, rank: 0, log_probability: -0.1, candidates: [{ id: 7, piece: "A", log_probability: -0.1 }] });
  expect(found.attention["decoder.0.self"].kind).toBe("decoder");
});

test("what is exported is what Python wrote, with the parts that came later", () => {
  const written = document({ search, surfaces: [surface(["a"]), surface(["A"])] });
  const found = readDocument(written) as Inspection;
  expect(writtenDocument({ ...found, ablation: { x: [1] } })).toEqual({ ...written, ablation: { x: [1] } });
  expect(writtenDocument(observed({}))).toEqual(document({}));
});

test("a document of version 1 is shown as it is", () => {
  const old = { format: "regard-observation", version: 1, text: "a" } as unknown as Observation;
  expect(readDocument(old)).toBe(old);
  expect(writtenDocument(old)).toBe(old);
});

test("a model of a network and its baseline has the parts of its output", () => {
  const parts = { network: 0.5, baseline: -2 };
  expect(observed({ facts: { parts } }).parts).toEqual(parts);
  expect(observed({}).parts).toBeUndefined();
});
