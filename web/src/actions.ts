// The actions of the form: choose a model, inspect an input, translate a file.
import { batch, effect } from "@preact/signals";
import { readAddress } from "./address";
import type { ModelEntry } from "./document";
import { fetchDetails, fetchModels, keepKey, translateFile } from "./api";
import { fileProblem, textProblem } from "./limits";
import { run, stop } from "./running";
import { inspectAgain, inspectInput, resetChoices, useView } from "./inspecting";
import { clearOutput } from "./predicting";
import { form, details, inspection, isExample, keyNeeded, models, settings, status, translatedFile } from "./state";

/** Whether the user submitted the input before the model was loaded. */
let pending = false;

async function loadDetails(keep: boolean, signal: AbortSignal): Promise<void> {
  const name = form.model.value;
  const modelDetails = await fetchDetails(name);
  if (signal.aborted || form.model.value !== name) return;
  batch(() => {
    details.value = modelDetails;
    models.value = models.value.map((model) => (model.name === name ? { ...model, ready: true } : model));
    if (!keep || !form.checkpoint.value) form.checkpoint.value = modelDetails.checkpoint;
    if (!keep || form.beam.value === null) form.beam.value = modelDetails.search?.beam ?? null;
    if (!keep || form.lengthPenalty.value === null) form.lengthPenalty.value = modelDetails.search?.length_penalty ?? null;
  });
}

/** Reads the address, loads the models, and inspects the text of the address or the first example of the model. */
export async function start(): Promise<void> {
  let hasInput = false;
  await run("translate", async (signal) => {
    const address = readAddress(location.hash, location.search);
    hasInput = address.text.trim() !== "";
    batch(() => {
      if (!pending) form.text.value = address.text || form.text.value;
      form.checkpoint.value = address.checkpoint;
      form.beam.value = address.beam;
      form.lengthPenalty.value = address.lengthPenalty;
      form.coveragePenalty.value = address.coveragePenalty;
      form.force.value = address.force;
      form.candidate.value = 0;
      form.sentence.value = address.sentence;
      settings.value = address.settings;
      useView(address.view);
    });
    const served = await fetchModels();
    if (signal.aborted) return;
    models.value = served;
    if (!served.length) throw new Error("The server has no models.");
    const model = address.model ? served.find((model) => model.name === address.model) : served[0];
    if (!model) throw new Error(unknownModel(address.model, served));
    form.model.value = model.name;
    await loadDetails(true, signal);
    hasInput = beginWithExample(signal) || hasInput;
  });
  await inspectIf(hasInput);
}

/** Select the first model, and return the message for a link to a model that the server does not have. */
function unknownModel(name: string, served: ModelEntry[]): string {
  form.model.value = served[0].name;
  return `This server has no model “${name}”; available models: ${served.map((model) => model.name).join(", ")}.`;
}

/** Writes the first example of the model into an empty form. Returns true if the form was empty. */
function beginWithExample(signal: AbortSignal): boolean {
  const example = details.value?.examples?.[0];
  if (signal.aborted || !example || form.text.value.trim()) return false;
  form.text.value = example;
  return true;
}

/** Inspects the input if the model is loaded and the input comes from a link, an example or the user. */
async function inspectIf(hasInput: boolean): Promise<void> {
  if (!details.value || status.translate.value.busy || status.translate.value.problem) return;
  if (!hasInput && !pending) return;
  pending = false;
  await inspectInput();
}

/** Selects a model. The form gets its first example, unless the user wrote a text. */
export async function pickModel(name: string): Promise<void> {
  let hasInput = false;
  if (isExample.value) form.text.value = "";
  stop("translate", "file");
  clearOutput();
  batch(() => {
    details.value = translatedFile.value = null;
    form.model.value = name;
    form.checkpoint.value = "";
    resetChoices();
  });
  await run("translate", async (signal) => {
    await loadDetails(false, signal);
    hasInput = beginWithExample(signal);
  });
  if (form.model.value === name) await inspectIf(hasInput);
}

export function useKey(key: string): Promise<void> {
  keepKey(key);
  keyNeeded.value = false;
  return details.value ? inspectInput() : begin();
}

/** Loads the models or the details again after an error. */
function begin(): Promise<void> {
  return models.value.length ? pickModel(form.model.value) : start();
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
