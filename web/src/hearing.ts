// Speech that is recognized while it arrives: messages of the server, the text so far, and the delay of each word.

import type { Delayed } from "./components/Growing";

/** The output after a step of sound. Times are in seconds since the beginning. */
export interface HeardStep {
  seconds: number;
  committed: string;
  new: string;
  unstable: string;
  final: boolean;
  words: { word: string; start: number; end: number }[];
}

export interface Heard {
  /** The text of the segments that are closed. */
  before: string;
  committed: string;
  unstable: string;
  /** Seconds of sound that were read. */
  seconds: number;
  /** For each word, the seconds of sound between its end and the step that committed it. */
  delays: Delayed[];
}

export const NOTHING: Heard = { before: "", committed: "", unstable: "", seconds: 0, delays: [] };

/** The state after another step. */
export function heardAfter(heard: Heard, step: HeardStep): Heard {
  const delays = [...heard.delays, ...step.words.map(({ word, end }) => ({ word, delay: Math.max(0, step.seconds - end) }))];
  if (!step.final) return { ...heard, committed: step.committed, unstable: step.unstable, seconds: step.seconds, delays };
  return { before: [heard.before, step.committed].filter(Boolean).join(" "), committed: "", unstable: "", seconds: step.seconds, delays };
}

/** The text to show: committed, and the unstable rest. */
export function heardText({ before, committed, unstable }: Heard): { committed: string; unstable: string } {
  return { committed: [before, committed].filter(Boolean).join(" "), unstable: before && !committed && unstable ? ` ${unstable.trimStart()}` : unstable };
}

/** Samples from −1 to 1 as 16-bit little-endian PCM. */
export function pcmOf(samples: Float32Array): ArrayBuffer {
  const view = new DataView(new ArrayBuffer(2 * samples.length));
  samples.forEach((sample, index) => view.setInt16(2 * index, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true));
  return view.buffer;
}
