import { afterEach, expect, test, vi } from "vitest";
import { layColumns, layRows } from "../src/aligned";
import { layerColor, layerDash } from "../src/color";
import { drawAligned } from "../src/drawing";
import { fitting, readLate, showAligned, toggled } from "../src/shown";
import { floats } from "./floats";
import { inspectionOf, openExample } from "./server";

afterEach(() => vi.unstubAllGlobals());

const base = inspectionOf("a");
const source = base.attention["decoder.0.source"];
const found = {
  ...base,
  attention: { "encoder.0.self": { ...source, side: "encoder", part: "self" }, "decoder.0.source": source, "decoder.1.source": source },
  alignment: { attention: "decoder.0.source", head: 1, shift: 1, why: "It fits.", links: [], weights: floats([2, 2], [0.25, 0.75, 0, 0]) },
};
const head = (attention: string, head: number | null) => ({ attention, head });

test("heads of one type and any layer can be overlaid, and the chosen head is drawn once", () => {
  const wanted = [head("decoder.1.source", 0), head("encoder.0.self", 0), head("decoder.0.source", 1), head("decoder.0.source", 5), head("gone", 0)];
  expect(fitting(found, head("decoder.0.source", 1), wanted)).toEqual([head("decoder.1.source", 0)]);
  expect(fitting(found, head("encoder.0.self", 1), wanted)).toEqual([head("encoder.0.self", 0)]);
});

test("a head is added and removed", () => {
  const one = toggled([], head("a", 0));
  expect(toggled(one, head("a", 1))).toEqual([head("a", 0), head("a", 1)]);
  expect(toggled(one, head("a", 0))).toEqual([]);
});

test("only the aligning head is read one step late", () => {
  expect(readLate(found, head("decoder.0.source", 1))).toBe(true);
  expect([...showAligned(found, head("decoder.0.source", 1)).matrix.values]).toEqual([0.25, 0.75, 0, 0]);
  expect(readLate(found, head("decoder.0.source", 0))).toBe(false);
  expect(readLate({ ...found, alignment: { ...found.alignment, shift: 0 } }, head("decoder.0.source", 1))).toBe(false);
});

test("links of several heads are next to each other, and links of one head are in the middle", () => {
  const measure = (text: string) => 8 * text.length;
  const link = { query: 0, key: 0, weight: 0.5 };
  const two = [{ ...link, layer: 0 }, { ...link, layer: 1 }];
  for (const layout of [layRows, (...[keys, queries, links]: Parameters<typeof layRows>) => layColumns(keys, queries, links, measure, 300)]) {
    const paths = layout(["a"], ["b"], two, measure).arcs.map((arc) => arc.path);
    const middle = layout(["a"], ["b"], [link], measure).arcs[0].path;
    expect(new Set([...paths, middle]).size).toBe(3);
  }
  const svg = drawAligned(layRows(["a"], ["b"], two, measure), { title: "two heads", source: "" }, measure);
  for (const layer of [0, 1]) expect(svg).toContain(`stroke="${layerColor(layer, false)}" stroke-dasharray="${layerDash(layer) || "none"}"`);
});

test("heads differ in color or dash", () => {
  for (const dark of [false, true]) {
    const looks = Array.from({ length: 8 }, (_, layer) => layerColor(layer, dark));
    expect(new Set(looks).size).toBe(8);
  }
  expect(layerDash(0)).toBe("");
  expect(new Set([0, 1, 2, 3].map(layerDash)).size).toBe(4);
});

test("the drawing and its title include the overlaid heads", async () => {
  const { state } = await openExample();
  const { alignedView } = await import("../src/views");
  state.choice.value = head("decoder.0.source", 0);
  expect(alignedView.value!.links.map((link) => [link.layer, link.query, link.key])).toEqual([[0, 0, 0], [0, 1, 1]]);
  state.overlay.value = [head("decoder.0.source", 1)];
  expect(alignedView.value!.links.slice(2).map((link) => [link.layer, link.query, link.key])).toEqual([[1, 0, 1], [1, 1, 0]]);
  expect(alignedView.value!.title).toBe("decoder.0.source, head 0, and 1 more");
});
