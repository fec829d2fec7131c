import { readView, viewParameters, type View } from "./view";

/** The contents of a permalink. */
export interface Address {
  text: string;
  model: string;
  checkpoint: string;
  beam: number | null;
  lengthPenalty: number | null;
  coveragePenalty: number | null;
  sentence: number;
  force: number[];
  /** Settings of the output, by name. */
  settings: Record<string, number | boolean>;
  view: View;
}

function numberOf(value: string | null): number | null {
  return value === null || value === "" || !Number.isFinite(Number(value)) ? null : Number(value);
}

/** The settings in parameters such as "set.top_k=5". */
function readSettings(parameters: URLSearchParams): Address["settings"] {
  const entries = [...parameters].flatMap(([name, text]): [string, number | boolean][] => {
    const value = text === "true" ? true : text === "false" ? false : numberOf(text);
    return name.startsWith("set.") && value !== null ? [[name.slice(4), value]] : [];
  });
  return Object.fromEntries(entries);
}

export function readAddress(hash: string, query: string): Address {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const force = (parameters.get("force") ?? "").split(",").filter((id) => /^\d+$/.test(id));
  return {
    text: parameters.get("text") ?? new URLSearchParams(query).get("text") ?? "",
    model: parameters.get("model") ?? "",
    checkpoint: parameters.get("checkpoint") ?? "",
    beam: numberOf(parameters.get("beam")),
    lengthPenalty: numberOf(parameters.get("length_penalty")),
    coveragePenalty: numberOf(parameters.get("coverage_penalty")),
    sentence: Math.max(0, Math.trunc(numberOf(parameters.get("sentence")) ?? 0)),
    force: force.map(Number),
    settings: readSettings(parameters),
    view: readView(parameters),
  };
}

export function writeAddress(address: Address): string {
  const parameters = new URLSearchParams();
  if (address.text) parameters.set("text", address.text);
  if (address.model) parameters.set("model", address.model);
  if (address.checkpoint) parameters.set("checkpoint", address.checkpoint);
  if (address.beam !== null) parameters.set("beam", String(address.beam));
  if (address.lengthPenalty !== null) parameters.set("length_penalty", String(address.lengthPenalty));
  if (address.coveragePenalty !== null) parameters.set("coverage_penalty", String(address.coveragePenalty));
  if (address.sentence) parameters.set("sentence", String(address.sentence));
  if (address.force.length) parameters.set("force", address.force.join(","));
  for (const [name, value] of Object.entries(address.settings)) parameters.set(`set.${name}`, String(value));
  for (const [name, value] of viewParameters(address.view)) parameters.set(name, value);
  return `#${parameters}`;
}
