// The view of an inspection: all choices on the page. Links and saved pages contain it.
import { batch, signal } from "@preact/signals";
import type { Choice } from "./shown";
import { cell, channel, choice, place, position, unit } from "./state";
import { stripMode, type StripMode } from "./strip";

export interface Pointed {
  side: "query" | "key";
  index: number;
}

/** The locked piece of the aligned text. `view` identifies its drawing; null: any drawing. */
export const lock = signal<{ at: Pointed; view: string | null } | null>(null);

export interface View {
  /** Such as "encoder.0.self:2", "encoder.0.self" (mean of the heads) or "rollout:encoder". */
  head?: string;
  /** The site of the chosen answer. */
  at?: number;
  /** Query and key of the chosen cell. */
  cell?: [number, number];
  show?: StripMode;
  unit?: "words";
  lock?: string;
  /** The chosen frame, time step or patch. */
  position?: number;
  /** The drawn series. */
  series?: string;
}

function writeHead(chosen: Choice): string {
  if ("rollout" in chosen) return `rollout:${chosen.rollout}`;
  return chosen.head === null ? chosen.attention : `${chosen.attention}:${chosen.head}`;
}

function readHead(text: string): Choice {
  const [name, number] = text.split(":");
  if (name === "rollout") return { rollout: number ?? "" };
  return { attention: name, head: number !== undefined && /^\d+$/.test(number) ? Number(number) : null };
}

/** The current view without defaults. */
export function viewOf(): View {
  const locked = lock.value?.at;
  return {
    ...(choice.value && { head: writeHead(choice.value) }),
    ...(place.value !== null && { at: place.value }),
    ...(cell.value && { cell: [cell.value.query, cell.value.key] as [number, number] }),
    ...(stripMode.value !== "influence" && { show: stripMode.value }),
    ...(unit.value === "words" && { unit: unit.value }),
    ...(locked && { lock: `${locked.side}:${locked.index}` }),
    ...(position.value !== null && { position: position.value }),
    ...(channel.value !== null && { series: channel.value }),
  };
}

export function applyView(view: View): void {
  const [side, index] = (view.lock ?? "").split(":");
  batch(() => {
    choice.value = view.head ? readHead(view.head) : null;
    place.value = view.at ?? null;
    cell.value = view.cell ? { query: view.cell[0], key: view.cell[1] } : null;
    stripMode.value = view.show ?? "influence";
    unit.value = view.unit ?? "pieces";
    position.value = view.position ?? null;
    channel.value = view.series ?? null;
    lock.value = (side === "query" || side === "key") && /^\d+$/.test(index) ? { at: { side, index: Number(index) }, view: null } : null;
  });
}

/** The view as address parameters. */
export function viewParameters({ cell: at, ...view }: View): [string, string][] {
  return [...Object.entries({ ...view, ...(at && { cell: at.join(",") }) })].map(([name, value]) => [name, String(value)]);
}

export function readView(parameters: URLSearchParams): View {
  const number = (text: string | null) => (text !== null && /^-?\d+$/.test(text) ? Number(text) : undefined);
  const [query, key] = (parameters.get("cell") ?? "").split(",").map(number);
  const show = parameters.get("show");
  const [at, piece] = [number(parameters.get("at")), number(parameters.get("position"))];
  return {
    ...(parameters.get("head") && { head: parameters.get("head")! }),
    ...(at !== undefined && { at }),
    ...(query !== undefined && key !== undefined && { cell: [query, key] as [number, number] }),
    ...((show === "attention" || show === "rollout") && { show }),
    ...(parameters.get("unit") === "words" && { unit: "words" as const }),
    ...(parameters.get("lock") && { lock: parameters.get("lock")! }),
    ...(piece !== undefined && { position: piece }),
    ...(parameters.get("series") && { series: parameters.get("series")! }),
  };
}
