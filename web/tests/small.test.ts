import { expect, test, vi } from "vitest";

vi.hoisted(() => {
  const store = { getItem: () => null, setItem: () => undefined };
  Object.assign(globalThis, { matchMedia: () => ({ matches: false, addEventListener: () => undefined }), document: { getElementById: () => null }, localStorage: store });
});
import { readAddress, writeAddress } from "../src/address";
import { plotsOf } from "../src/curves";
import { firstDifference } from "../src/difference";
import type { Inspection } from "../src/document";
import { exact, fileName, fixed, percent } from "../src/format";
import { fillTemplate, scriptJson } from "../src/offline";
import { detailsOf } from "./server";

test("the first difference", () => {
  expect(firstDifference(["a", "b"], ["a", "b"])).toBeNull();
  expect(firstDifference(["a", "b"], ["a", "c"])).toBe(1);
  expect(firstDifference(["a"], ["a", "c"])).toBe(1);
});

test("a permalink is read back with equal values", () => {
  const address = { text: "Ein & Haus #1", model: "m", checkpoint: "best", beam: 4, lengthPenalty: 0.6, coveragePenalty: 0.2, sentence: 1, force: [3, 5], settings: { top_k: 5, new: true }, view: { head: "encoder.1.self:2", at: -1, cell: [2, 0] as [number, number], show: "rollout" as const, unit: "words" as const, lock: "query:3" } };
  expect(readAddress(writeAddress(address), "")).toEqual(address);
  expect(readAddress("", "?text=Haus")).toMatchObject({ text: "Haus", beam: null, force: [] });
  expect(readAddress("#force=1,x,2&beam=", "")).toMatchObject({ force: [1, 2], beam: null });
});

test("each metric has a plot: the loss first, the rate last, with its baseline and the best checkpoint", () => {
  const curves = [
    { name: "training loss", unit: "nats", points: [[1, 5], [2, 4]] as [number, number][] },
    { name: "training rate", unit: "", points: [[1, 0.1]] as [number, number][] },
    { name: "validation loss", unit: "nats", points: [[2, 6], [3, 5]] as [number, number][] },
    { name: "validation accuracy", unit: "", baseline: "majority", points: [[2, 0.5], [3, 0.75]] as [number, number][] },
    { name: "validation majority", unit: "", points: [[2, 0.6], [3, 0.6]] as [number, number][] },
  ];
  const comparison = { description: "words", checkpoint: "best", metrics: { loss: { network: 5, baseline: 7, difference: -2, error: null } } };
  const plots = plotsOf({ ...detailsOf("one"), curves, comparison, checkpoints: ["2", "3", "best"], weights: { 2: "a", 3: "b", best: "b" } });
  expect(plots.map(({ title, lines }) => [title, ...lines.map(({ name, baseline }) => (baseline ? `--${name}` : name))])).toEqual([
    ["loss", "training loss", "validation loss", "--baseline"], ["accuracy", "validation accuracy", "--majority"], ["learning rate", "training rate"],
  ]);
  expect(plots[0].columns).toEqual([[1, 2, 3], [5, 4, null], [null, 6, 5], [7, 7, 7]]);
  expect(plots.map(({ best }) => best)).toEqual([3, 3, 3]);
});

test("numbers have a Unicode minus sign, and 0 has no sign", () => {
  expect([fixed(-1.5), fixed(-0.001), exact(-0.5), exact(0), percent(Math.log(0.25))]).toEqual(["−1.50", "0.00", "−0.50000", "0", "25.0 %"]);
});

test("file names and JSON in a script", () => {
  expect(fileName("Ein Haus, groß!", "svg")).toBe("regard-ein-haus-groß.svg");
  expect(scriptJson({ a: "</script>" })).toBe('{"a":"\\u003c/script>"}');
});

test("any data is inserted into the empty script element", () => {
  const template = '<script type="module">const a = "$&";</script><script type="application/json" id="bundle"></script>';
  const filled = fillTemplate(template, { main: { score: "$& </script>" } as unknown as Inspection });
  expect(filled).toBe(template.replace('"></script>', () => '">{"main":{"score":"$& \\u003c/script>"}}</script>'));
  expect(() => fillTemplate("<p></p>", { main: {} as Inspection })).toThrow();
});
