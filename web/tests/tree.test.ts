import { expect, test } from "vitest";
import type { BeamNode } from "../src/document";
import { growBeam, placeBeam } from "../src/tree";

function node(id: number, parent: number | null, step: number, total: number, best = false): BeamNode {
  return { id, parent, step, token: id, piece: `p${id}`, log_probability: -1, total, score: null, state: "live", best };
}

const nodes = [
  node(0, null, 0, -1),
  node(1, null, 0, -2, true),
  node(2, 0, 1, -3),
  node(3, 1, 1, -4, true),
  node(4, 1, 1, -3),
  node(5, 3, 2, -5, true),
  node(6, 3, 2, -6),
];

test("the root of the hypotheses is the empty output", () => {
  const root = growBeam(nodes);
  expect(root.node).toBeNull();
  expect(root.children.map((branch) => branch.node?.id)).toEqual([0, 1]);
});

test("the best path is in the first row, and no two nodes have the same position", () => {
  const { nodes: placed, depth, rows } = placeBeam(nodes);
  expect(placed.filter((place) => place.node?.best).map((place) => place.row)).toEqual([0, 0, 0]);
  expect(new Set(placed.map((place) => `${place.depth} ${place.row}`)).size).toBe(nodes.length + 1);
  expect(placed.every((place) => place.parent === null || placed[place.parent].row <= place.row)).toBe(true);
  expect([depth, rows]).toEqual([3, 3]);
});

test("parents and children refer to each other", () => {
  const { nodes: placed } = placeBeam(nodes);
  placed.forEach((place, index) => place.children.forEach((child) => expect(placed[child].parent).toBe(index)));
});
