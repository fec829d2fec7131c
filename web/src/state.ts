import { computed, signal } from "@preact/signals";
import type { Inspection, ModelDetails, ModelEntry } from "./document";
import { readBundle } from "./offline";
import { settle, show, showAligned, type Choice } from "./shown";

const bundle = readBundle();

/** A page with its data in it has no server to ask. */
export const offline = bundle !== null;

export const models = signal<ModelEntry[]>([]);
export const details = signal<ModelDetails | null>(bundle?.model ?? null);
export const inspection = signal<Inspection | null>(bundle?.main ?? null);
export const other = signal<Inspection | null>(bundle?.other ?? null);
export const replay = signal<Inspection[]>(bundle?.replay ?? []);

/** What the next translation is asked with. */
export const asking = {
  text: signal(bundle?.main.source.text ?? ""),
  model: signal(""),
  checkpoint: signal(""),
  beam: signal<number | null>(null),
  lengthPenalty: signal<number | null>(null),
  force: signal<number[]>([]),
};

/** The attention that was chosen to look at; null for the default of each inspection. */
export const choice = signal<Choice | null>(null);
export const settled = computed(() => (inspection.value ? settle(inspection.value, choice.value) : null));
export const shown = computed(() =>
  inspection.value && settled.value ? show(inspection.value, settled.value) : null,
);

/** The same in the aligned text. */
export const aligned = computed(() =>
  inspection.value && settled.value ? showAligned(inspection.value, settled.value) : null,
);

/** The cell worked out, by query and key. */
export const cell = signal<{ query: number; key: number } | null>(null);

/** How the aligned text is drawn; its export follows. */
export const unit = signal<"words" | "pieces">("pieces");
export const linkCount = signal(3);
export const threshold = signal(0.05);

/** How the heat map is drawn; its export follows. */
export const hideSpecial = signal(false);
export const stretchRows = signal(false);

export type Place = "translate" | "extras" | "vectors" | "compare" | "replay" | "export";
interface Status {
  busy: boolean;
  problem: string;
}
const idle: Status = { busy: false, problem: "" };
export const status = {
  translate: signal(idle),
  extras: signal(idle),
  vectors: signal(idle),
  compare: signal(idle),
  replay: signal(idle),
  export: signal(idle),
};
export const keyNeeded = signal(false);

export type Theme = "auto" | "light" | "dark";
const THEME = "regard-theme";
const preference = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(preference.matches);
preference.addEventListener("change", (event) => (systemDark.value = event.matches));

// A page opened from a file may be refused the store.
function stored(): Theme {
  try {
    const value = localStorage.getItem(THEME);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto";
  }
}

export const theme = signal<Theme>(stored());
export const dark = computed(() => (theme.value === "auto" ? systemDark.value : theme.value === "dark"));

export function setTheme(value: Theme): void {
  theme.value = value;
  try {
    localStorage.setItem(THEME, value);
  } catch {
    // The choice then lasts as long as the page.
  }
}
