import type { Inspection, ModelDetails, ModelEntry } from "./document";

export interface InspectRequest {
  text: string;
  model?: string;
  checkpoint?: string;
  beam?: number;
  length_penalty?: number;
  force?: number[];
  include?: ("ablation" | "vectors" | "beam")[];
}

/** The server asks for an API key, or refuses the one it got. */
export class KeyNeeded extends Error {}

const KEY = "regard-key";

export function keepKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

async function fetchChecked(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  const said = await response.json().then(
    (body: { error?: unknown }) => (typeof body.error === "string" ? body.error : ""),
    () => "",
  );
  const message = said || `The server answered with status ${response.status}.`;
  throw response.status === 401 || response.status === 403 ? new KeyNeeded(message) : new Error(message);
}

export async function fetchModels(): Promise<ModelEntry[]> {
  return (await fetchChecked("./v1/models")).json();
}

export async function fetchDetails(name: string): Promise<ModelDetails> {
  return (await fetchChecked(`./v1/models/${encodeURIComponent(name)}`)).json();
}

export async function inspect(request: InspectRequest, signal: AbortSignal): Promise<Inspection> {
  const headers = { "Content-Type": "application/json" };
  return (await fetchChecked("./v1/inspect", { method: "POST", headers, body: JSON.stringify(request), signal })).json();
}

export async function fetchTemplate(): Promise<string> {
  return (await fetchChecked("./offline.html")).text();
}
