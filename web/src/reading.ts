// The inspection document as Python writes it (format version 2), and from it what the components draw.
import type { Alternative, Attention, Axis, BeamNode, Candidate, Alignment, Floats, Inspection, Kind, Observation, Search, Side, Vectors } from "./document";

export interface Surface {
  kind: string;
  pieces: string[];
  words: number[];
  spelled: string[];
  ids: number[];
  separator: string;
  edges: [number, number][];
  center: number | null;
}

export interface Prediction {
  at: { kind: "whole" | "piece" | "after" | "gap" | "node" | "pair"; pieces: number[]; surface: number };
  kind: string;
  label: string;
  /** null: impossible, or of a number. */
  log_probability: number | null;
  /** Best first. */
  alternatives: (Alternative & { id?: number })[];
  entropy: number | null;
  rank: number | null;
}

export interface AttentionMap {
  side: string;
  layer: number | null;
  part: string;
  weights: Floats;
  /** (queries, keys): 1 where the mask lets a query see a key; null where it sees all. */
  allowed: Floats | null;
  query: Axis;
  key: Axis;
  measures: Record<string, number[]>;
  mechanism?: string;
}

/** By how much the log probability of a prediction falls when a piece is hidden; null where it becomes impossible. */
export interface Influence {
  /** Index of the prediction. */
  prediction: number;
  surface: number;
  values: (number | null)[];
  /** How pieces were hidden, as a sentence. */
  hidden: string;
}

/** One input of a model of any task; with `search` a translation. */
export interface InspectionDocument {
  format: "regard-inspection";
  version: 2;
  model: { name: string; task: string; checkpoint: string; source_language?: string | null; target_language?: string | null };
  text: string;
  surfaces: Surface[];
  predictions: Prediction[];
  /** By place, such as "encoder.0.self". */
  attention: Record<string, AttentionMap>;
  influences: Influence[];
  facts: { unknown?: string[]; parts?: Record<string, number> };
  sentences?: string[];
  sentence?: number;
  search?: {
    settings: Search;
    forced: number;
    candidate: number;
    candidates: { text: string; score: number; log_probability: number }[];
    output: string;
    score: number;
    log_probability: number;
    finished: boolean;
  };
  alignment?: Alignment | null;
  rollout?: Record<string, Floats>;
  ablation?: Record<string, number[]>;
  vectors?: Record<string, Vectors>;
  beam?: BeamNode[];
}

/** A document of any version as the components take it. */
export function readDocument(found: InspectionDocument | Inspection | Observation): Inspection | Observation {
  if (found.format !== "regard-inspection" || found.version !== 2) return found;
  return found.search ? readTranslation(found) : readObservation(found);
}

/** The document as Python wrote it, with the parts that were fetched later. */
export function writtenDocument(shown: Inspection | Observation): object {
  if (!shown.written) return shown;
  if (shown.format === "regard-observation") return shown.written;
  const { ablation, beam, vectors } = shown;
  return { ...shown.written, ...(ablation && { ablation }), ...(beam && { beam }), ...(vectors && { vectors }) };
}

function readTranslation(found: InspectionDocument): Inspection {
  const { model, search, predictions, surfaces } = found;
  const { settings, output, ...outcome } = search!;
  const [source, target] = surfaces;
  const inputs = ["<s>", ...target.pieces.slice(0, -1)];
  return {
    format: "regard-inspection",
    version: 1,
    model: { name: model.name, checkpoint: model.checkpoint, source_language: model.source_language ?? null, target_language: model.target_language ?? null },
    search: settings,
    ...outcome,
    unknown: found.facts.unknown,
    sentences: found.sentences,
    sentence: found.sentence,
    source: side(source, found.text),
    target: { ...side(target, output), inputs },
    steps: predictions.map((each) => ({
      entropy: each.entropy!,
      rank: each.rank!,
      log_probability: each.log_probability!,
      candidates: each.alternatives.map(({ id, label, log_probability }) => ({ id, piece: label, log_probability }) as Candidate),
    })),
    attention: mapped(found.attention, attentionOf),
    alignment: found.alignment ?? null,
    rollout: found.rollout ?? {},
    ablation: found.ablation,
    vectors: found.vectors,
    beam: found.beam,
    written: found,
  };
}

function side({ ids, pieces, words, spelled }: Surface, text: string): Side {
  return { text, ids, pieces, words, spelled };
}

function attentionOf({ side, layer, part, weights, measures, mechanism }: AttentionMap): Attention {
  const kind: Kind = part.endsWith("source") ? "source" : side.startsWith("encoder") ? "encoder" : "decoder";
  return { kind, layer: layer ?? 0, mechanism: mechanism ?? "other", weights, measures };
}

/** The pieces that have a prediction, each with it; and what follows after the last, or belongs to the whole. */
function readObservation(found: InspectionDocument): Observation {
  const { name, task, checkpoint } = found.model;
  const steps: Observation["steps"] = [];
  let following: Alternative[] = [];
  const surface = found.surfaces[0];
  const predicted = new Map(found.predictions.map((each) => [placeOf(each), each]));
  const known = surface?.pieces.some((_, place) => predicted.has(place)) ? surface.pieces : [];
  known.forEach((piece, place) => {
    const label = place > 0 ? surface.separator + piece : piece;
    const { log_probability, alternatives } = predicted.get(place) ?? { log_probability: 0, alternatives: [] };
    steps.push({ label, log_probability, alternatives });
  });
  for (const each of found.predictions)
    if (placeOf(each) === null || placeOf(each) === surface?.pieces.length)
      following = each.alternatives.length ? each.alternatives : [{ label: each.label, log_probability: each.log_probability ?? 0 }];
  const attention = mapped(found.attention, ({ weights, query, key }) => ({ weights, query, key }));
  const { parts } = found.facts;
  return { format: "regard-observation", version: 1, model: { name, task, checkpoint }, text: found.text, attention, steps, following, parts, written: found };
}

/** The index of the piece that a prediction is about; null of the whole. */
function placeOf({ at: { kind, pieces } }: Prediction): number | null {
  return kind === "whole" || kind === "pair" ? null : kind === "after" ? pieces[0] + 1 : pieces[0];
}

function mapped<From, To>(entries: Record<string, From>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(entries).map(([name, value]) => [name, change(value)]));
}
