import type { Inspection, ModelDetails, ModelEntry } from "./document";
import { refusal } from "./limits";
import type { StreamAnswer } from "./arriving";

export interface InspectRequest {
  text: string;
  model?: string;
  checkpoint?: string;
  beam?: number;
  nbest?: number;
  length_penalty?: number;
  coverage_penalty?: number;
  force?: number[];
  candidate?: number;
  sentence?: number;
  include?: ("ablation" | "vectors" | "beam" | "influence" | "lens")[];
  settings?: Record<string, number | boolean>;
}

/** The server requires an API key, or rejected the key. */
export class KeyNeeded extends Error {}

/** The request contradicts an earlier one. */
export class Conflict extends Error {}

const KEY = "regard-key";

export function keepKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

export function storedKey(): string | null {
  return sessionStorage.getItem(KEY);
}

/** The address of the server, which a proxy may serve below a path; without a slash at its end. */
export function serverAddress(): string {
  return new URL(".", location.origin + location.pathname).href.replace(/\/$/, "");
}

/** The address of a WebSocket of the server. */
export function socketAddress(path: string): string {
  const address = new URL(path, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  return address.href;
}

async function fetchChecked(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const key = storedKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The server does not respond. Check that it is running.");
  }
  if (response.ok) return response;
  const serverMessage = await response.json().then(
    (body: { error?: unknown }) => (typeof body.error === "string" ? body.error : ""),
    () => "",
  );
  const message = refusal(response.status, serverMessage, response.headers.get("Retry-After"));
  if (response.status === 409) throw new Conflict(message);
  throw response.status === 401 || response.status === 403 ? new KeyNeeded(message) : new Error(message);
}

function post(path: string, body: object, signal: AbortSignal): Promise<Response> {
  const headers = { "Content-Type": "application/json" };
  return fetchChecked(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export async function fetchModels(): Promise<ModelEntry[]> {
  return (await (await fetchChecked("./v1/models")).json()).data;
}

export async function fetchDetails(name: string): Promise<ModelDetails> {
  return (await fetchChecked(`./v1/models/${encodeURIComponent(name)}`)).json();
}

export async function inspect(request: InspectRequest, signal: AbortSignal): Promise<Inspection> {
  return (await post("./v1/inspect", request, signal)).json();
}

/** The output for one input, in the format of the task. */
export async function predictOne(input: string, model: string, settings: object, signal: AbortSignal): Promise<unknown> {
  return (await (await post("./v1/predict", { inputs: [input], model, settings }, signal)).json()).outputs[0];
}

/** Streams the continuation of a prompt. After each piece, `onText` receives the continuation up to there. */
export async function generate(prompt: string, model: string, settings: object, signal: AbortSignal, onText: (text: string) => void): Promise<void> {
  const response = await post("./v1/generate", { ...settings, prompt, model, stream: true }, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let [held, text, complete] = ["", "", false];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (held + part.value).split("\n\n");
    held = events.pop()!;
    for (const event of events) {
      const piece = JSON.parse(event.slice(event.indexOf("data: ") + "data: ".length));
      if (typeof piece.error === "string") throw new Error(piece.error);
      complete = piece.finish_reason !== null;
      onText((text += piece.text));
    }
  }
  if (!complete) throw new Error("The server stopped before the text was complete. Try again.");
}

/** Translates all sentences of a text, with required terms if a glossary is given. */
export async function translateWhole(request: InspectRequest & { glossary?: Record<string, string> }, signal: AbortSignal): Promise<string> {
  const { text, model, beam, length_penalty, coverage_penalty, glossary } = request;
  const result = await (await post("./v1/translate", { text, model, beam, length_penalty, coverage_penalty, glossary }, signal)).json();
  return result.translations[0].text;
}

/** Continues the translation of a source that is still arriving. */
export async function stream(body: object): Promise<StreamAnswer> {
  return (await post("./v1/stream", body, new AbortController().signal)).json();
}

export async function translateFile(file: File, model: ModelDetails, signal: AbortSignal): Promise<Blob> {
  const body = new FormData();
  body.set("file", file);
  body.set("model", model.name);
  body.set("source", model.source ?? "auto");
  body.set("target", model.target ?? "und");
  const result = await (await fetchChecked("./translate_file", { method: "POST", body, signal })).json();
  // Use the file name only: behind a proxy, the address in the response can differ from the address of the page.
  const name = String(result.translatedFileUrl).split("/").at(-1);
  return (await fetchChecked(`./download_file/${name}`, { signal })).blob();
}

export async function fetchTemplate(): Promise<string> {
  return (await fetchChecked("./offline.html")).text();
}
