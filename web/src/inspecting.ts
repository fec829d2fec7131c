// The inspection of an input, and its slower parts.
import { batch, effect } from "@preact/signals";
import { writeAddress } from "./address";
import { inspect, translateWhole, type InspectRequest } from "./api";
import { distinct } from "./checkpoints";
import { glossaryOf } from "./glossary";
import { inputProblem } from "./files";
import { isFileLine } from "./inputs";
import { predict } from "./predicting";
import { run, stop } from "./running";
import { targetOf } from "./reading";
import { applyView, viewOf, type View } from "./view";
import {
  answer, answered, form, translateWhileTyping, cell, details, glossary, inspection, inspects, isExample, keyNeeded, other, replay, settings, status, subject,
  translates, whole,
} from "./state";

/** The request of the inspection that is on the page. */
let lastRequest: InspectRequest = { text: "" };

/** The subject of the running request. A different subject in the form stops the request. */
let running = "";

/** The request of the form. Settings with the model's default are omitted, because a server can limit settings. */
function buildRequest(): InspectRequest {
  if (!translates.value) {
    const { text, model, checkpoint } = form;
    const own = Object.keys(settings.value).length > 0 || details.value?.streams;
    return { text: text.value, model: model.value || undefined, checkpoint: checkpoint.value || undefined, settings: own ? settings.value : undefined };
  }
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty, force, candidate, sentence } = form;
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

/** The number of outputs to request: the beam size, up to the limit of the server. */
function nbest(): number | undefined {
  const [limits, beam] = [details.value?.limits, form.beam.value ?? details.value?.search?.beam ?? 1];
  if (!limits || beam < 2 || beam > limits.beam) return undefined;
  return Math.min(beam, limits.nbest);
}

/** Resets the forced pieces, the chosen output and the chosen sentence. */
export function resetChoices(): void {
  form.force.value = [];
  form.candidate.value = form.sentence.value = 0;
}

/** If an input is too long to inspect, requests only its output. Throws `error` again. */
async function orPredict(error: unknown, request: InspectRequest): Promise<never> {
  const long = error instanceof Error && /too long/.test(error.message);
  if (long && translates.value) {
    await run("whole", async (signal) => {
      const translation = await translateWhole(request, signal);
      if (!signal.aborted) whole.value = translation;
    });
  } else if (long && !details.value?.streams) await predict();
  throw error;
}

/** Inspects the input, shows the result, and then loads the slower parts. */
export async function inspectInput(): Promise<void> {
  const [request, requestSubject] = [buildRequest(), subject.value];
  if (!request.text.trim() || !inspects.value) return;
  running = requestSubject;
  await run("translate", async (signal) => {
    const problem = inputProblem(request.text, details.value?.limits);
    if (problem) throw new Error(problem);
    const response = await inspect(request, signal).catch((error: unknown) => orPredict(error, request));
    if (signal.aborted) return;
    stop("extras", "why", "next", "vectors", "compare", "replay");
    const isNewInput = answered.value !== requestSubject;
    lastRequest = request;
    batch(() => {
      keyNeeded.value = false;
      answer.value = response;
      answered.value = requestSubject;
      if (isNewInput) applyView({ ...viewOf(), at: undefined, cell: undefined, lock: undefined, position: undefined });
      else cell.value = null;
      other.value = null;
      replay.value = [];
      if (isNewInput) whole.value = null;
    });
    if (pendingView) applyView(pendingView);
    pendingView = null;
    keepAddress();
    void loadExtras();
    void loadInfluence();
    if (isNewInput && response.search) void loadWhole();
  });
  if (running === requestSubject) running = "";
}

/** The view of a link. It is applied when the input has been inspected. */
let pendingView: View | null = null;
export function useView(view: View): void {
  pendingView = view;
}

/** Writes the input and the view into the address. The first example with the default view leaves it empty. */
export function keepAddress(): void {
  const address = currentAddress();
  if (isExample.value && !location.hash && !Object.keys(address.view).length) return;
  history.replaceState(null, "", writeAddress(address));
}

/** Updates the address when the view changes. */
export function followView(): void {
  effect(() => {
    viewOf();
    if (inspection.value && status.translate.value.busy === false) keepAddress();
  });
}

function currentAddress() {
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty, force, sentence } = form;
  return {
    text: isFileLine(text.value) ? "" : translates.value ? text.value.trim() : text.value, // a file is too long for an address
    model: model.value,
    checkpoint: checkpoint.value,
    beam: beam.value,
    lengthPenalty: lengthPenalty.value,
    coveragePenalty: coveragePenalty.value,
    sentence: sentence.value,
    force: force.value,
    settings: settings.value,
    view: viewOf(),
  };
}

function loadExtras(): Promise<void> {
  const heads = Object.keys(answer.value?.attention ?? {}).length > 0;
  const include = [...(heads ? (["ablation"] as const) : []), ...(translates.value ? (["beam"] as const) : []), "lens" as const];
  return run("extras", async (signal) => {
    const { ablation, beam, lens } = await inspect({ ...lastRequest, include }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, ablation, beam, lens };
  });
}

/** Loads the influence of each piece of the input. */
function loadInfluence(): Promise<void> {
  return run("why", async (signal) => {
    const { influences } = await inspect({ ...lastRequest, include: ["influence"] }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, influences };
  });
}

export function loadVectors(): Promise<void> {
  return run("vectors", async (signal) => {
    const { vectors } = await inspect({ ...lastRequest, include: ["vectors"] }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, vectors };
  });
}

/** Translates all sentences of the text with the glossary. The server uses its default checkpoint for this. */
async function loadWhole(): Promise<void> {
  stop("whole");
  const several = (answer.value?.sentences?.length ?? 1) > 1;
  const { terms, problem } = glossaryOf(glossary.value);
  const required = Object.keys(terms).length > 0 ? terms : undefined;
  if (problem) status.whole.value = { busy: false, problem };
  if (problem || (!several && !required) || (lastRequest.checkpoint && lastRequest.checkpoint !== details.value?.checkpoint)) return;
  await run("whole", async (signal) => {
    const translation = await translateWhole({ ...lastRequest, glossary: required }, signal);
    if (!signal.aborted) whole.value = translation;
  });
}

/** Applies `change` to the form and inspects again. Undoes the change if the inspection fails. */
async function changed(change: () => void): Promise<void> {
  const { force, candidate, sentence } = form;
  const before = [force.value, candidate.value, sentence.value] as const;
  batch(change);
  await inspectInput();
  if (status.translate.value.problem) batch(() => ([force.value, candidate.value, sentence.value] = before));
}

/** Forces the pieces before `step` and then `token`, and decodes the rest again. */
export function force(step: number, token: number): Promise<void> {
  return changed(() => {
    form.force.value = [...((inspection.value ? targetOf(inspection.value).ids.slice(0, step) : [])), token];
    form.candidate.value = 0;
  });
}

export function release(): Promise<void> {
  return changed(() => {
    form.force.value = [];
    form.candidate.value = 0;
  });
}

/** Inspects another of the n best outputs. */
export function chooseCandidate(candidate: number): Promise<void> {
  return changed(() => (form.candidate.value = candidate));
}

export function chooseSentence(sentence: number): Promise<void> {
  return changed(() => {
    resetChoices();
    form.sentence.value = sentence;
  });
}

/** Inspects the input in the form. A new text removes the forced pieces. */
export function inspectAgain(): Promise<void> {
  if (translates.value) {
    if (form.text.value.trim() !== lastRequest.text) resetChoices();
    form.candidate.value = 0;
  }
  return inspectInput();
}

export function loadOther(model: string, checkpoint: string): Promise<void> {
  return run("compare", async (signal) => {
    other.value = null;
    const request = { ...lastRequest, force: undefined, candidate: undefined, nbest: undefined };
    const response = await inspect({ ...request, model, checkpoint: checkpoint || undefined }, signal);
    if (!signal.aborted) other.value = response;
  });
}

export function loadReplay(): Promise<void> {
  return run("replay", async (signal) => {
    replay.value = [];
    const model = details.value;
    const request = { ...lastRequest, force: undefined, candidate: undefined, nbest: undefined, model: model?.name };
    for (const checkpoint of model ? distinct(model) : []) {
      const response = await inspect({ ...request, checkpoint }, signal);
      if (signal.aborted) return;
      replay.value = [...replay.value, response];
    }
  });
}

/** Appends a token to the text and inspects the text again. */
export function chooseNext(label: string): Promise<void> {
  form.text.value += label;
  return inspectInput();
}

/** Updates the distribution of the next token when a sampling setting changes. */
export function followSampling(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const sampling = settings.value;
    clearTimeout(timer);
    if (!details.peek()?.streams || !inspection.peek()?.next) return;
    timer = setTimeout(() => {
      void run("next", async (signal) => {
        const { next } = await inspect({ ...lastRequest, settings: sampling }, signal);
        if (!signal.aborted && answer.value) answer.value = { ...answer.value, next };
      });
    }, 120);
  });
}

const PAUSE = 300; // milliseconds without typing

/** Translates while the user types, if this option is on. */
export function followTyping(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const text = form.text.value;
    clearTimeout(timer);
    if (translateWhileTyping.value && translates.value && text.trim()) timer = setTimeout(() => inspection.value === null && void inspectAgain(), PAUSE);
  });
}

/** Stops the running request when the text, the model or the settings in the form change. */
export function followForm(): void {
  effect(() => {
    const formSubject = subject.value;
    if (running && running !== formSubject) {
      running = "";
      stop("translate");
    }
  });
}
