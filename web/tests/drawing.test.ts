import { expect, test } from "vitest";
import { layColumns, layRows } from "../src/aligned";
import { colorOf } from "../src/color";
import { drawAligned, drawHeatMap, escapeMarkup } from "../src/drawing";

const measure = (text: string) => 8 * text.length;
const links = [{ query: 1, key: 0, weight: 0.75 }];

test("markup is escaped", () => {
  expect(escapeMarkup(`</s> & "a"`)).toBe("&lt;/s&gt; &amp; &quot;a&quot;");
});

test("rows: pieces follow each other and the arc joins them", () => {
  const layout = layRows(["a", "bc"], ["d", "e"], links, measure);
  expect(layout.keys[1].x).toBe(layout.keys[0].x + layout.keys[0].width + 4);
  expect(layout.arcs).toHaveLength(1);
  expect(layout.arcs[0].path.startsWith(`M${layout.keys[0].x + layout.keys[0].width / 2},`)).toBe(true);
});

test("columns: as high as the longer side, and inside the room", () => {
  const layout = layColumns(["a", "b", "c"], ["d", "e"], links, measure, 320);
  expect(layout.keys[2].y).toBeGreaterThan(layout.keys[1].y);
  expect(layout.width).toBeLessThanOrEqual(320);
});

test("the aligned text is a drawing of its own", () => {
  const svg = drawAligned(layRows(["a", "</s>"], ["d", "e"], links, measure), "head 1 <x>");
  expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" .*<\/svg>$/);
  expect(svg).toContain("&lt;/s&gt;");
  expect(svg).toContain("head 1 &lt;x&gt;");
  expect(svg.match(/<path /g)).toHaveLength(1);
});

test("the heat map draws each cell, the largest darkest", () => {
  const matrix = { rows: 1, columns: 2, values: Float32Array.from([0.25, 0.5]) };
  const svg = drawHeatMap(matrix, ["q"], ["a", "b"], "t", measure);
  expect(svg.match(/<title>0\./g)).toHaveLength(2);
  expect(svg).toContain(`rgb(${colorOf(1, false)})`);
});

test("the colors run evenly in lightness", () => {
  for (const dark of [false, true]) {
    const lightness = Array.from({ length: 101 }, (_, index) => {
      const [red, green, blue] = colorOf(index / 100, dark);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    });
    const sorted = [...lightness].sort((a, b) => (dark ? a - b : b - a));
    expect(lightness).toEqual(sorted);
  }
});
