import { expect, test } from "vitest";
import { readAddress, writeAddress } from "../src/address";
import { plotsOf } from "../src/curves";
import { firstDifference } from "../src/difference";
import type { Inspection } from "../src/document";
import { exact, fileName, fixed, percent } from "../src/format";
import { fillTemplate, scriptJson } from "../src/offline";

test("the first difference", () => {
  expect(firstDifference(["a", "b"], ["a", "b"])).toBeNull();
  expect(firstDifference(["a", "b"], ["a", "c"])).toBe(1);
  expect(firstDifference(["a"], ["a", "c"])).toBe(1);
});

test("a permalink says what it was given", () => {
  const address = { text: "Ein & Haus #1", model: "m", checkpoint: "best", beam: 4, lengthPenalty: 0.6, coveragePenalty: 0.2, sentence: 1, force: [3, 5] };
  expect(readAddress(writeAddress(address), "")).toEqual(address);
  expect(readAddress("", "?text=Haus")).toMatchObject({ text: "Haus", beam: null, force: [] });
  expect(readAddress("#force=1,x,2&beam=", "")).toMatchObject({ force: [1, 2], beam: null });
});

test("curves of one unit share their updates", () => {
  const plots = plotsOf([
    { name: "train", unit: "nats", points: [[1, 5], [2, 4]] },
    { name: "valid", unit: "nats", points: [[2, 6], [3, 5]] },
    { name: "bleu", unit: "BLEU", points: [[3, 30]] },
  ]);
  expect(plots.map((plot) => plot.names)).toEqual([["train", "valid"], ["bleu"]]);
  expect(plots[0].columns).toEqual([[1, 2, 3], [5, 4, null], [null, 6, 5]]);
});

test("numbers are written with a true minus and no minus before 0", () => {
  expect([fixed(-1.5), fixed(-0.001), exact(-0.5), exact(0), percent(Math.log(0.25))]).toEqual(["−1.50", "0.00", "−0.50000", "0", "25.0 %"]);
});

test("file names and JSON in a script", () => {
  expect(fileName("Ein Haus, groß!", "svg")).toBe("regard-ein-haus-groß.svg");
  expect(scriptJson({ a: "</script>" })).toBe('{"a":"\\u003c/script>"}');
});

test("the data goes into the empty element, whatever it contains", () => {
  const template = '<script type="module">const a = "$&";</script><script type="application/json" id="bundle"></script>';
  const filled = fillTemplate(template, { main: { score: "$& </script>" } as unknown as Inspection });
  expect(filled).toBe(template.replace('"></script>', () => '">{"main":{"score":"$& \\u003c/script>"}}</script>'));
  expect(() => fillTemplate("<p></p>", { main: {} as Inspection })).toThrow();
});
