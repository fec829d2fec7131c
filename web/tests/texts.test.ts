import { expect, test } from "vitest";
import { spelledOut, unknownNotice } from "../src/characters";
import { distinct, identityOf, labelOf, others } from "../src/checkpoints";
import type { ModelDetails } from "../src/document";
import app from "../src/components/App.tsx?raw";
import { HELP, READ_LATE } from "../src/help";
import { directionOf, languageName, modelLabel } from "../src/languages";
import { fileProblem, refusal, textProblem } from "../src/limits";
import { detailsOf } from "./server";

const limits = detailsOf("one").limits!;

test("the help of every section has its content, how to read it, and its limits", () => {
  const panels = [...new Set([...app.matchAll(/\{ id: "(\w+)"/g)].map(([, id]) => id))];
  expect(panels.length).toBeGreaterThan(5);
  expect(Object.keys(HELP).sort()).toEqual([...panels].sort());
  for (const { content, reading, limits } of Object.values(HELP)) expect(Math.min(content.length, reading.length, limits.length)).toBeGreaterThan(40);
  expect(READ_LATE).toContain("next row");
});

test("limits are checked before a request", () => {
  expect(textProblem("a".repeat(40), limits)).toBe("");
  expect(textProblem("😀".repeat(41), limits)).toContain("41 characters, and the limit of this server is 40");
  expect(textProblem("a".repeat(99), undefined)).toBe("");
  expect(fileProblem({ name: "A.TXT", size: 10 }, limits)).toBe("");
  expect(fileProblem({ name: "a.docx", size: 10 }, limits)).toContain(".txt, .md");
  expect(fileProblem({ name: "a.md", size: 4096 }, limits)).toContain("less than 4 KiB");
});

test("error messages explain how to fix the request", () => {
  expect(refusal(413, "Invalid request: a body of more than 10 bytes", null)).toMatch(/too large.*Send a shorter.*A body of more than 10 bytes\.$/);
  expect(refusal(429, "Slowdown: 120 per 1 minute", "7")).toMatch(/Try again in 7 seconds\./);
  expect(refusal(429, "Slowdown", null)).toContain("Try again in a moment.");
  expect(refusal(429, "The quota of 5 characters is used up.", null)).toBe("The quota of 5 characters is used up.");
  expect(refusal(503, "This took more than 30 s.", "5")).toMatch(/in time.*smaller beam.*5 seconds/);
  expect(refusal(503, "The model m is still being loaded.", "10")).toBe("The model m is still being loaded. Try again in 10 seconds.");
  expect(refusal(400, "Invalid request: a text of 200 pieces is too long", null)).toBe("A text of 200 pieces is too long.");
  expect(refusal(500, "Internal server error", null)).toContain("The server failed.");
  expect(refusal(418, "", null)).toContain("418");
});

test("other checkpoints are listed once per weights, with all names, without the current weights", () => {
  const model = detailsOf("one");
  expect(distinct(model)).toEqual(["100", "200"]);
  expect(others(model, identityOf(model, "best"))).toEqual(["100"]);
  expect(others(model, identityOf(model, "200"))).toEqual(["100"]);
  expect(others(model, "another model's")).toEqual(["best", "100"]);
  expect([labelOf(model, "best"), labelOf(model, "100")]).toEqual(["best (= 200)", "100"]);
  const averaged: ModelDetails = { ...model, checkpoints: [...model.checkpoints, "average"], weights: { ...model.weights, average: "mean" } };
  expect(others(averaged, identityOf(averaged, "best"))).toEqual(["average", "100"]);
  const silent = { ...model, weights: undefined };
  expect(others(silent, identityOf(silent, "best"))).toEqual(["200", "100"]);
});

test("languages have English names", () => {
  expect(directionOf({ source: "en", target: "de" })).toBe("English → German");
  expect([directionOf({ source: null, target: "de" }), directionOf({})]).toEqual(["to German", ""]);
  expect([languageName("zz-invalid-code-x"), languageName(null)]).toEqual(["zz-invalid-code-x", ""]);
  expect(modelLabel({ name: "m", source: "en", target: "de", ready: false })).toBe("m: English → German – loads at first use");
});

test("unknown characters are listed with their code points", () => {
  expect([unknownNotice(undefined), unknownNotice([])]).toEqual(["", ""]);
  expect(unknownNotice(["猫"])).toMatch(/^1 character is unknown to this model: 猫 \(U\+732B\)\./);
  expect(unknownNotice([..."абвгдежзийклмн"])).toMatch(/^14 characters are .* and 2 more\./);
  expect(spelledOut("\u200b")).toBe("U+200B");
});
