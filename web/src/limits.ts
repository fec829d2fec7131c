// The limits of a server, checked before a request, and messages for the errors of a server.
import type { Limits } from "./document";

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function kibibytes(bytes: number): string {
  return `${Math.round(bytes / 1024).toLocaleString("en")} KiB`;
}

/** Number of characters as the server counts them: code points, not UTF-16 units. */
export function lengthOf(text: string): number {
  return [...text].length;
}

export function textProblem(text: string, limits: Limits | undefined): string {
  const length = lengthOf(text.trim());
  if (!limits || length <= limits.characters) return "";
  return `The text is too long: it has ${count(length, "character")}, and the limit of this server is ${limits.characters.toLocaleString("en")}.`;
}

// Bytes that the form adds to the file.
const FORM_BYTES = 1024;

export function fileProblem(file: { name: string; size: number }, limits: Limits | undefined): string {
  if (!limits) return "";
  const supported = limits.files.some((ending) => file.name.toLowerCase().endsWith(ending));
  if (!supported) return `This server cannot translate ${file.name}. Supported file types: ${limits.files.join(", ")}.`;
  if (file.size + FORM_BYTES <= limits.file_bytes) return "";
  return `${file.name} is too large: it has ${kibibytes(file.size)}, and this server accepts less than ${kibibytes(limits.file_bytes)}.`;
}

/** What an error means and how to fix it, followed by the message of the server. */
export function refusal(status: number, message: string, retryAfter: string | null): string {
  const detail = message.replace(/^Invalid request: /, "");
  const seconds = Number(retryAfter) > 0 ? Math.ceil(Number(retryAfter)) : 0;
  const retry = seconds ? `Try again in ${count(seconds, "second")}.` : "Try again in a moment.";
  if (status === 413) return `The request is too large for this server. Send a shorter input. ${sentence(detail)}`.trim();
  if (status === 429 && /quota/.test(detail)) return sentence(detail);
  if (status === 429) return `The server received too many requests. ${retry} ${sentence(detail)}`.trim();
  if (status === 408 || status === 504 || (status === 503 && /more than/.test(detail)))
    return `The server could not finish in time. Use a shorter text or a smaller beam. ${retry} ${sentence(detail)}`.trim();
  if (status === 503) return `${sentence(detail) || "The server is not ready."} ${retry}`;
  if (status >= 500) return `The server failed. ${sentence(detail)}`.trim();
  return sentence(detail) || `The server returned status ${status}.`;
}

function sentence(text: string): string {
  const whole = text.trim();
  return whole && whole[0].toUpperCase() + whole.slice(1) + (/[.!?]$/.test(whole) ? "" : ".");
}
