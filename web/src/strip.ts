// The strip of the part "Why": one value for each piece of the input, from the influence, a head or the rollout.
import { computed, signal } from "@preact/signals";
import type { Prediction } from "./document";
import { row, type Matrix } from "./matrix";
import { chosenPrediction, influence } from "./predicting";
import { rowOf, targetOf } from "./reading";
import { show, type Shown } from "./shown";
import { inspection, settled } from "./state";

export type StripMode = "influence" | "attention" | "rollout";

/** The chosen mode. The strip uses influence if the inspection does not have this mode. */
export const stripMode = signal<StripMode>("influence");

export interface Strip {
  mode: StripMode;
  /** The label whose values are shown. */
  label: string;
  unit: string;
  /** Lines of pieces with their values; `hidden`: the mask hides the piece; a null value is infinite. */
  lines: { pieces: string[]; values: (number | null)[]; hidden: boolean[] }[];
  min: number;
  max: number;
  note: string;
}

const NOTES = {
  attention: "Attention shows where the model read from, not why it gave this answer. Compare it with the influence.",
  rollout: "The attention of all layers multiplied, with the residual connections.",
};

/** The row of a head that produces the prediction, or the mean of all rows. */
function rowValues(shownHead: Shown, prediction: Prediction): { values: number[]; hidden: boolean[] } {
  const { surfaces, attention } = inspection.value!;
  const own = shownHead.attention === null ? { ...Object.values(attention)[0], query: { name: shownHead.rows, labels: shownHead.queries } } : attention[shownHead.attention];
  const index = rowOf(own, prediction, surfaces);
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
  const modes: StripMode[] = ["influence"];
  if (settled.value) modes.push("attention");
  if (Object.keys(current.rollout ?? {}).length) modes.push("rollout");
  return modes;
});

/** Influence on a number is a difference of numbers, otherwise of log probabilities. */
const unitOf = ({ kind }: Prediction) => (kind === "number" ? "" : "nats");

export const strip = computed<Strip | null>(() => {
  const [current, prediction] = [inspection.value, chosenPrediction.value];
  if (!current || !prediction) return null;
  const mode = stripModes.value.includes(stripMode.value) ? stripMode.value : "influence";
  if (mode === "influence") {
    const explained = influence.value;
    if (!explained) return null;
    const lines = explained.surfaces.map(({ pieces, values }) => ({ pieces, values, hidden: pieces.map(() => false) }));
    return { mode, label: explained.label, unit: unitOf(prediction), lines, min: explained.min, max: explained.max, note: explained.hidden };
  }
  const rollouts = Object.keys(current.rollout ?? {});
  const choice = mode === "rollout" ? { rollout: rollouts.includes("source") ? "source" : rollouts[0] } : settled.value!;
  const shownHead = show(current, choice);
  const { values, hidden } = rowValues(shownHead, prediction);
  const label = mode === "attention" ? `${prediction.label} (${shownHead.title})` : prediction.label;
  return { mode, label, unit: "", lines: [{ pieces: shownHead.keys, values, hidden }], min: 0, max: Math.max(...values, 0), note: NOTES[mode] };
});

/** The pieces of the output of a translation. Each has its own strip. */
export function outputPieces(): string[] {
  const current = inspection.value;
  return current?.search ? targetOf(current).pieces : [];
}
