// What the components draw; `reading.ts` makes it of the documents that Python writes. Nothing here is computed.

/** Base64 of little-endian float32, row-major. */
export interface Floats {
  shape: number[];
  data: string;
}

/** One side of a translation. `source.pieces` ends with the end symbol "</s>". */
export interface Side {
  text: string;
  ids: number[];
  pieces: string[];
  /** For each piece, the index of its word in `spelled`. */
  words: number[];
  spelled: string[];
}

/** `pieces` are the OUTPUTS, the last of them "</s>" where the output is finished. */
export interface Target extends Side {
  /** What the decoder was fed: "<s>", then the outputs but the last. */
  inputs: string[];
}

export interface Candidate {
  id: number;
  piece: string;
  log_probability: number;
}

/** What the model weighed up at one target piece. */
export interface Step {
  /** In nats. */
  entropy: number;
  /** Of the chosen piece; 0 is the most likely. */
  rank: number;
  log_probability: number;
  /** Ten, best first. */
  candidates: Candidate[];
}

/**
 * encoder: encoder self-attention; decoder: decoder self-attention; source: encoder-decoder attention.
 * The query of row t is the one that predicts target piece t ("source" and "decoder"); keys are `target.inputs`
 * for "decoder" and `source.pieces` for "source"; for "encoder" both are `source.pieces`.
 */
export type Kind = "encoder" | "decoder" | "source";

export interface Attention {
  kind: Kind;
  layer: number;
  mechanism: string;
  /** heads, queries, keys. A row may be all 0: a query that sees nothing. */
  weights: Floats;
  /** One value per head, by name: entropy, distance, diagonality, largest, end. */
  measures: Record<string, number[]>;
}

/** The attention that fits the word alignment best. */
export interface Alignment {
  attention: string;
  /** null: the mean of the heads. */
  head: number | null;
  /** How many rows after a piece's own it is read: 1 where the piece has just been fed in. */
  shift: number;
  /** (target, source), with the rows moved. */
  weights: Floats;
  /** A sentence: how it was chosen. */
  why: string;
  /** target piece, source piece, weight */
  links: [number, number, number][];
}

/** What the weights of an attention were computed from. */
export interface Vectors {
  kind: "product" | "additive" | "none";
  scale: number;
  /** heads, positions, width */
  query: Floats;
  key: Floats;
  value: Floats;
  /** (queries, keys): 1 where the mask lets a query look. */
  allowed: Floats;
  /** heads, width; of additive attention only */
  vector: Floats | null;
  /** heads, queries, keys; added to the energy */
  bias: Floats | null;
  /** How to name the energy, for example "q·k / √64". */
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
  /** Sum of the log probabilities down to here. */
  total: number;
  /** With the length penalty; null until the hypothesis has ended. */
  score: number | null;
  state: "live" | "ended" | "pruned";
  /** On the path of the final output. */
  best: boolean;
}

export interface Search {
  beam: number;
  length_penalty: number;
  nbest: number;
}

/** One sentence through one model. */
export interface Inspection {
  format: "regard-inspection";
  version: 1;
  model: { name: string; checkpoint: string; source_language: string | null; target_language: string | null };
  search: Search;
  /** How many target pieces, from the first, were forced. */
  forced: number;
  /** Which of `candidates` this is; 0 is the best. */
  candidate?: number;
  /** Characters of the text that the model has never seen, each once. */
  unknown?: string[];
  /** The sentences of the text that was given, and which of them this is; 0 is the first. */
  sentences?: string[];
  sentence?: number;
  source: Side;
  target: Target;
  score: number;
  log_probability: number;
  finished: boolean;
  /** Best first. */
  candidates: { text: string; score: number; log_probability: number }[];
  /** One per target piece. */
  steps: Step[];
  /** By name ("encoder.0.self", "decoder.2.source"), in order of layers; empty for a model without attention. */
  attention: Record<string, Attention>;
  alignment: Alignment | null;
  /** "encoder": source by source; "source": target by source. May be empty. */
  rollout: Record<string, Floats>;
  /** By attention, per head: change of log P(output), in nats, when the head is switched off. */
  ablation?: Record<string, number[]>;
  vectors?: Record<string, Vectors>;
  beam?: BeamNode[];
  /** The document that this was made of. */
  written?: object;
}

/** Positions along one side of the weights: what they are, and each one's label. */
export interface Axis {
  name: string;
  labels: string[];
}

/** null: impossible. */
export interface Alternative {
  label: string;
  log_probability: number | null;
}

export interface ObservedStep extends Alternative {
  /** Best first. */
  alternatives: Alternative[];
}

/** One input of any task. Labels of the steps, one after the other, are the text where there is one. */
export interface Observation {
  format: "regard-observation";
  version: 1;
  model: { name: string; task: string; checkpoint: string };
  text: string;
  /** By place; heads, queries, keys. Empty for a model without attention. */
  attention: Record<string, { weights: Floats; query: Axis; key: Axis }>;
  steps: ObservedStep[];
  /** What is likely after the last step, best first. */
  following: Alternative[];
  /** What network and baseline add to the output, for a model of both; see `facts` in `regard inspect --json`. */
  parts?: Record<string, number>;
  /** The document that this was made of. */
  written?: object;
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
  /** update, value */
  points: [number, number][];
}

/** What a server allows; all but `characters` and `length` of a translation model alone. */
export interface Limits {
  /** Of a text, or of a file. */
  characters: number;
  /** Tokens of an output, of a model that takes a length. */
  length?: number;
  /** Of a sentence that is looked into. */
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

export interface ModelDetails {
  name: string;
  source: string | null;
  target: string | null;
  /** Oldest first, then names such as "best" and "average". */
  checkpoints: string[];
  checkpoint: string;
  /** Kind of work; a translation where nothing is said. */
  task?: string;
  takes?: string;
  gives?: string;
  /** null: a request sets nothing. */
  settings?: RequestSettings | null;
  /** Whether it can be looked into. */
  inspects?: boolean;
  /** Whether a text may be read as it grows. */
  streams?: boolean;
  /** By checkpoint, what tells its weights from others. */
  weights?: Record<string, string>;
  /** A sentence of the validation data. */
  example?: string | null;
  /** Said by a server alone. */
  limits?: Limits;
  /** Of a translation model. */
  search?: Search;
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
  main: Inspection | Observation;
  other?: Inspection;
  replay?: Inspection[];
  model?: ModelDetails;
}
