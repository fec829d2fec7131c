import type { Inspection } from "./document";
import { headsOf } from "./shown";

/** A sentence for each measure of a head. */
export const MEASURES: Record<string, { label: string; unit: string; text: string }> = {
  entropy: { label: "entropy", unit: "nats", text: "Mean entropy of a row: 0 if each query attends to one position, ln(number of keys) if it attends to all equally." },
  distance: {
    label: "distance",
    unit: "pieces",
    text: "Mean |i − j| between query and key. For encoder-decoder attention, target positions are scaled to the source length.",
  },
  diagonality: { label: "diagonality", unit: "", text: "How close the weights are to the diagonal, from 0 to 1." },
  largest: { label: "largest", unit: "", text: "Mean of the largest weight of each row." },
  end: { label: "end", unit: "", text: "Mean weight on the end symbol (in a decoder's self-attention: the begin symbol). Many heads attend to it by default." },
  off: {
    label: "off",
    unit: "nats",
    text: "Change of log P(answer) when the head is switched off. It is the only causal measure.",
  },
};

export function describe(measure: string) {
  return MEASURES[measure] ?? { label: measure, unit: "", text: "" };
}

/** The measures of an inspection. "off" is included when it has been computed. */
export function measuresOf(inspection: Inspection): string[] {
  const names = new Set(Object.values(inspection.attention).flatMap((attention) => Object.keys(attention.measures)));
  return [...names, ...(inspection.ablation ? ["off"] : [])];
}

/** A measure of a head, or its mean over all heads of an attention; undefined if not computed. */
export function measureOf(inspection: Inspection, name: string, head: number | null, measure: string): number | undefined {
  const values = measure === "off" ? inspection.ablation?.[name] : inspection.attention[name].measures[measure];
  if (!values) return undefined;
  return head === null ? values.reduce((sum, value) => sum + value, 0) / values.length : values[head];
}

export interface Head {
  attention: string;
  head: number;
}

/** All heads of the named attentions, with the largest value of a measure first; without a measure, in order of layers. */
export function orderHeads(inspection: Inspection, names: string[], measure: string | null): Head[] {
  const heads = names.flatMap((attention) =>
    Array.from({ length: headsOf(inspection, attention) }, (_, head) => ({ attention, head })),
  );
  if (measure === null) return heads;
  const value = ({ attention, head }: Head) => measureOf(inspection, attention, head, measure) ?? -Infinity;
  return heads.sort((a, b) => value(b) - value(a));
}
