import { expect, test } from "vitest";
import { layColumns, layRows } from "../src/aligned";
import { colorOf } from "../src/color";
import { drawAligned, drawHeatMap, drawStrip, escapeMarkup } from "../src/drawing";

const measure = (text: string) => 8 * text.length;
const links = [{ query: 1, key: 0, weight: 0.75 }];

test("markup is escaped", () => {
  expect(escapeMarkup(`</s> & "a"`)).toBe("&lt;/s&gt; &amp; &quot;a&quot;");
});

test("row layout: pieces do not overlap and arcs connect them", () => {
  const layout = layRows(["a", "bc"], ["d", "e"], links, measure);
  expect(layout.keys[1].x).toBe(layout.keys[0].x + layout.keys[0].width + 4);
  expect(layout.arcs).toHaveLength(1);
  expect(layout.arcs[0].path.startsWith(`M${layout.keys[0].x + layout.keys[0].width / 2},`)).toBe(true);
});

test("column layout: as high as the longer side and within the width", () => {
  const layout = layColumns(["a", "b", "c"], ["d", "e"], links, measure, 320);
  expect(layout.keys[2].y).toBeGreaterThan(layout.keys[1].y);
  expect(layout.width).toBeLessThanOrEqual(320);
});

test("the aligned text is a complete SVG document", () => {
  const svg = drawAligned(layRows(["a", "</s>"], ["d", "e"], links, measure), { title: "head 1 <x>", source: "m" }, measure);
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" .*<\/svg>$/);
  expect(svg).toContain("&lt;/s&gt;");
  expect(svg).toContain("head 1 &lt;x&gt;");
  expect(svg.match(/<path /g)).toHaveLength(1);
});

const width = (svg: string) => Number(/ width="(\d+)"/.exec(svg)![1]);
const HEAD = { title: "t", source: "model: a text" };

test("the heat map draws each cell, its axes, its scale and its mask, and is as wide as its title", () => {
  const matrix = { rows: 1, columns: 2, values: Float32Array.from([0.25, 0]) };
  const data = { matrix, queries: ["q"], keys: ["a", "b"], rowName: "token", columnName: "token read" };
  const svg = drawHeatMap({ ...data, allowed: { ...matrix, values: Float32Array.from([1, 0]) } }, HEAD, measure);
  expect(svg.match(/<title>0\./g)).toHaveLength(1);
  expect(svg).toContain("<title>hidden by the mask</title>");
  expect(svg).toContain(`rgb(${colorOf(1, false)})`);
  for (const label of ["key: token read", "query: token", "0.250 weight", "model: a text"]) expect(svg).toContain(label);
  expect(width(drawHeatMap({ ...data, allowed: null }, { ...HEAD, title: "t".repeat(100) }, measure))).toBeGreaterThanOrEqual(800);
});

test("a strip wraps lines, and pieces against the answer have a dashed border", () => {
  const strip = { mode: "influence" as const, label: "good", unit: "nats", lines: [{ pieces: ["a", "b", "c"], values: [1, -0.5, null], hidden: [false, false, false], surface: null }], min: -0.5, max: 1, note: "" };
  const svg = drawStrip(strip, HEAD, measure, 30);
  expect(svg.match(/<rect /g)).toHaveLength(4); // the sheet and three pieces
  expect(svg.match(/stroke-dasharray/g)).toHaveLength(1);
  expect(new Set([...svg.matchAll(/rx="3"/g)]).size).toBe(3);
  expect(svg).toContain("strongest 1.00 nats");
});

test("the color scales change evenly in lightness", () => {
  for (const dark of [false, true]) {
    const lightness = Array.from({ length: 101 }, (_, index) => {
      const [red, green, blue] = colorOf(index / 100, dark);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    });
    const sorted = [...lightness].sort((a, b) => (dark ? a - b : b - a));
    expect(lightness).toEqual(sorted);
  }
});
