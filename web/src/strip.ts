// The strip of the part "Why": one value for each piece of the input, from the influence, a head or the rollout.
import { computed, signal } from "@preact/signals";
import type { Inspection, Prediction, Surface } from "./document";
import { fixed } from "./format";
import { row, type Matrix } from "./matrix";
import { isNumeric, rangesOf, type Span } from "./numbers";
import type { PlottedStrip } from "./plot";
import { chosenPrediction, influence } from "./predicting";
import { isWritten, rowOf, targetOf } from "./reading";
import { show, type Shown } from "./shown";
import { inspection, position, settled, status } from "./state";
import { isSpecial } from "./words";

export type StripMode = "influence" | "attention" | "rollout";

/** The chosen mode. The strip uses the first mode of the inspection if it does not have this mode. */
export const stripMode = signal<StripMode>("influence");

/** Pieces, or keys of an attention, with their values. */
export interface StripLine {
  pieces: string[];
  /** A null value is infinite. */
  values: (number | null)[];
  /** Whether the mask hides the piece. */
  hidden: boolean[];
  /** The index of the surface of the pieces; null if it has no numbers. */
  surface: number | null;
}

export interface Strip {
  mode: StripMode;
  /** The label whose values are shown. */
  label: string;
  unit: string;
  lines: StripLine[];
  min: number;
  max: number;
  note: string;
}

const NOTES = {
  attention: "Attention shows where the model read from, not why it gave this answer. Compare it with the influence.",
  rollout: "The attention of all layers multiplied, with the residual connections.",
};

/** The index of the surface of numbers whose pieces an axis has; null for an axis of other pieces. */
export function numericSurface({ surfaces }: Inspection, labels: string[]): number | null {
  const index = surfaces.findIndex(isNumeric);
  const others = new Set(surfaces.flatMap((surface) => (isNumeric(surface) ? [] : surface.pieces)));
  return index < 0 || labels.every((label) => others.has(label) || isSpecial(label)) ? null : index;
}

/** The row of the chosen frame, time step or patch; null if the rows are not those of a surface of numbers. */
function chosenRow(current: Inspection, queries: string[]): number | null {
  const index = numericSurface(current, queries);
  if (index === null || position.value === null || queries.length === 1) return null;
  const row = rangesOf(queries, current.surfaces[index]).findIndex(([from, to]) => from <= position.value! && position.value! < to);
  return row < 0 ? null : row;
}

/** The row of a head that produces the prediction, or the mean of all rows. */
function rowValues(shownHead: Shown, prediction: Prediction): { values: number[]; hidden: boolean[] } {
  const { surfaces, attention } = inspection.value!;
  const own = shownHead.attention === null ? { ...Object.values(attention)[0], query: { name: shownHead.rows, labels: shownHead.queries } } : attention[shownHead.attention];
  const index = chosenRow(inspection.value!, shownHead.queries) ?? rowOf(own, prediction, surfaces);
  const mean = (matrix: Matrix) => Array.from({ length: matrix.columns }, (_, column) => {
    let sum = 0;
    for (let at = 0; at < matrix.rows; at++) sum += matrix.values[at * matrix.columns + column];
    return sum / matrix.rows;
  });
  const values = index === null ? mean(shownHead.matrix) : [...row(shownHead.matrix, index)];
  const hidden = shownHead.keys.map((_, column) => index !== null && shownHead.allowed !== null && row(shownHead.allowed, index)[column] === 0);
  return { values, hidden };
}

/** The modes that the inspection has values for. */
export const stripModes = computed<StripMode[]>(() => {
  const current = inspection.value;
  if (!current) return [];
  const failed = !current.influences.length && status.why.value.problem !== "";
  const modes: StripMode[] = failed && settled.value ? [] : ["influence"];
  if (settled.value) modes.push("attention");
  if (Object.keys(current.rollout ?? {}).length) modes.push("rollout");
  return modes;
});

/** Influence on a number is a difference of numbers, otherwise of log probabilities. */
const unitOf = ({ kind }: Prediction) => (kind === "number" || kind === "series" ? "" : "nats");

export const strip = computed<Strip | null>(() => {
  const [current, prediction] = [inspection.value, chosenPrediction.value];
  if (!current || !prediction) return null;
  const mode = stripModes.value.includes(stripMode.value) ? stripMode.value : stripModes.value[0];
  if (mode === "influence") {
    const explained = influence.value;
    if (!explained) return null;
    const numeric = (surface: number) => (isNumeric(current.surfaces[surface]) ? surface : null);
    const lines = explained.surfaces.map(({ surface, pieces, values }) => ({ pieces, values, hidden: pieces.map(() => false), surface: numeric(surface) }));
    return { mode, label: explained.label, unit: unitOf(prediction), lines, min: explained.min, max: explained.max, note: explained.hidden };
  }
  const rollouts = Object.keys(current.rollout ?? {});
  const choice = mode === "rollout" ? { rollout: rollouts.includes("source") ? "source" : rollouts[0] } : settled.value!;
  const shownHead = show(current, choice);
  const { values, hidden } = rowValues(shownHead, prediction);
  const [surface, row] = [numericSurface(current, shownHead.keys), chosenRow(current, shownHead.queries)];
  const subject = row === null ? prediction.label : shownHead.queries[row];
  const label = mode === "attention" ? `${subject} (${shownHead.title})` : subject;
  return { mode, label, unit: "", lines: [{ pieces: shownHead.keys, values, hidden, surface }], min: 0, max: Math.max(...values, 0), note: NOTES[mode] };
});

/** The values of a line, by ranges of pieces. */
export function spansOf({ pieces, values, hidden }: StripLine, surface: Surface): Span[] {
  return rangesOf(pieces, surface).map(([from, to], index) => ({ from, to, value: values[index], hidden: hidden[index] }));
}

/** The values of a line, as the plot of its surface draws them. */
export function plottedStrip({ mode, unit }: Strip, line: StripLine, surface: Surface): PlottedStrip {
  const suffix = mode === "influence" ? unit : "share";
  const describe = ({ value, hidden }: Span) => `${mode} ${hidden ? "hidden by the mask" : writtenValue(mode, unit, value)}`;
  return { spans: spansOf(line, surface), name: mode + (suffix && ` (${suffix})`), describe };
}

/** A value with its sign. */
export const signed = (value: number | null) => (value === null ? "+∞" : `${value < 0 ? "−" : "+"}${fixed(Math.abs(value), 2)}`);

/** A value with its unit. Influence is in nats, attention is a share. */
export function writtenValue(mode: StripMode, unit: string, value: number | null): string {
  return mode === "influence" ? `${signed(value)} ${unit}`.trim() : fixed(value ?? 0, 3);
}

/** The pieces of the output of a translation or of another model that writes a text. Each has its own strip. */
export function outputPieces(): string[] {
  const current = inspection.value;
  return current && (current.search || isWritten(current)) ? targetOf(current).pieces : [];
}
