import { batch, effect } from "@preact/signals";
import { readAddress, writeAddress } from "./address";
import { fetchDetails, fetchModels, inspect, keepKey, KeyNeeded, type InspectRequest } from "./api";
import type { Inspection } from "./document";
import { asking, cell, details, inspection, keyNeeded, models, other, replay, status, type Place } from "./state";

const controllers = new Map<Place, AbortController>();

/** What the inspection on the page was asked with. */
let asked: InspectRequest = { text: "" };

/** Runs `task` with its state and problem kept at `place`, in the stead of what still runs there. */
async function run(place: Place, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
  controllers.get(place)?.abort();
  const controller = new AbortController();
  controllers.set(place, controller);
  status[place].value = { busy: true, problem: "" };
  let problem = "";
  try {
    await task(controller.signal);
  } catch (error) {
    if (error instanceof KeyNeeded) keyNeeded.value = true;
    problem = error instanceof Error ? error.message : String(error);
  }
  if (controllers.get(place) === controller) status[place].value = { busy: false, problem };
}

function stop(...places: Place[]): void {
  for (const place of places) {
    controllers.get(place)?.abort();
    controllers.delete(place);
    status[place].value = { busy: false, problem: "" };
  }
}

/** What is as the model's own config has it is left out: a server may allow less to those who ask. */
function request(): InspectRequest {
  const { text, model, checkpoint, beam, lengthPenalty, force } = asking;
  const own = details.value?.search;
  return {
    text: text.value.trim(),
    model: model.value || undefined,
    checkpoint: checkpoint.value || undefined,
    beam: beam.value === own?.beam ? undefined : (beam.value ?? undefined),
    length_penalty: lengthPenalty.value === own?.length_penalty ? undefined : (lengthPenalty.value ?? undefined),
    force: force.value.length ? force.value : undefined,
  };
}

async function loadDetails(keep: boolean): Promise<void> {
  const name = asking.model.value;
  const found = await fetchDetails(name);
  if (asking.model.value !== name) return;
  batch(() => {
    details.value = found;
    if (!keep || !asking.checkpoint.value) asking.checkpoint.value = found.checkpoint;
    if (!keep || asking.beam.value === null) asking.beam.value = found.search.beam;
    if (!keep || asking.lengthPenalty.value === null) asking.lengthPenalty.value = found.search.length_penalty;
  });
}

/** Reads the address and the models, and translates the text that the address gives. */
export function start(): Promise<void> {
  return run("translate", async () => {
    const address = readAddress(location.hash, location.search);
    batch(() => {
      asking.text.value = address.text || asking.text.value;
      asking.checkpoint.value = address.checkpoint;
      asking.beam.value = address.beam;
      asking.lengthPenalty.value = address.lengthPenalty;
      asking.force.value = address.force;
    });
    models.value = await fetchModels();
    const named = models.value.find((model) => model.name === address.model) ?? models.value[0];
    if (!named) throw new Error("The server has no model.");
    asking.model.value = named.name;
    await loadDetails(true);
    if (asking.text.value.trim()) void translate();
  });
}

export function pickModel(name: string): Promise<void> {
  asking.model.value = name;
  asking.checkpoint.value = "";
  asking.force.value = [];
  return run("translate", () => loadDetails(false));
}

export function useKey(key: string): Promise<void> {
  keepKey(key);
  keyNeeded.value = false;
  return details.value ? translate() : start();
}

/** Translates, paints, and then asks for what takes longer. */
export async function translate(): Promise<void> {
  const wanted = request();
  if (!wanted.text) return;
  await run("translate", async (signal) => {
    const found = await inspect(wanted, signal);
    stop("extras", "vectors", "compare", "replay");
    asked = wanted;
    batch(() => {
      keyNeeded.value = false;
      inspection.value = found;
      other.value = null;
      replay.value = [];
      cell.value = null;
    });
    history.replaceState(null, "", writeAddress({ ...current(), text: wanted.text }));
    void loadExtras();
  });
}

function current() {
  const { text, model, checkpoint, beam, lengthPenalty, force } = asking;
  return {
    text: text.value,
    model: model.value,
    checkpoint: checkpoint.value,
    beam: beam.value,
    lengthPenalty: lengthPenalty.value,
    force: force.value,
  };
}

function loadExtras(): Promise<void> {
  const heads = Object.keys(inspection.value?.attention ?? {}).length > 0;
  return run("extras", async (signal) => {
    const { ablation, beam } = await inspect({ ...asked, include: heads ? ["ablation", "beam"] : ["beam"] }, signal);
    if (inspection.value) inspection.value = { ...inspection.value, ablation, beam };
  });
}

export function loadVectors(): Promise<void> {
  return run("vectors", async (signal) => {
    const { vectors } = await inspect({ ...asked, include: ["vectors"] }, signal);
    if (inspection.value) inspection.value = { ...inspection.value, vectors };
  });
}

/** Decodes on from the outputs before `step` and then `token`. */
export async function force(step: number, token: number): Promise<void> {
  const before = asking.force.value;
  asking.force.value = [...(inspection.value?.target.ids.slice(0, step) ?? []), token];
  await translate();
  if (status.translate.value.problem) asking.force.value = before;
}

export function release(): Promise<void> {
  asking.force.value = [];
  return translate();
}

/** Another text is decoded freely: what was forced belonged to the old one. */
export function translateText(): Promise<void> {
  if (asking.text.value.trim() !== asked.text) asking.force.value = [];
  return translate();
}

export function loadOther(model: string, checkpoint: string): Promise<void> {
  return run("compare", async (signal) => {
    other.value = await inspect({ ...asked, force: undefined, model, checkpoint: checkpoint || undefined }, signal);
  });
}

export function loadReplay(): Promise<void> {
  return run("replay", async (signal) => {
    replay.value = [];
    const model = details.value;
    for (const checkpoint of model?.checkpoints ?? []) {
      const found: Inspection = await inspect({ ...asked, force: undefined, model: model?.name, checkpoint }, signal);
      replay.value = [...replay.value, found];
    }
  });
}

/** A permalink that is followed on the open page. */
export function followAddress(): void {
  window.addEventListener("hashchange", () => void start());
  effect(() => {
    const text = inspection.value?.source.text;
    document.title = text ? `${text.slice(0, 60)} · Regard` : "Regard";
  });
}
