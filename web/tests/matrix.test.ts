import { expect, test } from "vitest";
import { decode, largest, mean, pick, plane, renormalize, row, stretch } from "../src/matrix";
import { floats } from "./floats";

const two = floats([2, 2, 3], [1, 0, 0, 0.5, 0.25, 0.25, 0, 1, 0, 0, 0, 0]);

test("base64 is decoded once", () => {
  expect([...decode(floats([3], [1.5, -2, 0.25]))]).toEqual([1.5, -2, 0.25]);
  expect(decode(two)).toBe(decode(two));
});

test("a plane is one head, and the mean is over all heads", () => {
  expect([...plane(two, 1).values]).toEqual([0, 1, 0, 0, 0, 0]);
  expect([...mean(two).values]).toEqual([0.5, 0.5, 0, 0.25, 0.125, 0.125]);
  expect([...row(plane(two, 0), 1)]).toEqual([0.5, 0.25, 0.25]);
});

test("without some columns, rows sum to 1 again, and rows of zeros stay zero", () => {
  const kept = renormalize(pick(plane(two, 0), [0, 1], [1, 2]));
  expect([...kept.values]).toEqual([0, 0, 0.5, 0.5]);
  expect([...renormalize(plane(two, 1)).values]).toEqual([0, 1, 0, 0, 0, 0]);
});

test("stretched rows have maximum 1, and the original matrix does not change", () => {
  expect([...stretch(plane(two, 0)).values]).toEqual([1, 0, 0, 1, 0.5, 0.5]);
  expect(plane(two, 0).values[3]).toBe(0.5);
  expect(largest(plane(two, 0))).toBe(1);
});
