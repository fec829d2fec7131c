// Which attention of an inspection is looked at, and its weights with their labels.
import type { Inspection, Kind } from "./document";
import { mean, plane, type Matrix } from "./matrix";
import { inputWords, type Words } from "./words";

/** `head` null is the mean of the heads; `attention` "rollout" with a name of `rollout` in `rollout`. */
export type Choice = { attention: string; head: number | null } | { rollout: string };

/** A head drawn over another. */
export type Overlaid = { attention: string; head: number | null };

export interface Shown {
  title: string;
  why: string;
  kind: Kind;
  matrix: Matrix;
  /** null of a rollout. */
  attention: string | null;
  head: number | null;
  queries: string[];
  keys: string[];
  queryWords: Words;
  keyWords: Words;
}

export const KIND_NAMES: Record<Kind, string> = {
  source: "Encoder-decoder",
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
};

export function kindsOf(inspection: Inspection): Kind[] {
  const kinds = new Set(Object.values(inspection.attention).map((attention) => attention.kind));
  return (["source", "encoder", "decoder"] as Kind[]).filter((kind) => kinds.has(kind));
}

export function headsOf(inspection: Inspection, name: string): number {
  return inspection.attention[name].weights.shape[0];
}

/** The alignment's attention, or else the mean of the last encoder-decoder (or any last) attention. */
export function defaultChoice(inspection: Inspection): Choice | null {
  const { alignment, attention } = inspection;
  if (alignment && attention[alignment.attention]) return { attention: alignment.attention, head: alignment.head };
  const names = Object.keys(attention);
  const last = names.filter((name) => attention[name].kind === "source").at(-1) ?? names.at(-1);
  return last === undefined ? null : { attention: last, head: null };
}

/** `choice` where the inspection has it, or else its default. */
export function settle(inspection: Inspection, choice: Choice | null): Choice | null {
  if (choice && "rollout" in choice && inspection.rollout[choice.rollout]) return choice;
  if (choice && "attention" in choice && inspection.attention[choice.attention])
    if ((choice.head ?? 0) < headsOf(inspection, choice.attention)) return choice;
  return defaultChoice(inspection);
}

export function sameChoice(left: Choice | null, right: Choice | null): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

export function titleOf(choice: Choice): string {
  if ("rollout" in choice) return `rollout of the ${choice.rollout === "source" ? "encoder-decoder" : "encoder"} attention`;
  return `${choice.attention}, ${choice.head === null ? "mean of the heads" : `head ${choice.head}`}`;
}

/** Those of `heads` that can be drawn over `choice`: there, of its kind, and not the same. */
export function fitting(inspection: Inspection, choice: Choice, heads: Overlaid[]): Overlaid[] {
  const { kind } = show(inspection, choice);
  const there = (each: Overlaid) => inspection.attention[each.attention]?.kind === kind && (each.head ?? 0) < headsOf(inspection, each.attention);
  return heads.filter((each) => there(each) && !sameChoice(each, choice));
}

/** `heads` with one more, or without it where it is among them. */
export function toggled(heads: Overlaid[], head: Overlaid): Overlaid[] {
  const others = heads.filter((each) => !sameChoice(each, head));
  return others.length < heads.length ? others : [...heads, head];
}

/** Whether the aligned text reads the rows of `choice` one step late. */
export function readLate(inspection: Inspection, choice: Choice): boolean {
  return !("rollout" in choice) && show(inspection, choice).why !== "" && !!inspection.alignment?.shift;
}

/** As `show`, for the aligned text: an alignment may read the row after a piece, where the piece was just fed in. */
export function showAligned(inspection: Inspection, choice: Choice): Shown {
  const shown = show(inspection, choice);
  if (!readLate(inspection, choice)) return shown;
  return { ...shown, title: `${shown.title}, read one step late`, matrix: plane(inspection.alignment!.weights) };
}

function labelsOf(inspection: Inspection, kind: Kind) {
  const { source, target } = inspection;
  const sourceWords = { of: source.words, spelled: source.spelled };
  const targetWords = { of: target.words, spelled: target.spelled };
  if (kind === "encoder") return { queries: source.pieces, keys: source.pieces, queryWords: sourceWords, keyWords: sourceWords };
  if (kind === "source") return { queries: target.pieces, keys: source.pieces, queryWords: targetWords, keyWords: sourceWords };
  const keyWords = inputWords(targetWords, target.inputs[0]);
  return { queries: target.pieces, keys: target.inputs, queryWords: targetWords, keyWords };
}

export function show(inspection: Inspection, choice: Choice): Shown {
  if ("rollout" in choice) {
    const kind: Kind = choice.rollout === "source" ? "source" : "encoder";
    const why = "Attention of all layers multiplied through, with the connections past each layer counted in.";
    const matrix = plane(inspection.rollout[choice.rollout]);
    return { title: titleOf(choice), why, kind, matrix, attention: null, head: null, ...labelsOf(inspection, kind) };
  }
  const { kind, weights } = inspection.attention[choice.attention];
  const { alignment } = inspection;
  const chosen = alignment !== null && sameChoice(choice, { attention: alignment.attention, head: alignment.head });
  return {
    title: titleOf(choice),
    why: chosen ? alignment.why : "",
    kind,
    matrix: choice.head === null ? mean(weights) : plane(weights, choice.head),
    ...choice,
    ...labelsOf(inspection, kind),
  };
}
