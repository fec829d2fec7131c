import type { View } from "./view";

// The inspection document that Python writes (format version 2), and the model data of a server.

/** Base64 of little-endian float32, row-major. */
export interface Floats {
  shape: number[];
  data: string;
}

/** The numbers of a surface of frames, of time steps or of an image. */
export interface SurfaceNumbers {
  /** (pieces, channels), NaN where a value is missing; for an image (height, width, channels) from 0 to 1. */
  values: Floats;
  /** Names of the channels; empty if they are numbered. */
  channels: string[];
  unit: string;
  /** Pieces per second; null if they are not at equal distances in time. */
  rate: number | null;
  /** For an image: rows and columns of its patches, which are the pieces, row by row. */
  grid: [number, number] | null;
}

/** One sequence or graph that a model reads or writes. The pieces can include special ones, such as "</s>". */
export interface Surface {
  kind: "tokens" | "letters" | "items" | "notes" | "frames" | "series" | "image" | "graph";
  pieces: string[];
  /** For each piece, the index of its word in `spelled`; empty if pieces are words. */
  words: number[];
  spelled: string[];
  ids: number[];
  /** Text between two pieces. */
  separator: string;
  /** For a graph: the node indices of each edge. */
  edges: [number, number][];
  /** For a graph: the index of the predicted node. */
  center: number | null;
  /** For frames, a series or an image; absent in earlier documents. */
  numbers?: SurfaceNumbers | null;
}

/** One possible label; a log probability of null is −∞. */
export interface Alternative {
  label: string;
  log_probability: number | null;
  /** Its index in the vocabulary, if it has one. */
  id?: number;
}

export type SiteKind = "whole" | "piece" | "after" | "gap" | "node" | "pair";

/** One prediction of the model at one site. */
export interface Prediction {
  at: { kind: SiteKind; pieces: number[]; surface: number };
  kind: "label" | "labels" | "number" | "tag" | "token" | "item" | "link" | "series";
  label: string;
  /** null: −∞, or the prediction is a number. */
  log_probability: number | null;
  /** Best first. */
  alternatives: Alternative[];
  /** In nats; null if not computed. */
  entropy: number | null;
  /** 0 is the most probable; null if not computed. */
  rank: number | null;
}

/** Positions along one side of the weights: their type, and the label of each. */
export interface Axis {
  name: string;
  labels: string[];
}

/** The weights of the heads of one attention. */
export interface Attention {
  /** The part of the network, such as "encoder", "decoder" or "pooling". */
  side: string;
  layer: number | null;
  /** The type of the attention, such as "self" or "source". */
  part: string;
  mechanism?: string;
  /** heads, queries, keys. The row of a query without visible keys is 0. */
  weights: Floats;
  /** (queries, keys): 1 where a query may attend to a key; null: everywhere. */
  allowed: Floats | null;
  query: Axis;
  key: Axis;
  /** For each head, by name: entropy, distance, diagonality, largest, end. */
  measures: Record<string, number[]>;
}

/** The change of a prediction when each piece is hidden; a value is null if the probability becomes 0. */
export interface Influence {
  /** Index of the prediction. */
  prediction: number;
  surface: number;
  values: (number | null)[];
  /** How pieces were hidden, as a sentence. */
  hidden: string;
}

/** The attention that agrees best with word alignments. */
export interface Alignment {
  attention: string;
  /** null: the mean of the heads. */
  head: number | null;
  /** Rows between the row that predicts a piece and the row of its links: 1 if the piece is the input of that row. */
  shift: number;
  /** (target, source), after the shift. */
  weights: Floats;
  /** How the alignment was chosen, as a sentence. */
  why: string;
  /** target piece, source piece, weight */
  links: [number, number, number][];
}

/** The vectors from which the weights of an attention were computed. */
export interface Vectors {
  kind: "product" | "additive" | "none";
  scale: number;
  /** heads, positions, width */
  query: Floats;
  key: Floats;
  value: Floats;
  /** (queries, keys): 1 where the mask lets a query attend. */
  allowed: Floats;
  /** heads, width; for additive attention only */
  vector: Floats | null;
  /** heads, queries, keys; added to the energy */
  bias: Floats | null;
  /** The name of the energy, for example "q·k / √64". */
  formula: string;
}

/** One hypothesis of the beam search, longer than its parent by one piece. */
export interface BeamNode {
  id: number;
  parent: number | null;
  step: number;
  token: number;
  piece: string;
  log_probability: number;
  /** Sum of the log probabilities of the pieces up to this one. */
  total: number;
  /** The score with the length penalty; null until the hypothesis has ended. */
  score: number | null;
  state: "live" | "ended" | "pruned";
  /** Whether the node is on the path of the final output. */
  best: boolean;
}

export interface SearchSettings {
  beam: number;
  length_penalty: number;
  nbest: number;
}

/** The search of a translation, and its output. */
export interface Search {
  settings: SearchSettings;
  /** Number of forced pieces at the start of the target. */
  forced: number;
  /** Index of the output in `candidates`; 0 is the best. */
  candidate: number;
  candidates: { text: string; score: number; log_probability: number }[];
  output: string;
  score: number;
  log_probability: number;
  finished: boolean;
}

/** The predictions of the output layer from the state after each layer (logit lens). */
export interface Lens {
  layers: string[];
  /** Indices of the predictions. */
  sites: number[];
  /** layers, sites */
  rows: { label: string; log_probability: number | null }[][];
}

/** A block of the network, with the shape of its output for this input. */
export interface Block {
  name: string;
  text: string;
  shape: string;
  /** The name of its attention in the document, if any. */
  attention: string | null;
}

/** A word that is heard from `start` to `end`, in seconds. */
export interface Word {
  word: string;
  start: number;
  end: number;
}

/** Music: the MIDI pitches that sound in each frame. */
export interface Roll {
  /** Frames per quarter note. */
  steps: number;
  frames: number[][];
  /** The given frames, if the model predicted the others. */
  given?: number[][];
}

/** One inspected input, for any task. Only translations have `search`. */
export interface Inspection {
  format: "regard-inspection";
  version: 2;
  model: { name: string; task: string; checkpoint: string; source_language?: string | null; target_language?: string | null };
  text: string;
  surfaces: Surface[];
  predictions: Prediction[];
  /** By layer name, such as "encoder.0.self", in the order of the network. */
  attention: Record<string, Attention>;
  influences: Influence[];
  facts: {
    unknown?: string[];
    truncated?: boolean;
    parts?: Record<string, number>;
    node_labels?: (string | null)[];
    roll?: Roll;
    /** Speech: the recognized text, and its words with their seconds. */
    text?: string;
    words?: Word[];
  };
  sentences?: string[];
  sentence?: number;
  search?: Search;
  alignment?: Alignment | null;
  /** "encoder": source by source; "source": target by source. */
  rollout?: Record<string, Floats>;
  /** By attention, for each head: change of log P(output), in nats, without the head. */
  ablation?: Record<string, number[]>;
  vectors?: Record<string, Vectors>;
  beam?: BeamNode[];
  lens?: Lens;
  network?: Block[];
  /** For a language model: the most probable next tokens under the sampling settings of the request. */
  next?: Alternative[];
  /** The output of `regard predict` with the settings of the request. */
  output?: string;
}

/** The JSON Schema of a field that a request can set. */
export interface Field {
  type?: string;
  anyOf?: Field[];
  description?: string;
  minimum?: number;
  maximum?: number;
}

/** Settings of the output, with the values of the run. */
export interface RequestSettings {
  values: Record<string, number | boolean | string | null>;
  schema: { properties: Record<string, Field> };
}

export interface Curve {
  name: string;
  unit: string;
  /** The metric of a baseline without inputs, such as the most frequent label. */
  baseline?: string;
  /** update, value */
  points: [number, number][];
}

/** The limits of a server. `pieces`, `beam`, `nbest` and `files` apply to translation models only. */
export interface Limits {
  /** Maximum number of characters of a text or a file. */
  characters: number;
  /** Maximum number of tokens of an output, for models with a setting `length`. */
  length?: number;
  /** Maximum number of pieces of an inspected sentence. */
  pieces: number;
  beam: number;
  nbest: number;
  /** Maximum number of bytes of a request. */
  file_bytes: number;
  /** The allowed endings of file names. */
  files: string[];
}

/** The network compared with its baseline, by metric. `error` is the standard error of the difference; null if unknown. */
export interface Comparison {
  description: string;
  checkpoint: string;
  metrics: Record<string, { network: number; baseline: number; difference: number; error: number | null }>;
}

/** The form of an input: one or more texts, a text with gaps, items, names of nodes, JSON, or the contents of a file. */
export interface InputForm {
  kind: "text" | "gaps" | "items" | "nodes" | "json" | "audio" | "image" | "table";
  /** The labels of the input boxes. */
  boxes: string[];
  /** Suggested names. */
  choices: string[];
}

export interface ModelDetails {
  name: string;
  source: string | null;
  target: string | null;
  /** Numbered checkpoints, oldest first, then names such as "best" and "average". */
  checkpoints: string[];
  checkpoint: string;
  task?: string;
  takes?: string;
  gives?: string;
  input?: InputForm;
  /** null: requests have no settings. */
  settings?: RequestSettings | null;
  /** Whether its inputs can be inspected. */
  inspects?: boolean;
  /** Whether a text can be generated piece by piece. */
  streams?: boolean;
  /** Whether speech is recognized while it arrives. */
  listens?: boolean;
  /** A digest of the weights of each checkpoint. */
  weights?: Record<string, string>;
  /** Up to three inputs of the validation data. */
  examples?: string[];
  /** The purpose of the model and its validation metric. */
  about?: string;
  /** Names of the classes. */
  labels?: string[];
  /** Set by a server; missing in a saved page. */
  limits?: Limits;
  /** For translation models only. */
  search?: SearchSettings;
  /** The network compared with its baseline on the validation data; null if they were not compared. */
  comparison?: Comparison | null;
  /** The parts of the model: label and value. */
  parts: [string, string][];
  curves: Curve[];
}

export interface ModelEntry {
  name: string;
  task?: string;
  source: string | null;
  target: string | null;
  ready: boolean;
}

/** The data of a page that works offline. */
export interface Bundle {
  main: Inspection;
  other?: Inspection;
  replay?: Inspection[];
  model?: ModelDetails;
  view?: View;
}
