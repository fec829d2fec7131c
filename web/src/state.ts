import { computed, signal } from "@preact/signals";
import type { Inspection, ModelDetails, ModelEntry } from "./document";
import { BASELINE } from "./checkpoints";
import { glossaryOf } from "./glossary";
import { readBundle } from "./offline";
import { fitting, settle, show, showAligned, type Choice, type Overlaid } from "./shown";

const bundle = readBundle();
const savedInspection = bundle?.main ?? null;

/** The view of a saved page. */
export const savedView = bundle?.view ?? {};

/** Whether this is a saved page, which contains its data and has no server. */
export const offline = bundle !== null;

export const models = signal<ModelEntry[]>([]);
export const details = signal<ModelDetails | null>(bundle?.model ?? null);

/** The last inspection, and the subject of its request. */
export const answer = signal<Inspection | null>(savedInspection);
export const answered = signal("");
export const other = signal<Inspection | null>(bundle?.other ?? null);
export const replay = signal<Inspection[]>(bundle?.replay ?? []);

/** The values in the form, for the next request. */
export const form = {
  text: signal(savedInspection?.text ?? ""),
  model: signal(""),
  checkpoint: signal(""),
  beam: signal<number | null>(null),
  lengthPenalty: signal<number | null>(null),
  coveragePenalty: signal<number | null>(null),
  force: signal<number[]>([]),
  candidate: signal(0),
  sentence: signal(0),
};

/** The task of the model in the form. */
export const task = computed(
  () => savedInspection?.model.task ?? models.value.find((model) => model.name === form.model.value)?.task ?? "translation",
);

/** Whether the chosen checkpoint is a baseline without a network. */
export const isBaseline = computed(() => {
  const own = details.value?.checkpoint;
  return own === BASELINE && (form.checkpoint.value || own) === own;
});

/** Whether the model translates. A baseline has no search and is used like other tasks. */
export const translates = computed(() => (savedInspection ? savedInspection.search !== undefined : task.value === "translation" && !isBaseline.value));

/** Whether inputs of the model in the form can be inspected. */
export const inspects = computed(() => translates.value || details.value?.inspects !== false);

/** Settings of the next output, by name. Other settings have the value of the run. */
export const settings = signal<Record<string, number | boolean>>({});

const glossaryTerms = () => JSON.stringify(glossaryOf(glossary.value).terms);

/** The request that an answer belongs to: another text, model or setting is another subject. */
export const subject = computed(() => {
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty } = form;
  const search = translates.value ? [beam.value, lengthPenalty.value, coveragePenalty.value, glossaryTerms()] : [];
  const own = details.value?.streams ? {} : settings.value; // of a text, they change its continuation only
  return JSON.stringify([translates.value ? text.value.trim() : text.value, model.value, checkpoint.value, search, own]);
});

/** The inspection on the page: never of another request than the one in the form. */
export const inspection = computed(() => (offline || answered.value === subject.value ? answer.value : null));

/** Whether the text in the form is an example of the model. */
export const isExample = computed(() => {
  const text = form.text.value.trim();
  return !offline && (details.value?.examples ?? []).some((example) => example.trim() === text);
});

/** Required terms of a translation, one per line; see `glossary.ts`. */
export const glossary = signal("");

/** Whether to translate while the user types. */
export const translateWhileTyping = signal(false);

/** The translation of a text of several sentences, or with a glossary. */
export const whole = signal<string | null>(null);

/** The translation of a file, ready to be saved. */
export const translatedFile = signal<{ name: string; content: Blob } | null>(null);

/** Heads to draw in addition to the chosen one. Heads of other types are ignored. */
export const overlay = signal<Overlaid[]>([]);

/** The chosen head; null for the default of each inspection. */
export const choice = signal<Choice | null>(null);
export const settled = computed(() => (inspection.value ? settle(inspection.value, choice.value) : null));
export const shown = computed(() =>
  inspection.value && settled.value ? show(inspection.value, settled.value) : null,
);

/** The chosen head, for the aligned text. */
export const aligned = computed(() =>
  inspection.value && settled.value ? showAligned(inspection.value, settled.value) : null,
);

/** The additional heads, for the aligned text. */
export const overlaid = computed(() =>
  inspection.value && settled.value
    ? fitting(inspection.value, settled.value, overlay.value).map((each) => showAligned(inspection.value!, each))
    : [],
);

/** The site of the chosen answer: the index of its piece; null for the default. */
export const place = signal<number | null>(null);

/** The chosen piece of a surface of numbers: a frame, a time step or a patch. */
export const position = signal<number | null>(null);

/** The drawn series, by name; null for the first ones. */
export const channel = signal<string | null>(null);

/** The chosen cell of the heat map, whose weight is computed step by step. */
export const cell = signal<{ query: number; key: number } | null>(null);

/** Options of the aligned text and its export. */
export const unit = signal<"words" | "pieces">("pieces");
export const linkCount = signal(3);
export const threshold = signal(0.05);

/** Options of the heat map and its export. */
export const hideSpecial = signal(false);
export const stretchRows = signal(false);

export type Place = "translate" | "why" | "next" | "predict" | "file" | "whole" | "extras" | "vectors" | "compare" | "replay" | "export";
interface Status {
  busy: boolean;
  problem: string;
}
const idle: Status = { busy: false, problem: "" };
export const status = {
  translate: signal(idle),
  predict: signal(idle),
  why: signal(idle),
  next: signal(idle),
  file: signal(idle),
  whole: signal(idle),
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

// A browser can deny storage to a page that is opened from a file.
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
    // Without storage, the choice is lost when the page is closed.
  }
}
