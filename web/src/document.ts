import type { View } from "./view";

// The inspection document that Python writes (format version 2), and the data of a server about its models.

/** Base64 of little-endian float32, row-major. */
export interface Floats {
  shape: number[];
  data: string;
}

/** One sequence or graph that a model reads or writes. A text's pieces may include special ones, such as "</s>". */
export interface Surface {
  kind: "tokens" | "letters" | "items" | "notes" | "frames" | "graph";
  pieces: string[];
  /** For each piece, the index of its word in `spelled`; empty if pieces are words. */
  words: number[];
  spelled: string[];
  ids: number[];
  /** Text between two pieces. */
  separator: string;
  /** Of a graph: indices of the nodes of each edge. */
  edges: [number, number][];
  /** Of a graph: index of the node of the prediction. */
  center: number | null;
}

/** One possible label; a log probability of null is −∞. */
export interface Alternative {
  label: string;
  log_probability: number | null;
  /** In the vocabulary, if it has one. */
  id?: number;
}

export type SiteKind = "whole" | "piece" | "after" | "gap" | "node" | "pair";

/** One prediction of the model at one site. */
export interface Prediction {
  at: { kind: SiteKind; pieces: number[]; surface: number };
  kind: "label" | "labels" | "number" | "tag" | "token" | "item" | "link";
  label: string;
  /** null: −∞, or of a number. */
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
  /** Such as "self" or "source". */
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

/** The change of a prediction when a piece is hidden; null where its probability becomes 0. */
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
  /** How many rows after its own a piece is read: 1 where the piece is the decoder's last input. */
  shift: number;
  /** (target, source), with the rows moved. */
  weights: Floats;
  /** A sentence: how it was chosen. */
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
  /** heads, width; of additive attention only */
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
  /** With the length penalty; null until the hypothesis has ended. */
  score: number | null;
  state: "live" | "ended" | "pruned";
  /** On the path of the final output. */
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
  /** Number of target pieces, from the first, that were forced. */
  forced: number;
  /** Index of the output in `candidates`; 0 is the best. */
  candidate: number;
  candidates: { text: string; score: number; log_probability: number }[];
  output: string;
  score: number;
  log_probability: number;
  finished: boolean;
}

/** The predictions from the state after each layer, by the network's own output layer (logit lens). */
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

/** Music: the MIDI pitches that sound in each frame. */
export interface Roll {
  /** Frames per quarter note. */
  steps: number;
  frames: number[][];
  /** Frames that were given, of a model that completes them. */
  given?: number[][];
}

/** One input of a model of any task; `search` is of a translation. */
export interface Inspection {
  format: "regard-inspection";
  version: 2;
  model: { name: string; task: string; checkpoint: string; source_language?: string | null; target_language?: string | null };
  text: string;
  surfaces: Surface[];
  predictions: Prediction[];
  /** By name, such as "encoder.0.self", in the order of the network. */
  attention: Record<string, Attention>;
  influences: Influence[];
  facts: { unknown?: string[]; truncated?: boolean; parts?: Record<string, number>; node_labels?: (string | null)[]; roll?: Roll };
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
  /** Of a text, the most probable next tokens as they are sampled with the settings of the request. */
  next?: Alternative[];
  /** The output of `regard predict` with the settings of the request. */
  output?: string;
}

/** A field that a request may set, as JSON Schema says it. */
export interface Field {
  type?: string;
  anyOf?: Field[];
  description?: string;
  minimum?: number;
  maximum?: number;
}

/** Settings of an output, with the run's own values. */
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

/** What a server allows; all but `characters` and `length` of a translation model alone. */
export interface Limits {
  /** Of a text, or of a file. */
  characters: number;
  /** Tokens of an output, of a model that takes a length. */
  length?: number;
  /** Of a sentence that is inspected. */
  pieces: number;
  beam: number;
  nbest: number;
  file_bytes: number;
  /** What file names may end in. */
  files: string[];
}

/** By metric; the error is the standard error of the difference, null where it is not known. */
export interface Comparison {
  description: string;
  checkpoint: string;
  metrics: Record<string, { network: number; baseline: number; difference: number; error: number | null }>;
}

/** How an input is written: a text, several texts, a text with gaps, items, names of nodes, or JSON. */
export interface InputForm {
  kind: "text" | "gaps" | "items" | "nodes" | "json";
  /** The labels of its parts. */
  boxes: string[];
  /** Names to choose from. */
  choices: string[];
}

export interface ModelDetails {
  name: string;
  source: string | null;
  target: string | null;
  /** Oldest first, then names such as "best" and "average". */
  checkpoints: string[];
  checkpoint: string;
  task?: string;
  takes?: string;
  gives?: string;
  input?: InputForm;
  /** null: a request sets nothing. */
  settings?: RequestSettings | null;
  /** Whether its inputs can be inspected. */
  inspects?: boolean;
  /** Whether a text can be generated piece by piece. */
  streams?: boolean;
  /** By checkpoint, a digest of its weights. */
  weights?: Record<string, string>;
  /** Up to three inputs of the validation data. */
  examples?: string[];
  /** What the model is, and how good. */
  about?: string;
  /** Names of the classes. */
  labels?: string[];
  /** Of a server. */
  limits?: Limits;
  /** Of a translation model. */
  search?: SearchSettings;
  /** The network and its baseline on the validation data; null where they were not compared. */
  comparison?: Comparison | null;
  /** What the model is made of: label and value. */
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

/** What a page that works offline carries. */
export interface Bundle {
  main: Inspection;
  other?: Inspection;
  replay?: Inspection[];
  model?: ModelDetails;
  view?: View;
}
