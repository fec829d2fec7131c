// A page without a browser, before a server that answers when the test says so.
import { vi } from "vitest";
import type { Attention, Floats, Inspection, ModelDetails, Prediction, SiteKind, Surface } from "../src/document";
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
    name, source: "en", target: "de", checkpoints: ["100", "200", "best"], checkpoint: "best", weights, examples: [`Example of ${name}.`],
    limits: LIMITS, search: { beam: 4, length_penalty: 0.6, nbest: 1 }, parts: [], curves: [],
  };
}

export function surfaceOf(pieces: string[], more: Partial<Surface> = {}): Surface {
  return { kind: "tokens", pieces, words: [], spelled: [], ids: [], separator: "", edges: [], center: null, ...more };
}

export function predictionOf(kind: SiteKind, pieces: number[], label: string, more: Partial<Prediction> = {}): Prediction {
  const alternatives = [{ label, log_probability: -0.1, id: 7 }, { label: "other", log_probability: -2.3, id: 8 }];
  return { at: { kind, pieces, surface: 0 }, kind: "label", label, log_probability: -0.1, alternatives, entropy: 0.5, rank: 0, ...more };
}

/** An inspection of any task. */
export function documentOf(more: Partial<Inspection> = {}): Inspection {
  const model = { name: "one", task: "some", checkpoint: "best" };
  return { format: "regard-inspection", version: 2, model, text: "as typed", surfaces: [], predictions: [], attention: {}, influences: [], facts: {}, ...more };
}

export function attentionOf(side: string, layer: number | null, part: string, weights: Floats, query: string[], key: string[], more: Partial<Attention> = {}): Attention {
  return { side, layer, part, mechanism: "dot", weights, allowed: null, query: { name: "query", labels: query }, key: { name: "key", labels: key }, measures: {}, ...more };
}

/** The inspection of a translation to upper case. */
export function inspectionOf(text: string, more: Partial<Inspection> = {}): Inspection {
  const surface = surfaceOf(["a", "</s>"], { words: [0, 1], spelled: ["a", "</s>"], ids: [5, 3] });
  const weights = floats([2, 2, 2], [1, 0, 0, 1, 0, 1, 1, 0]);
  const search = { settings: { beam: 4, length_penalty: 0.6, nbest: 4 }, forced: 0, candidate: 0, candidates: [], output: text.toUpperCase(), score: -1, log_probability: -1, finished: true };
  return documentOf({
    model: { name: "one", task: "translation", checkpoint: "best", source_language: "en", target_language: "de" }, text,
    surfaces: [surface, surface], search, attention: { "decoder.0.source": attentionOf("decoder", 0, "source", weights, surface.pieces, surface.pieces) },
    alignment: null, rollout: {}, ...more,
  });
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
  const actions = { ...(await import("../src/actions")), ...(await import("../src/inspecting")) };
  const state = await import("../src/state");
  const predicting = await import("../src/predicting");
  return { asked, actions, predicting, state };
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
