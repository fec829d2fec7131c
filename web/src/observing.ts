// A look at one input of a task that is no translation, and the output for it.
import { batch, computed, signal } from "@preact/signals";
import { writeAddress } from "./address";
import { influenceOf, type ShownInfluence } from "./answers";
import { generate, observeText, predictOne } from "./api";
import type { Field, RequestSettings } from "./document";
import { textProblem } from "./limits";
import { mean, plane, type Matrix } from "./matrix";
import type { InspectionDocument } from "./reading";
import { run, stop } from "./running";
import { asking, details, keyNeeded, observable, observation, observed, observedOf } from "./state";

/** A head of a place; null: the mean of its heads. */
export interface Head {
  place: string;
  head: number | null;
}

export const head = signal<Head | null>(null);

/** The step whose alternatives are shown; one past the last: what may follow. */
export const step = signal<number | null>(null);

/** The chosen piece, of those that have an answer each. */
export const place = signal<number | null>(null);

/** The influence of each piece on the chosen answer; null before it was computed. */
export const influence = computed<ShownInfluence | null>(() => {
  const found = observation.value?.written as InspectionDocument | undefined;
  return found ? influenceOf(found, place.value, step.value) : null;
});

/** The largest influences of either sign. */
export function strongestInfluences({ pieces, values }: ShownInfluence, count = 3): { piece: string; value: number | null }[] {
  const size = (value: number | null) => (value === null ? Infinity : Math.abs(value));
  return pieces
    .map((piece, index) => ({ piece, value: values[index] }))
    .filter(({ value }) => value !== 0)
    .sort((one, other) => size(other.value) - size(one.value))
    .slice(0, count);
}

/** What was set for the next output, by name; what is not here is as the run has it. */
export const wanted = signal<Record<string, number | boolean>>({});

/** The output, and the input that it belongs to. */
export const output = signal<{ input: string; found: unknown } | null>(null);

/** The chosen head where the observation has it, or else the mean of its last place. */
export const settledHead = computed<Head | null>(() => {
  const attention = observation.value?.attention ?? {};
  const chosen = head.value;
  if (chosen && attention[chosen.place] && (chosen.head ?? 0) < attention[chosen.place].weights.shape[0]) return chosen;
  const last = Object.keys(attention).at(-1);
  return last === undefined ? null : { place: last, head: null };
});

export function weightsOf({ place, head }: Head): Matrix {
  const { weights } = observation.value!.attention[place];
  return head === null ? mean(weights) : plane(weights, head);
}

export const placeView = computed(() => {
  const chosen = settledHead.value;
  if (!chosen || !observation.value) return null;
  const { query, key } = observation.value.attention[chosen.place];
  const title = `${chosen.place}, ${chosen.head === null ? "mean of its heads" : `head ${chosen.head}`}`;
  return { title, matrix: weightsOf(chosen), queries: query.labels, keys: key.labels, rows: query.name, columns: key.name };
});

/** What belonged to another model. */
export function letObservationGo(): void {
  stop("predict", "extras");
  batch(() => {
    output.value = null;
    wanted.value = {};
    head.value = step.value = place.value = null;
  });
}

export async function observe(): Promise<void> {
  const [text, of] = [asking.text.value, observable.value];
  if (!text.trim() || details.value?.inspects === false) return;
  await run("translate", async (signal) => {
    const problem = textProblem(text, details.value?.limits);
    if (problem) throw new Error(problem);
    const [model, checkpoint] = [asking.model.value, asking.checkpoint.value];
    const found = await observeText({ text, model, checkpoint: checkpoint || undefined }, signal);
    if (signal.aborted) return;
    stop("extras");
    batch(() => {
      keyNeeded.value = false;
      observed.value = found;
      observedOf.value = of;
      step.value = place.value = null;
    });
    const plain = { beam: null, lengthPenalty: null, coveragePenalty: null, sentence: 0, force: [] };
    history.replaceState(null, "", writeAddress({ text, model, checkpoint, ...plain }));
  });
}

/** Computes the influence of each piece of the observed input. */
export function explain(): Promise<void> {
  return run("extras", async (signal) => {
    const [before, of] = [observed.value!, observedOf.value];
    const { name, checkpoint } = before.model;
    const found = await observeText({ text: before.text, model: name, checkpoint, include: ["influence"] }, signal);
    if (!signal.aborted && observedOf.value === of) observed.value = found;
  });
}

/** The output for what stands in the form, by the checkpoint that the server answers with. */
export function predict(): Promise<void> {
  return run("predict", async (signal) => {
    const input = asking.text.value;
    const problem = textProblem(input, details.value?.limits);
    if (problem) throw new Error(problem);
    output.value = null;
    const grown = (text: string) => {
      if (!signal.aborted) output.value = { input, found: { text: input + text } };
    };
    if (details.value?.streams) return generate(input, asking.model.value, wanted.value, signal, grown);
    const found = await predictOne(input, asking.model.value, wanted.value, signal);
    if (!signal.aborted) output.value = { input, found };
  });
}

/** The text of an output that has one. */
export function textOf(found: unknown): string | null {
  const text = typeof found === "object" && found !== null ? (found as { text?: unknown }).text : null;
  return typeof text === "string" ? text : null;
}

/** An output's text in the form's stead, looked at. */
export function lookAtOutput(text: string): Promise<void> {
  asking.text.value = text;
  output.value = null;
  return observe();
}

/** The fields of a request that can be set by a number or a switch, each with the run's own value. */
export function settableFields(settings: RequestSettings | null | undefined) {
  return Object.entries(settings?.schema.properties ?? {}).flatMap(([name, field]) => {
    const plain: Field = field.anyOf?.find((each) => each.type !== "null") ?? field;
    const { type } = plain;
    const own = settings!.values[name] ?? null;
    if (type !== "integer" && type !== "number" && type !== "boolean") return [];
    return [{ name, type, own, description: field.description ?? "", least: plain.minimum, most: plain.maximum }];
  });
}

export function set(name: string, value: number | boolean | null): void {
  const { [name]: _, ...rest } = wanted.value;
  wanted.value = value === null ? rest : { ...rest, [name]: value };
}

/** From 0, expected, to 1: the shade of a step's log probability. */
export const MOST_SURPRISE = 6; // nats
export function surprise(logProbability: number | null): number {
  return logProbability === null ? 1 : Math.min(1, Math.max(0, -logProbability / MOST_SURPRISE));
}
