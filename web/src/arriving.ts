// A translation that grows while its source arrives: the policies, committed words and their delays.

import type { Delayed } from "./components/Growing";

export type Policy = "wait-k" | "local-agreement" | "alignatt";

/** The policies, with the unit of their lag and its default. */
export const POLICIES: Record<Policy, { lag: number; least: number; unit: string }> = {
  "local-agreement": { lag: 1, least: 1, unit: "words between two hypotheses" },
  alignatt: { lag: 2, least: 0, unit: "last words that a word waits for" },
  "wait-k": { lag: 5, least: 1, unit: "words before the first one is written" },
};

export interface StreamAnswer {
  committed: string;
  new: string;
  unstable: string;
  final: boolean;
  rest: string;
  read: number;
  cursor: string;
}

/** The stream of the present sentence, and the sentences before it. */
export interface Stream {
  /** The source of the sentences that are complete, as it was typed. */
  closed: string;
  /** Their translation. */
  before: string;
  answer: StreamAnswer | null;
  /** For each committed word, the source words that were read when it was complete. */
  delays: Delayed[];
}

export const EMPTY: Stream = { closed: "", before: "", answer: null, delays: [] };

/** The words of a source that a server reads: all but a last one without a space. */
export function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

/** The stream after an answer to a source. */
export function advanced(stream: Stream, text: string, answer: StreamAnswer): Stream {
  const delays = [...stream.delays];
  const known = delays.length;
  const words = wordsOf(answer.committed);
  const first = stream.answer === null || stream.answer.final ? known : known - wordsOf(stream.answer.committed).length;
  words.forEach((word, index) => {
    const at = first + index;
    if (at >= delays.length) delays.push({ word, delay: answer.read });
    else if (delays[at].word !== word) delays[at] = { word, delay: answer.read }; // punctuation was added
  });
  if (!answer.final) return { ...stream, answer, delays };
  const closed = text.slice(0, text.length - answer.rest.length);
  return { closed, before: joined(stream.before, answer.committed), answer: null, delays };
}

function joined(before: string, after: string): string {
  return before && after ? `${before} ${after}` : before + after;
}

/** The text to show: committed, and the unstable rest. */
export function shownText({ before, answer }: Stream): { committed: string; unstable: string } {
  return { committed: joined(before, answer?.committed ?? ""), unstable: answer?.unstable ?? "" };
}
