// The output for an input: a streamed text, or the answer of a model that cannot be inspected.
import { batch, computed, signal } from "@preact/signals";
import { generate, predictOne } from "./api";
import type { Field, Prediction, RequestSettings } from "./document";
import { inputProblem } from "./files";
import { inspectInput } from "./inspecting";
import { run, stop } from "./running";
import { channel, form, details, inspection, place, settings } from "./state";

export interface ShownInfluence {
  label: string;
  /** For each surface with influences: its pieces and their values. */
  surfaces: { surface: number; pieces: string[]; values: (number | null)[] }[];
  hidden: string;
  min: number;
  max: number;
}

/** The prediction at the chosen site, or of the chosen series. Default: the first prediction; for a language model, the last one with influence. */
export const chosenPrediction = computed<Prediction | null>(() => {
  const current = inspection.value;
  if (!current?.predictions.length) return null;
  const { predictions, influences } = current;
  const chosenSeries = predictions.find(({ kind, label }) => kind === "series" && channel.value !== null && label.startsWith(`${channel.value}:`));
  if (chosenSeries) return chosenSeries;
  const at = predictions.find((each) => place.value !== null && each.at.pieces.at(-1) === place.value);
  if (at) return at;
  if (predictions[0].at.kind !== "after" || current.search || predictions[0].at.surface > 0) return predictions[0];
  return influences.length ? predictions[influences[influences.length - 1].prediction] : predictions[predictions.length - 1];
});

/** The influence of each piece on the chosen prediction; null until it is computed. */
export const influence = computed<ShownInfluence | null>(() => {
  const [current, chosen] = [inspection.value, chosenPrediction.value];
  if (!current?.influences.length || !chosen) return null;
  const number = current.predictions.indexOf(chosen);
  const own = current.influences.filter((each) => each.prediction === number);
  if (!own.length) return null;
  const numbers = own.flatMap(({ values }) => values.filter((value) => value !== null));
  const surfaces = own.map(({ surface, values }) => ({ surface, pieces: current.surfaces[surface].pieces, values }));
  return { label: chosen.label, surfaces, hidden: own[0].hidden, min: Math.min(0, ...numbers), max: Math.max(0, ...numbers) };
});

/** The pieces with the largest absolute influence. */
export function strongestInfluences({ surfaces }: ShownInfluence, count = 3): { surface: number; index: number; piece: string; value: number | null }[] {
  const size = (value: number | null) => (value === null ? Infinity : Math.abs(value));
  return surfaces
    .flatMap(({ surface, pieces, values }) => pieces.map((piece, index) => ({ surface, index, piece, value: values[index] })))
    .filter(({ value }) => size(value) >= 0.005) // smaller values are displayed as 0
    .sort((one, other) => size(other.value) - size(one.value))
    .slice(0, count);
}

/** The last output and its input. */
export const output = signal<{ input: string; result: unknown } | null>(null);

/** Clears the output, the settings and the chosen site of the previous model. */
export function clearOutput(): void {
  stop("predict", "extras", "why");
  batch(() => {
    output.value = null;
    settings.value = {};
    place.value = null;
  });
}

/** Requests the output for the input in the form. */
export function predict(): Promise<void> {
  return run("predict", async (signal) => {
    const input = form.text.value;
    const problem = inputProblem(input, details.value?.limits);
    if (problem) throw new Error(problem);
    output.value = null;
    const onText = (text: string) => {
      if (!signal.aborted) output.value = { input, result: { text: input + text } };
    };
    if (details.value?.streams) return generate(input, form.model.value, settings.value, signal, onText);
    const result = await predictOne(input, form.model.value, settings.value, signal);
    if (!signal.aborted) output.value = { input, result };
  });
}

/** The text of an output; null if it has no text. */
export function textOf(result: unknown): string | null {
  const text = typeof result === "object" && result !== null ? (result as { text?: unknown }).text : null;
  return typeof text === "string" ? text : null;
}

/** Uses an output as the input and inspects it. */
export function inspectOutput(text: string): Promise<void> {
  form.text.value = text;
  output.value = null;
  return inspectInput();
}

/** The settings that are numbers or switches, each with the value of the run. */
export function settableFields(settings: RequestSettings | null | undefined) {
  return Object.entries(settings?.schema.properties ?? {}).flatMap(([name, field]) => {
    const plain: Field = field.anyOf?.find((each) => each.type !== "null") ?? field;
    const { type } = plain;
    const own = settings!.values[name] ?? null;
    if (type !== "integer" && type !== "number" && type !== "boolean") return [];
    return [{ name, type, own, description: field.description ?? "", min: plain.minimum, max: plain.maximum }];
  });
}

export function set(name: string, value: number | boolean | null): void {
  const { [name]: _, ...rest } = settings.value;
  settings.value = value === null ? rest : { ...rest, [name]: value };
}

export const MAX_SURPRISE = 6; // nats

/** −log p as a share of `MAX_SURPRISE`, from 0 (certain) to 1. */
export function surprise(logProbability: number | null): number {
  return logProbability === null ? 1 : Math.min(1, Math.max(0, -logProbability / MAX_SURPRISE));
}
