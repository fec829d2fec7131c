// Names in an input line, separated by spaces. If a name has a space, the line is a JSON list.
import { count } from "./limits";


/** The names in a line that a user wrote. */
export function namesOf(line: string): string[] {
  const text = line.trim();
  if (text.startsWith("[")) {
    try {
      const names: unknown = JSON.parse(text);
      if (Array.isArray(names)) return names.map(String);
    } catch {
      // Not JSON: the first name starts with a bracket.
    }
  }
  return text.split(/\s+/).filter(Boolean);
}

/** The line that contains these names. */
export function joinNames(names: string[]): string {
  const plain = names.every((name) => !/\s/.test(name)) && !names[0]?.startsWith("[");
  return plain ? names.join(" ") : JSON.stringify(names);
}

const FILE_LINE = /^\s*\{"(audio|image|table|values)":/;

/** Whether a line has the contents of a file, or rows of numbers. */
export function isFileLine(line: string): boolean {
  return FILE_LINE.test(line);
}

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let from = 0; from < bytes.length; from += 8192) binary += String.fromCharCode(...bytes.subarray(from, from + 8192));
  return btoa(binary);
}

export type FileKind = "audio" | "image" | "table";

/** The contents in a line of a kind: base64 of a sound or an image, or the text of a table; null for another line. */
export function contentsOf(line: string, kind: FileKind): string | null {
  if (!isFileLine(line)) return null;
  try {
    const contents: unknown = JSON.parse(line)[kind];
    return typeof contents === "string" ? contents : null;
  } catch {
    return null;
  }
}

/** The rows of numbers in a line; null for another line. */
export function valuesOf(line: string): unknown[][] | null {
  if (!isFileLine(line)) return null;
  try {
    const { values } = JSON.parse(line) as { values?: unknown };
    return Array.isArray(values) ? values.map((row) => (Array.isArray(row) ? row : [row])) : null;
  } catch {
    return null;
  }
}

/** A short description of a line with the contents of a file; another line is returned as it is. */
export function described(line: string): string {
  const [sound, image, table] = (["audio", "image", "table"] as const).map((kind) => contentsOf(line, kind));
  if (sound !== null) return `a sound of ${duration(sound) ?? size(sound)}`;
  if (image !== null) return `an image of ${pixels(image) ?? size(image)}`;
  const rows = valuesOf(line);
  if (rows !== null) return `a table of ${count(rows.length, "row")}`;
  if (table !== null) return `a table of ${count(rowsOf(table).length - 1, "row")}`;
  return line;
}

function size(base64: string): string {
  return `${Math.max(1, Math.round((base64.length * 3) / 4 / 1024)).toLocaleString("en")} KiB`;
}

/** The first 48 bytes of a file; null for a shorter file or another text. */
function head(base64: string): DataView | null {
  if (!/^[A-Za-z0-9+/]{64}/.test(base64)) return null;
  return new DataView(Uint8Array.from(atob(base64.slice(0, 64)), (character) => character.charCodeAt(0)).buffer);
}

/** The seconds of a WAV file, by the bytes per second in its header; null for another format. */
function duration(base64: string): string | null {
  const header = head(base64);
  if (header?.getUint32(0) !== 0x52494646) return null;
  const seconds = (base64.length * 3) / 4 / header.getUint32(28, true);
  return Number.isFinite(seconds) ? `${seconds.toFixed(1)} s` : null;
}

/** The size of a PNG file in pixels, by its header; null for another format. */
function pixels(base64: string): string | null {
  const header = head(base64);
  if (header?.getUint32(0) !== 0x89504e47) return null;
  return `${header.getUint32(16)} × ${header.getUint32(20)} pixels`;
}

/** The cells of a CSV or TSV text, row by row. */
export function rowsOf(text: string): string[][] {
  const [heading] = text.split("\n", 1);
  const separator = heading.includes("\t") ? "\t" : heading.includes(";") && !heading.includes(",") ? ";" : ",";
  const rows: string[][] = [[]];
  let [cell, quoted] = ["", false];
  const end = () => {
    rows.at(-1)!.push(cell);
    cell = "";
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted && character === '"' && text[at + 1] === '"') cell += text[++at];
    else if (character === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (!quoted && character === separator) end();
    else if (!quoted && character === "\n") {
      end();
      rows.push([]);
    } else if (quoted || character !== "\r") cell += character;
  }
  if (cell !== "" || rows.at(-1)!.length) end();
  return rows.filter((row) => row.some((value) => value !== ""));
}
