// The answers of a model to one input, prepared for drawing.
import type { Alternative, Inspection, Prediction, SiteKind, Surface } from "./document";
import { count } from "./limits";
import { isNumeric } from "./numbers";
import { isWritten } from "./reading";
import { isSpecial } from "./words";

/** A piece of the input. `answer` is its prediction, or null. */
export interface Marked {
  text: string;
  answer: Prediction | null;
}

export type Answer =
  /** One answer with its alternatives. It is about the pieces `about`, or the whole input if null. */
  | { form: "ranked"; about: string | null; kind: string; options: Alternative[] }
  | { form: "number"; value: string }
  /** A tag for each piece. */
  | { form: "tags"; pieces: Marked[] }
  /** Text with gaps. */
  | { form: "gaps"; pieces: Marked[] }
  /** The possible pieces after the last one. */
  | { form: "next"; options: Alternative[] };

/** The answers of an inspection. A language model has none here: its answer is the text itself. */
export function answersOf(inspection: Inspection): Answer[] {
  if (isWritten(inspection)) return []; // the text is shown
  return inspection.predictions.filter(first).flatMap((each) => answerOf(each, inspection));
}

/** True for the first prediction of each kind of site. All tags, or all gaps, are one answer. The first node is the input. */
function first({ at }: Prediction, index: number, all: Prediction[]): boolean {
  return all.findIndex((other) => other.at.kind === at.kind) === index;
}

function answerOf(prediction: Prediction, { predictions, surfaces }: Inspection): Answer[] {
  const { at, kind, label } = prediction;
  const surface = surfaces[at.surface];
  if (kind === "series") return []; // drawn with its history
  if (kind === "number") return [{ form: "number", value: label }];
  if (at.kind === "piece") return [{ form: "tags", pieces: marked(surface, predictions, "piece") }];
  if (at.kind === "gap") return [{ form: "gaps", pieces: marked(surface, predictions, "gap") }];
  if (at.kind === "after") return kind === "token" ? [] : [{ form: "next", options: predictions.at(-1)!.alternatives }];
  const about = at.pieces.map((piece) => surface.pieces[piece]).join(" – ") || null;
  return [{ form: "ranked", about, kind, options: prediction.alternatives }];
}

function marked(surface: Surface, predictions: Prediction[], kind: SiteKind): Marked[] {
  const answers = new Map(predictions.filter((each) => each.at.kind === kind).map((each) => [each.at.pieces[0], each]));
  return surface.pieces.map((text, place) => ({ text, answer: answers.get(place) ?? null }));
}

/** One line for each input. A graph or a series is described by its size. */
export function inputsOf({ surfaces, text }: Inspection): string[] {
  const [surface] = surfaces;
  if (surface?.kind === "graph") return [`a graph of ${count(surface.pieces.length, "node")} and ${count(surface.edges.length, "edge")}`];
  if (isNumeric(surface)) return []; // drawn
  if (surface?.kind === "frames") return [count(surface.pieces.length, "frame")];
  return text.split("\t");
}

/** Whether the pieces of a surface are single letters, as in DNA. */
export function isSpelled({ kind, pieces }: Surface): boolean {
  const plain = pieces.filter((piece) => !isSpecial(piece));
  return kind === "letters" || (kind === "tokens" && plain.length > 1 && plain.every((piece) => [...piece].length === 1));
}

/** A tag without its span prefix: "PER" for "B-PER", null for "O" (outside). */
export function spanLabel(tag: string): string | null {
  return tag === "O" ? null : tag.replace(/^[BIESLU]-/, "");
}

/** A hue for each label, at equal distances on the color wheel. */
export function huesOf(labels: string[]): Map<string, number> {
  const unique = [...new Set(labels)].sort();
  return new Map(unique.map((label, index) => [label, Math.round((360 * index) / unique.length)]));
}
