// The actions of the form: choose a model, inspect an input, translate a file.
import { batch, effect } from "@preact/signals";
import { readAddress } from "./address";
import type { ModelEntry } from "./document";
import { fetchDetails, fetchModels, keepKey, translateFile } from "./api";
import { fileProblem, textProblem } from "./limits";
import { run, stop } from "./running";
import { inspectAgain, inspectInput, letGo, useView } from "./inspecting";
import { forgetOutput } from "./predicting";
import { asking, details, inspection, isExample, keyNeeded, models, settings, status, translatedFile } from "./state";

/** Whether the user submitted the input before the model was loaded. */
let pending = false;

async function loadDetails(keep: boolean, signal: AbortSignal): Promise<void> {
  const name = asking.model.value;
  const found = await fetchDetails(name);
  if (signal.aborted || asking.model.value !== name) return;
  batch(() => {
    details.value = found;
    models.value = models.value.map((model) => (model.name === name ? { ...model, ready: true } : model));
    if (!keep || !asking.checkpoint.value) asking.checkpoint.value = found.checkpoint;
    if (!keep || asking.beam.value === null) asking.beam.value = found.search?.beam ?? null;
    if (!keep || asking.lengthPenalty.value === null) asking.lengthPenalty.value = found.search?.length_penalty ?? null;
  });
}

/** Reads the address, loads the models, and inspects the text of the address or the first example of the model. */
export async function start(): Promise<void> {
  let given = false;
  await run("translate", async (signal) => {
    const address = readAddress(location.hash, location.search);
    given = address.text.trim() !== "";
    batch(() => {
      if (!pending) asking.text.value = address.text || asking.text.value;
      asking.checkpoint.value = address.checkpoint;
      asking.beam.value = address.beam;
      asking.lengthPenalty.value = address.lengthPenalty;
      asking.coveragePenalty.value = address.coveragePenalty;
      asking.force.value = address.force;
      asking.candidate.value = 0;
      asking.sentence.value = address.sentence;
      settings.value = address.settings;
      useView(address.view);
    });
    const found = await fetchModels();
    if (signal.aborted) return;
    models.value = found;
    if (!found.length) throw new Error("The server has no models.");
    const named = address.model ? found.find((model) => model.name === address.model) : found[0];
    if (!named) throw new Error(unknownModel(address.model, found));
    asking.model.value = named.name;
    await loadDetails(true, signal);
    given = beginWithExample(signal) || given;
  });
  await inspectIf(given);
}

/** Select the first model, and return the message for a link to a model that the server does not have. */
function unknownModel(name: string, found: ModelEntry[]): string {
  asking.model.value = found[0].name;
  return `This server has no model “${name}”; available models: ${found.map((model) => model.name).join(", ")}.`;
}

/** Writes the first example of the model into an empty form. Returns true if the form was empty. */
function beginWithExample(signal: AbortSignal): boolean {
  const example = details.value?.examples?.[0];
  if (signal.aborted || !example || asking.text.value.trim()) return false;
  asking.text.value = example;
  return true;
}

/** Inspects the input if the model is loaded and the input comes from a link, an example or the user. */
async function inspectIf(given: boolean): Promise<void> {
  if (!details.value || status.translate.value.busy || status.translate.value.problem) return;
  if (!given && !pending) return;
  pending = false;
  await inspectInput();
}

/** Selects a model. The form gets its first example, unless the user wrote a text. */
export async function pickModel(name: string): Promise<void> {
  let given = false;
  if (isExample.value) asking.text.value = "";
  stop("translate", "file");
  forgetOutput();
  batch(() => {
    details.value = translatedFile.value = null;
    asking.model.value = name;
    asking.checkpoint.value = "";
    letGo();
  });
  await run("translate", async (signal) => {
    await loadDetails(false, signal);
    given = beginWithExample(signal);
  });
  if (asking.model.value === name) await inspectIf(given);
}

export function useKey(key: string): Promise<void> {
  keepKey(key);
  keyNeeded.value = false;
  return details.value ? inspectInput() : begin();
}

/** Loads the models or the details again after an error. */
function begin(): Promise<void> {
  return models.value.length ? pickModel(asking.model.value) : start();
}

export async function submit(): Promise<void> {
  if (!details.value) {
    pending = true;
    if (!status.translate.value.busy) await begin();
    return;
  }
  await inspectAgain();
}

export function loadFile(file: File): Promise<void> {
  return run("file", async (signal) => {
    translatedFile.value = null;
    const model = details.value;
    const problem = fileProblem(file, model?.limits) || textProblem(await file.text(), model?.limits);
    if (problem || !model) throw new Error(problem || "The model is not loaded yet. Try again in a moment.");
    const content = await translateFile(file, model, signal);
    if (!signal.aborted) translatedFile.value = { name: file.name.replace(/(\.\w+)$/, `.${model.target ?? "translated"}$1`), content };
  });
}

/** Opens a permalink when the address changes, and sets the window title to the input. */
export function followAddress(): void {
  window.addEventListener("hashchange", () => void start());
  effect(() => {
    const text = inspection.value?.text;
    document.title = text ? `${text.slice(0, 60)} · Regard` : "Regard";
  });
}
