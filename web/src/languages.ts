import type { ModelEntry } from "./document";

const NAMES = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

/** The English name of a language code; "" if there is no code. */
export function languageName(code: string | null | undefined): string {
  try {
    return code ? (NAMES.of(code) ?? code) : "";
  } catch {
    return code ?? "";
  }
}

/** "English → German"; only one side if the other is unknown. */
export function directionOf({ source, target }: { source?: string | null; target?: string | null }): string {
  const [from, to] = [languageName(source), languageName(target)];
  return from && to ? `${from} → ${to}` : from ? `from ${from}` : to ? `to ${to}` : "";
}

export function modelLabel(model: ModelEntry): string {
  const direction = directionOf(model) || (model.task && model.task !== "translation" ? model.task : "");
  return model.name + (direction && `: ${direction}`) + (model.ready ? "" : " – loads at first use");
}
