// What a model answered for one input, in the form in which it is drawn; from a document of format version 2.
import type { Alternative, Observation } from "./document";
import { count } from "./limits";
import type { InspectionDocument, Prediction, Surface } from "./reading";
import { isSpecial } from "./words";

/** A piece of the input; `answer` where the model answered there. */
export interface Marked {
  text: string;
  answer: Prediction | null;
}

export type Answer =
  /** One answer about `about`, the whole input where it is null, among others. */
  | { form: "ranked"; about: string | null; kind: string; options: Alternative[] }
  | { form: "number"; value: string }
  /** A tag for each piece. */
  | { form: "tags"; pieces: Marked[] }
  /** Text with gaps. */
  | { form: "gaps"; pieces: Marked[] }
  /** What may come after the last piece. */
  | { form: "next"; options: Alternative[] };

/** The answers of an observation; none where its tokens are predicted from those before, as in a language model. */
export function answersOf(observation: Observation): Answer[] {
  const found = observation.written as InspectionDocument | undefined;
  return found?.version === 2 ? found.predictions.filter(first).flatMap((each) => answerOf(each, found)) : [];
}

/** Tags and gaps are answered together, with the first of them; of nodes the first is the one that was asked for. */
function first({ at }: Prediction, index: number, all: Prediction[]): boolean {
  return all.findIndex((other) => other.at.kind === at.kind) === index;
}

function answerOf(prediction: Prediction, { predictions, surfaces }: InspectionDocument): Answer[] {
  const { at, kind, label } = prediction;
  const surface = surfaces[at.surface];
  if (kind === "number") return [{ form: "number", value: label }];
  if (at.kind === "piece") return [{ form: "tags", pieces: marked(surface, predictions, "piece") }];
  if (at.kind === "gap") return [{ form: "gaps", pieces: marked(surface, predictions, "gap") }];
  if (at.kind === "after") return kind === "token" ? [] : [{ form: "next", options: predictions.at(-1)!.alternatives }];
  const about = at.pieces.map((piece) => surface.pieces[piece]).join(" – ") || null;
  return [{ form: "ranked", about, kind, options: prediction.alternatives }];
}

function marked(surface: Surface, predictions: Prediction[], kind: Prediction["at"]["kind"]): Marked[] {
  const answers = new Map(predictions.filter((each) => each.at.kind === kind).map((each) => [each.at.pieces[0], each]));
  return surface.pieces.map((text, place) => ({ text, answer: answers.get(place) ?? null }));
}

/** The inputs that the model read, a line for each, without the symbols that begin and end a text. */
export function inputsOf(observation: Observation): string[] {
  const found = observation.written as InspectionDocument | undefined;
  return found?.version === 2 ? found.surfaces.map(inputOf) : [observation.text];
}

function inputOf({ kind, pieces, edges, separator }: Surface): string {
  if (kind === "graph") return `a graph of ${count(pieces.length, "node")} and ${count(edges.length, "edge")}`;
  return pieces.filter((piece) => !isSpecial(piece)).join(separator || (kind === "letters" ? "" : " "));
}

/** The hue of each label, as far as possible from the others. */
export function huesOf(labels: string[]): Map<string, number> {
  const known = [...new Set(labels)].sort();
  return new Map(known.map((label, index) => [label, Math.round((360 * index) / known.length)]));
}

/** Whether the observation shows tokens that are each predicted from those before. */
export function isContinued(observation: Observation): boolean {
  const found = observation.written as InspectionDocument | undefined;
  return found?.version !== 2 || found.predictions.some((each) => each.at.kind === "after" && each.kind === "token");
}

export interface ShownInfluence {
  label: string;
  pieces: string[];
  values: (number | null)[];
  hidden: string;
  least: number;
  most: number;
}

/** The influence on the answer of a piece or a step; of neither: on the first answer, or on what follows the input. */
export function influenceOf(found: InspectionDocument, piece: number | null, step: number | null): ShownInfluence | null {
  const known = found.influences ?? [];
  if (!known.length) return null;
  const at = (each: (typeof known)[number]) => found.predictions[each.prediction].at;
  const unchosen = at(known[0]).kind === "after" ? known[known.length - 1] : known[0];
  const chosen = known.find((each) => (step === null ? at(each).pieces[0] === piece : each.prediction === step)) ?? unchosen;
  const parts = known.filter((each) => each.prediction === chosen.prediction); // one for each text of a pair
  const pieces = parts.flatMap((each) => found.surfaces[each.surface].pieces);
  const values = parts.flatMap((each) => each.values);
  const numbers = values.filter((value) => value !== null);
  const { label } = found.predictions[chosen.prediction];
  return { label, pieces, values, hidden: chosen.hidden, least: Math.min(0, ...numbers), most: Math.max(0, ...numbers) };
}
