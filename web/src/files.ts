// Files as inputs: their limits, and the lines that contain them.
import type { Limits } from "./document";
import { base64Of, isFileLine, type FileKind } from "./inputs";
import { kibibytes, textProblem } from "./limits";
import { details, form } from "./state";

const ROOM = 2048; // bytes of a request around a file

/** The number of bytes that a line with a file may have; Infinity without a limit. */
export function lineLimit(limits: Limits | undefined): number {
  return limits?.file_bytes ? limits.file_bytes - ROOM : Infinity;
}

/** The number of bytes that a sound or an image may have: four letters contain three bytes. */
export function contentsLimit(limits: Limits | undefined): number {
  return Math.floor((lineLimit(limits) * 3) / 4);
}

/** The number of bytes of a line in the JSON of a request. */
const sizeOf = (line: string) => new TextEncoder().encode(JSON.stringify(line)).length;

/** Why a server would refuse an input; empty if it would not. */
export function inputProblem(line: string, limits: Limits | undefined): string {
  if (!isFileLine(line)) return textProblem(line, limits);
  const size = sizeOf(line);
  if (size <= lineLimit(limits)) return "";
  return `The file is too large: its request has ${kibibytes(size)}, and this server accepts less than ${kibibytes(limits!.file_bytes!)}.`;
}

/** Writes a sound or an image into the form. Throws if it is empty or larger than the server accepts. */
export function useBytes(kind: "audio" | "image", bytes: Uint8Array, name: string): void {
  const limit = contentsLimit(details.value?.limits);
  if (!bytes.length) throw new Error(`${name} is empty.`);
  if (bytes.length > limit) throw new Error(`${name} is too large: it has ${kibibytes(bytes.length)}, and this server accepts at most ${kibibytes(limit)}.`);
  form.text.value = JSON.stringify({ [kind]: base64Of(bytes) });
}

/** A table without the rows in the middle that do not fit: its heading and its last rows. */
export function lastRows(text: string, limit: number): { text: string; dropped: number } {
  const size = (part: string) => sizeOf(JSON.stringify(`${part}\n`));
  if (size(text) <= limit) return { text, dropped: 0 };
  const [heading, ...rows] = text.trimEnd().split("\n");
  let [from, left] = [rows.length, limit - size(heading)];
  while (from > 0 && size(rows[from - 1]) <= left) left -= size(rows[--from]);
  return { text: [heading, ...rows.slice(from)].join("\n") + "\n", dropped: from };
}

/** Writes a table, or a JSON line with its rows, into the form, and returns the number of rows that were dropped to fit the limit of the server. */
export function useTable(table: string): number {
  if (isFileLine(table)) {
    form.text.value = table;
    return 0;
  }
  const { text, dropped } = lastRows(table, lineLimit(details.value?.limits) - 64);
  form.text.value = text.trim() ? JSON.stringify({ table: text }) : "";
  return dropped;
}

/** The endings of file names that a browser offers first. */
export const ACCEPTED: Record<FileKind, string> = {
  audio: "audio/*,.wav,.flac,.ogg,.mp3",
  image: "image/png,image/jpeg,.png,.jpg,.jpeg,.pgm",
  table: ".csv,.tsv,.txt,text/csv",
};
