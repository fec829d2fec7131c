// The limits of a server, checked before a request, and its errors in words for the user.
import type { Limits } from "./document";

export function count(number: number, thing: string): string {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}

export function kibibytes(bytes: number): string {
  return `${Math.round(bytes / 1024).toLocaleString("en")} KiB`;
}

/** Characters as the server counts them: not halves of pairs. */
export function lengthOf(text: string): number {
  return [...text].length;
}

export function textProblem(text: string, limits: Limits | undefined): string {
  const length = lengthOf(text.trim());
  if (!limits || length <= limits.characters) return "";
  return `The text is too long: ${count(length, "character")}, where this server takes ${limits.characters.toLocaleString("en")}.`;
}

// What a form adds to the file in it.
const FORM_BYTES = 1024;

export function fileProblem(file: { name: string; size: number }, limits: Limits | undefined): string {
  if (!limits) return "";
  const known = limits.files.some((ending) => file.name.toLowerCase().endsWith(ending));
  if (!known) return `${file.name} is of a kind that this server does not translate; it takes ${limits.files.join(", ")}.`;
  if (file.size + FORM_BYTES <= limits.file_bytes) return "";
  return `${file.name} is too large: ${kibibytes(file.size)}, where this server takes less than ${kibibytes(limits.file_bytes)}.`;
}

/** The meaning of an error, what to do, and the message of the server. */
export function refusal(status: number, said: string, retryAfter: string | null): string {
  const own = said.replace(/^Invalid request: /, "");
  const seconds = Number(retryAfter) > 0 ? Math.ceil(Number(retryAfter)) : 0;
  const again = seconds ? `Try again in ${count(seconds, "second")}.` : "Try again in a moment.";
  if (status === 413) return `This is too large for this server; send less at a time. ${sentence(own)}`.trim();
  if (status === 429 && /quota/.test(own)) return sentence(own);
  if (status === 429) return `The server received too many requests. ${again} ${sentence(own)}`.trim();
  if (status === 408 || status === 504 || (status === 503 && /more than/.test(own)))
    return `The server could not do this in time: a shorter text or a smaller beam takes less. ${again} ${sentence(own)}`.trim();
  if (status === 503) return `${sentence(own) || "The server is not ready."} ${again}`;
  if (status >= 500) return `Something failed in the server. ${sentence(own)}`.trim();
  return sentence(own) || `The server answered with status ${status}.`;
}

function sentence(text: string): string {
  const whole = text.trim();
  return whole && whole[0].toUpperCase() + whole.slice(1) + (/[.!?]$/.test(whole) ? "" : ".");
}
