// What a translation is asked with, and what is asked about it afterwards.
import { batch, effect } from "@preact/signals";
import { writeAddress } from "./address";
import { inspect, translateWhole, type InspectRequest } from "./api";
import { distinct } from "./checkpoints";
import { textProblem } from "./limits";
import { run, stop } from "./running";
import {
  answer, answered, asking, cell, details, inspection, isExample, keyNeeded, other, replay, status, subject, whole,
} from "./state";

/** What the inspection on the page was asked with. */
let asked: InspectRequest = { text: "" };

/** What is being translated: as long as it runs the form may not come to say something else. */
let running = "";

/** What is as the model's own config has it is left out: a server may allow less to those who ask. */
function request(): InspectRequest {
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty, force, candidate, sentence } = asking;
  const own = details.value?.search;
  return {
    text: text.value.trim(),
    model: model.value || undefined,
    checkpoint: checkpoint.value || undefined,
    beam: beam.value === own?.beam ? undefined : (beam.value ?? undefined),
    nbest: nbest(),
    length_penalty: lengthPenalty.value === own?.length_penalty ? undefined : (lengthPenalty.value ?? undefined),
    coverage_penalty: coveragePenalty.value ?? undefined,
    force: force.value.length ? force.value : undefined,
    candidate: candidate.value || undefined,
    sentence: sentence.value || undefined,
  };
}

/** As many outputs as the beam holds and the server gives. */
function nbest(): number | undefined {
  const [limits, beam] = [details.value?.limits, asking.beam.value ?? details.value?.search?.beam ?? 1];
  if (!limits || beam < 2 || beam > limits.beam) return undefined;
  return Math.min(beam, limits.nbest);
}

/** What belonged to one output of one sentence. */
export function letGo(): void {
  asking.force.value = [];
  asking.candidate.value = asking.sentence.value = 0;
}

/** Translates, paints, and then asks for what takes longer. */
export async function translate(): Promise<void> {
  const [wanted, of] = [request(), subject.value];
  if (!wanted.text) return;
  running = of;
  await run("translate", async (signal) => {
    const problem = textProblem(wanted.text, details.value?.limits);
    if (problem) throw new Error(problem);
    const found = await inspect(wanted, signal);
    if (signal.aborted) return;
    stop("extras", "vectors", "compare", "replay");
    const another = answered.value !== of;
    asked = wanted;
    batch(() => {
      keyNeeded.value = false;
      answer.value = found;
      answered.value = of;
      other.value = cell.value = null;
      replay.value = [];
      if (another) whole.value = null;
    });
    if (!isExample.value || location.hash) history.replaceState(null, "", writeAddress(current()));
    void loadExtras();
    if (another) void loadWhole();
  });
  if (running === of) running = "";
}

function current() {
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty, force, sentence } = asking;
  return {
    text: text.value.trim(),
    model: model.value,
    checkpoint: checkpoint.value,
    beam: beam.value,
    lengthPenalty: lengthPenalty.value,
    coveragePenalty: coveragePenalty.value,
    sentence: sentence.value,
    force: force.value,
  };
}

function loadExtras(): Promise<void> {
  const heads = Object.keys(answer.value?.attention ?? {}).length > 0;
  return run("extras", async (signal) => {
    const { ablation, beam } = await inspect({ ...asked, include: heads ? ["ablation", "beam"] : ["beam"] }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, ablation, beam };
  });
}

export function loadVectors(): Promise<void> {
  return run("vectors", async (signal) => {
    const { vectors } = await inspect({ ...asked, include: ["vectors"] }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, vectors };
  });
}

/** A text of several sentences, of which one is looked at, by the checkpoint that the server translates with. */
async function loadWhole(): Promise<void> {
  stop("whole");
  const several = (answer.value?.sentences?.length ?? 1) > 1;
  if (!several || (asked.checkpoint && asked.checkpoint !== details.value?.checkpoint)) return;
  await run("whole", async (signal) => {
    const found = await translateWhole(asked, signal);
    if (!signal.aborted) whole.value = found;
  });
}

/** Translates again with `change` made to what is asked; as it was where that fails. */
async function changed(change: () => void): Promise<void> {
  const { force, candidate, sentence } = asking;
  const before = [force.value, candidate.value, sentence.value] as const;
  batch(change);
  await translate();
  if (status.translate.value.problem) batch(() => ([force.value, candidate.value, sentence.value] = before));
}

/** Decodes on from the outputs before `step` and then `token`. */
export function force(step: number, token: number): Promise<void> {
  return changed(() => {
    asking.force.value = [...(inspection.value?.target.ids.slice(0, step) ?? []), token];
    asking.candidate.value = 0;
  });
}

export function release(): Promise<void> {
  return changed(() => {
    asking.force.value = [];
    asking.candidate.value = 0;
  });
}

/** Looks at another of the n best outputs. */
export function chooseCandidate(candidate: number): Promise<void> {
  return changed(() => (asking.candidate.value = candidate));
}

export function chooseSentence(sentence: number): Promise<void> {
  return changed(() => {
    letGo();
    asking.sentence.value = sentence;
  });
}

/** Another text is decoded freely: what was forced belonged to the old one. */
export function translateAnew(): Promise<void> {
  if (asking.text.value.trim() !== asked.text) letGo();
  asking.candidate.value = 0;
  return translate();
}

export function loadOther(model: string, checkpoint: string): Promise<void> {
  return run("compare", async (signal) => {
    other.value = null;
    const wanted = { ...asked, force: undefined, candidate: undefined, nbest: undefined };
    const found = await inspect({ ...wanted, model, checkpoint: checkpoint || undefined }, signal);
    if (!signal.aborted) other.value = found;
  });
}

export function loadReplay(): Promise<void> {
  return run("replay", async (signal) => {
    replay.value = [];
    const model = details.value;
    const wanted = { ...asked, force: undefined, candidate: undefined, nbest: undefined, model: model?.name };
    for (const checkpoint of model ? distinct(model) : []) {
      const found = await inspect({ ...wanted, checkpoint }, signal);
      if (signal.aborted) return;
      replay.value = [...replay.value, found];
    }
  });
}

/** Stops a translation whose text, model or search has been changed under it: its answer would stand beside another. */
export function followForm(): void {
  effect(() => {
    const wanted = subject.value;
    if (running && running !== wanted) {
      running = "";
      stop("translate");
    }
  });
}
