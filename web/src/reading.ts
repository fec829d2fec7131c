// Functions that read an inspection document.
import type { Alternative, Attention, Inspection, Prediction, Surface } from "./document";
import { inputWords, isSpecial, visible, type Words } from "./words";

/** The input of the model; for a translation, the source. */
export const sourceOf = (inspection: Inspection): Surface => inspection.surfaces[0];

/** The pieces of a translation. The last one is "</s>" if the translation is finished. */
export const targetOf = (inspection: Inspection): Surface => inspection.surfaces[1];

/** Whether the model continues a text: it predicts a token after each piece, and there is no search. */
export function isContinued({ predictions, search }: Inspection): boolean {
  return !search && predictions.some((each) => each.at.kind === "after" && each.kind === "token" && each.at.surface === 0);
}

/** Whether the model writes a text of its own, as a second surface. */
export function isWritten({ predictions, surfaces }: Inspection): boolean {
  return surfaces.length > 1 && surfaces[1].kind === "tokens" && predictions.every((each) => each.kind === "token" && each.at.surface === 1);
}

/** The text that a model has written, without the end symbol. */
export function writtenText({ surfaces, facts }: Inspection): string {
  if (facts.text !== undefined) return facts.text;
  const { pieces, separator, words, spelled } = surfaces[1];
  if (words.length) return spelled.filter((word) => !isSpecial(word)).join(" ");
  return pieces.filter((piece) => !isSpecial(piece)).join(separator).trim();
}

/** The site of a prediction in words, such as a piece of the input. */
export function siteName({ surfaces }: Inspection, { at }: Prediction): string {
  if (at.kind === "whole" || at.kind === "pair") return "answer";
  if (at.pieces[0] < 0) return "start";
  const piece = visible(surfaces[at.surface].pieces[at.pieces[0]] ?? "");
  return at.kind === "after" ? `after ${piece}` : piece;
}

/** The output as pieces: those of a translation, otherwise the most probable label of each prediction. */
export function outputOf(inspection: Inspection): string[] {
  if (inspection.search) return targetOf(inspection).pieces;
  return inspection.predictions.map(({ label, alternatives }) => alternatives[0]?.label ?? label);
}

const ATTENTION_NAMES: Record<string, string> = { self: "self-attention", source: "encoder-decoder attention", edges: "attention along edges" };

/** The type of an attention. Attentions with equal types have equal axes. */
export function groupOf({ side, part }: Attention): string {
  const [first, ...rest] = part.split(" ");
  const name = [ATTENTION_NAMES[first.split(".").at(-1)!] ?? first, ...rest].join(" ");
  const whole = first === "source" ? name : [side, name].filter(Boolean).join(" ");
  return whole[0].toUpperCase() + whole.slice(1);
}

/** The words of the labels of an axis: the words of a surface or of the decoder input; otherwise each label is a word. */
export function wordsOf(inspection: Inspection, labels: string[]): Words {
  const same = (left: string[], right: string[]) => left.length === right.length && left.every((label, index) => label === right[index]);
  for (const { pieces, words, spelled } of inspection.surfaces) {
    if (!words.length) continue;
    if (same(labels, pieces)) return { of: words, spelled };
    if (labels[0] === "<s>" && same(labels.slice(1), pieces.slice(0, -1))) return inputWords({ of: words, spelled }, labels[0]);
  }
  return { of: labels.map((_, index) => index), spelled: labels };
}

/** The row of an attention that produces a prediction; null if all rows do. */
export function rowOf({ query }: Attention, { at }: Prediction, surfaces: Surface[]): number | null {
  const { labels } = query;
  const { pieces } = surfaces[at.surface];
  if (labels.length === 1) return 0;
  if (at.kind === "after") return Math.min(at.pieces[0] + 1, labels.length - 1);
  if (at.kind === "gap") {
    const gaps = labels.flatMap((label, row) => (label === pieces[at.pieces[0]] ? [row] : []));
    return gaps[pieces.slice(0, at.pieces[0]).filter((piece) => piece === pieces[at.pieces[0]]).length] ?? null;
  }
  if (at.kind === "whole" || at.kind === "pair") return null;
  const row = at.pieces[0] + (labels.length > pieces.length && isSpecial(labels[0]) ? 1 : 0);
  return row < labels.length ? row : null;
}

/** A piece of a continued text, with its prediction. The last step is the piece after the end of the text. */
export interface Step {
  /** null for the piece after the end. */
  label: string | null;
  log_probability: number | null;
  alternatives: Alternative[];
}

/** The steps of a continued text: each piece, and the piece after the end. */
export function stepsOf(inspection: Inspection): Step[] {
  const { pieces, separator } = sourceOf(inspection);
  const predictions = new Map(inspection.predictions.map((each) => [each.at.pieces[0] + 1, each]));
  return [...pieces, null].flatMap((piece, place) => {
    const prediction = predictions.get(place);
    if (piece === null && !prediction) return [];
    const label = piece === null ? null : place > 0 ? separator + piece : piece;
    return [{ label, log_probability: piece === null ? null : (prediction?.log_probability ?? 0), alternatives: prediction?.alternatives ?? [] }];
  });
}
