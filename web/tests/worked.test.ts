import { expect, test } from "vitest";
import type { Vectors } from "../src/document";
import { softmax, weightedValues, work, workTerms } from "../src/worked";
import { floats } from "./floats";

const vectors: Vectors = {
  kind: "product",
  scale: 0.5,
  query: floats([1, 2, 2], [1, 2, 3, 4]),
  key: floats([1, 2, 2], [1, 0, -1, 1]),
  value: floats([1, 2, 2], [1, 2, 3, 4]),
  allowed: floats([2, 2], [1, 1, 1, 1]),
  vector: null,
  bias: null,
  formula: "q·k / 2",
};

test("softmax ignores masked energies", () => {
  expect(softmax([0, 0, 100], [false, false, true]).weights).toEqual([0.5, 0.5, 0]);
  expect(softmax([1, 2], [true, true]).weights).toEqual([0, 0]);
});

test("terms, energy and row of a dot product", () => {
  const worked = work(vectors, 0, 1, 1, [0.7, 0.3]);
  expect(worked.terms.map((term) => term.value)).toEqual([-3, 4]);
  expect([worked.sum, worked.energy, worked.bias]).toEqual([1, 0.5, null]);
  expect(worked.row[0].weight).toBeCloseTo(1 / (1 + Math.exp(-1)));
  expect(worked.row.map((entry) => entry.recorded)).toEqual([0.7, 0.3]);
});

test("a bias is added after the scale", () => {
  const worked = work({ ...vectors, bias: floats([1, 2, 2], [0, 0, 0, 2]) }, 0, 1, 1, [0.5, 0.5]);
  expect([worked.bias, worked.energy]).toEqual([2, 2.5]);
});

test("masked keys have weight 0, and a weight that underflows to 0 is not masked", () => {
  expect(work(vectors, 0, 0, 0, [1, 0]).row.map((entry) => entry.masked)).toEqual([false, false]);
  const { row } = work({ ...vectors, allowed: floats([2, 2], [1, 0, 1, 1]) }, 0, 0, 0, [1, 0]);
  expect(row.map((entry) => [entry.masked, entry.weight])).toEqual([[false, 1], [true, 0]]);
});

test("terms of additive attention", () => {
  const additive: Vectors = { ...vectors, kind: "additive", vector: floats([1, 2], [2, 3]) };
  const values = workTerms(additive, 0, 0, 1).map((term) => term.value);
  expect(values[0]).toBe(0);
  expect(values[1]).toBeCloseTo(3 * Math.tanh(3));
});

test("values times weights, and their sum", () => {
  expect(weightedValues(vectors, 0, [0.5, 0.5])).toEqual({ parts: [[0.5, 1], [1.5, 2]], total: [2, 3] });
});
