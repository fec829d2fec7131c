// What is done with the form: a model chosen, a text or a file translated.
import { batch, effect } from "@preact/signals";
import { readAddress } from "./address";
import { fetchDetails, fetchModels, keepKey, translateFile } from "./api";
import { fileProblem, textProblem } from "./limits";
import { run, stop } from "./running";
import { letObservationGo, observe } from "./observing";
import { asking, details, inspection, isExample, keyNeeded, models, observation, status, translatedFile, translates } from "./state";
import { letGo, translate, translateAnew } from "./translating";

/** Asked for before the model was known: translated once it is. */
let pending = false;

async function loadDetails(keep: boolean, signal: AbortSignal): Promise<void> {
  const name = asking.model.value;
  const found = await fetchDetails(name);
  if (signal.aborted || asking.model.value !== name) return;
  batch(() => {
    details.value = found;
    if (!keep || !asking.checkpoint.value) asking.checkpoint.value = found.checkpoint;
    if (!keep || asking.beam.value === null) asking.beam.value = found.search?.beam ?? null;
    if (!keep || asking.lengthPenalty.value === null) asking.lengthPenalty.value = found.search?.length_penalty ?? null;
  });
}

/** Reads the address and the models, and translates the text that the address gives, or else the model's example. */
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
    });
    const found = await fetchModels();
    if (signal.aborted) return;
    models.value = found;
    const named = found.find((model) => model.name === address.model) ?? found[0];
    if (!named) throw new Error("The server has no model.");
    asking.model.value = named.name;
    await loadDetails(true, signal);
    given = beginWithExample(signal) || given;
  });
  await translateIf(given);
}

/** Whether the text is the model's own example, put where none was written. */
function beginWithExample(signal: AbortSignal): boolean {
  const example = details.value?.example;
  if (signal.aborted || !example || asking.text.value.trim()) return false;
  asking.text.value = example;
  return true;
}

/** Once the model is known, what is given; of what is being written only what was asked for. */
async function translateIf(given: boolean): Promise<void> {
  if (!details.value || status.translate.value.busy || status.translate.value.problem) return;
  if (!given && !pending) return;
  pending = false;
  await work();
}

/** What the form is for: a translation, or a look at an input of another task. */
function work(): Promise<void> {
  return translates.value ? translate() : observe();
}

/** Another model begins with its own example, unless a text was written for the one before. */
export async function pickModel(name: string): Promise<void> {
  let given = false;
  if (isExample.value) asking.text.value = "";
  stop("translate", "file");
  letObservationGo();
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
  if (asking.model.value === name) await translateIf(given);
}

export function useKey(key: string): Promise<void> {
  keepKey(key);
  keyNeeded.value = false;
  return details.value ? work() : begin();
}

/** As far as the page has not come yet. */
function begin(): Promise<void> {
  return models.value.length ? pickModel(asking.model.value) : start();
}

export async function translateText(): Promise<void> {
  if (!details.value) {
    pending = true;
    if (!status.translate.value.busy) await begin();
    return;
  }
  await (translates.value ? translateAnew() : observe());
}

export function loadFile(file: File): Promise<void> {
  return run("file", async (signal) => {
    translatedFile.value = null;
    const model = details.value;
    const problem = fileProblem(file, model?.limits) || textProblem(await file.text(), model?.limits);
    if (problem || !model) throw new Error(problem || "The model is not known yet.");
    const content = await translateFile(file, model, signal);
    if (!signal.aborted) translatedFile.value = { name: file.name.replace(/(\.\w+)$/, `.${model.target ?? "translated"}$1`), content };
  });
}

/** A permalink that is followed on the open page. */
export function followAddress(): void {
  window.addEventListener("hashchange", () => void start());
  effect(() => {
    const text = inspection.value?.source.text ?? observation.value?.text;
    document.title = text ? `${text.slice(0, 60)} · Regard` : "Regard";
  });
}
