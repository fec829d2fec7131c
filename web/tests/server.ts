// A page without a browser, before a server that answers when the test says so.
import { vi } from "vitest";
import type { Inspection, ModelDetails } from "../src/document";
import { floats } from "./floats";

export interface Asked {
  path: string;
  body: Record<string, unknown>;
  signal?: AbortSignal | null;
  answer: (body: unknown, status?: number) => Promise<void>;
}

const LIMITS = { characters: 40, pieces: 128, beam: 10, nbest: 10, file_bytes: 4096, files: [".txt", ".md"] };

export function detailsOf(name: string): ModelDetails {
  const weights = { 100: `${name} early`, 200: `${name} late`, best: `${name} late` };
  return {
    name, source: "en", target: "de", checkpoints: ["100", "200", "best"], checkpoint: "best", weights, example: `Example of ${name}.`,
    limits: LIMITS, search: { beam: 4, length_penalty: 0.6, nbest: 1 }, parts: [], curves: [],
  };
}

export function inspectionOf(text: string, more: Partial<Inspection> = {}): Inspection {
  const side = { text, ids: [5, 3], pieces: ["a", "</s>"], words: [0, 1], spelled: ["a", "</s>"] };
  const weights = floats([2, 2, 2], [1, 0, 0, 1, 0, 1, 1, 0]);
  return {
    format: "regard-inspection", version: 1, model: { name: "one", checkpoint: "best", source_language: "en", target_language: "de" },
    search: { beam: 4, length_penalty: 0.6, nbest: 4 }, forced: 0, source: side, target: { ...side, text: text.toUpperCase(), inputs: ["<s>", "a"] },
    score: -1, log_probability: -1, finished: true, candidates: [], steps: [],
    attention: { "decoder.0.source": { kind: "source", layer: 0, mechanism: "dot", weights, measures: {} } }, alignment: null, rollout: {}, ...more,
  };
}

/** The page's modules, new, and what they ask the server; models and details are answered at once. */
export async function openPage(hash = "", models = ["one", "two"], more: { entries?: Record<string, object>; details?: Record<string, object> } = {}) {
  vi.resetModules();
  const asked: Asked[] = [];
  const store = { getItem: () => null, setItem: () => undefined };
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined }));
  vi.stubGlobal("document", { getElementById: () => null, title: "" });
  vi.stubGlobal("window", { addEventListener: () => undefined });
  vi.stubGlobal("localStorage", store);
  vi.stubGlobal("sessionStorage", store);
  vi.stubGlobal("location", { hash, search: "" });
  vi.stubGlobal("history", { replaceState: (_: unknown, __: string, to: string) => (location.hash = to) });
  vi.stubGlobal("fetch", (path: string, options: RequestInit = {}) => {
    const said = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
    if (path === "./v1/models") return Promise.resolve(said({ data: models.map((name) => ({ name, source: "en", target: "de", ready: true, ...more.entries?.[name] })) }));
    if (path.startsWith("./v1/models/")) return Promise.resolve(said({ ...detailsOf(path.slice(12)), ...more.details?.[path.slice(12)] }));
    return new Promise<Response>((resolve) => {
      const body = typeof options.body === "string" ? JSON.parse(options.body) : {};
      // Even after an abort it may come: the page has to drop it itself.
      asked.push({ path, body, signal: options.signal, answer: async (found, status) => (resolve(found instanceof Response ? found : said(found, status)), await settled()) });
    });
  });
  const actions = { ...(await import("../src/actions")), ...(await import("../src/translating")) };
  const state = await import("../src/state");
  const observing = await import("../src/observing");
  return { asked, actions, observing, state };
}

/** After everything that waits for what has come already. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve));
}

/** The page with its example translated; what comes after it is still unanswered. */
export async function openExample() {
  const page = await openPage();
  page.actions.followForm();
  void page.actions.start();
  await settled();
  await page.asked[0].answer(inspectionOf("Example of one."));
  return page;
}
