// The inspection of an input, and its slower parts.
import { batch, effect } from "@preact/signals";
import { writeAddress } from "./address";
import { inspect, translateWhole, type InspectRequest } from "./api";
import { distinct } from "./checkpoints";
import { glossaryOf } from "./glossary";
import { textProblem } from "./limits";
import { predict } from "./predicting";
import { run, stop } from "./running";
import { targetOf } from "./reading";
import { applyView, viewOf, type View } from "./view";
import {
  answer, answered, asking, asTyped, cell, details, glossary, inspection, inspects, isExample, keyNeeded, other, replay, settings, status, subject,
  translates, whole,
} from "./state";

/** The request of the inspection that is on the page. */
let asked: InspectRequest = { text: "" };

/** The subject of the running request. A different subject in the form stops the request. */
let running = "";

/** The request of the form. Settings with the model's default are omitted, because a server can limit settings. */
function request(): InspectRequest {
  if (!translates.value) {
    const { text, model, checkpoint } = asking;
    const own = Object.keys(settings.value).length > 0 || details.value?.streams;
    return { text: text.value, model: model.value || undefined, checkpoint: checkpoint.value || undefined, settings: own ? settings.value : undefined };
  }
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

/** The number of outputs to request: the beam size, up to the limit of the server. */
function nbest(): number | undefined {
  const [limits, beam] = [details.value?.limits, asking.beam.value ?? details.value?.search?.beam ?? 1];
  if (!limits || beam < 2 || beam > limits.beam) return undefined;
  return Math.min(beam, limits.nbest);
}

/** Resets the forced pieces, the chosen output and the chosen sentence. */
export function letGo(): void {
  asking.force.value = [];
  asking.candidate.value = asking.sentence.value = 0;
}

/** If an input is too long to inspect, requests only its output. Throws `error` again. */
async function orPredict(error: unknown, wanted: InspectRequest): Promise<never> {
  const long = error instanceof Error && /too long/.test(error.message);
  if (long && translates.value) {
    await run("whole", async (signal) => {
      const found = await translateWhole(wanted, signal);
      if (!signal.aborted) whole.value = found;
    });
  } else if (long && !details.value?.streams) await predict();
  throw error;
}

/** Inspects the input, shows the result, and then loads the slower parts. */
export async function inspectInput(): Promise<void> {
  const [wanted, of] = [request(), subject.value];
  if (!wanted.text.trim() || !inspects.value) return;
  running = of;
  await run("translate", async (signal) => {
    const problem = textProblem(wanted.text, details.value?.limits);
    if (problem) throw new Error(problem);
    const found = await inspect(wanted, signal).catch((error: unknown) => orPredict(error, wanted));
    if (signal.aborted) return;
    stop("extras", "why", "next", "vectors", "compare", "replay");
    const another = answered.value !== of;
    asked = wanted;
    batch(() => {
      keyNeeded.value = false;
      answer.value = found;
      answered.value = of;
      if (another) applyView({ ...viewOf(), at: undefined, cell: undefined, lock: undefined });
      else cell.value = null;
      other.value = null;
      replay.value = [];
      if (another) whole.value = null;
    });
    if (pendingView) applyView(pendingView);
    pendingView = null;
    keepAddress();
    void loadExtras();
    void loadInfluence();
    if (another && found.search) void loadWhole();
  });
  if (running === of) running = "";
}

/** The view of a link. It is applied when the input has been inspected. */
let pendingView: View | null = null;
export function useView(view: View): void {
  pendingView = view;
}

/** Writes the input and the view into the address. The first example with the default view leaves it empty. */
export function keepAddress(): void {
  const address = current();
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

function current() {
  const { text, model, checkpoint, beam, lengthPenalty, coveragePenalty, force, sentence } = asking;
  return {
    text: translates.value ? text.value.trim() : text.value,
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
  const wanted = [...(heads ? (["ablation"] as const) : []), ...(translates.value ? (["beam"] as const) : []), "lens" as const];
  return run("extras", async (signal) => {
    const { ablation, beam, lens } = await inspect({ ...asked, include: wanted }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, ablation, beam, lens };
  });
}

/** Loads the influence of each piece of the input. */
function loadInfluence(): Promise<void> {
  return run("why", async (signal) => {
    const { influences } = await inspect({ ...asked, include: ["influence"] }, signal);
    if (!signal.aborted && answer.value) answer.value = { ...answer.value, influences };
  });
}

export function loadVectors(): Promise<void> {
  return run("vectors", async (signal) => {
    const { vectors } = await inspect({ ...asked, include: ["vectors"] }, signal);
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
  if (problem || (!several && !required) || (asked.checkpoint && asked.checkpoint !== details.value?.checkpoint)) return;
  await run("whole", async (signal) => {
    const found = await translateWhole({ ...asked, glossary: required }, signal);
    if (!signal.aborted) whole.value = found;
  });
}

/** Applies `change` to the form and inspects again. Undoes the change if the inspection fails. */
async function changed(change: () => void): Promise<void> {
  const { force, candidate, sentence } = asking;
  const before = [force.value, candidate.value, sentence.value] as const;
  batch(change);
  await inspectInput();
  if (status.translate.value.problem) batch(() => ([force.value, candidate.value, sentence.value] = before));
}

/** Forces the pieces before `step` and then `token`, and decodes the rest again. */
export function force(step: number, token: number): Promise<void> {
  return changed(() => {
    asking.force.value = [...((inspection.value ? targetOf(inspection.value).ids.slice(0, step) : [])), token];
    asking.candidate.value = 0;
  });
}

export function release(): Promise<void> {
  return changed(() => {
    asking.force.value = [];
    asking.candidate.value = 0;
  });
}

/** Inspects another of the n best outputs. */
export function chooseCandidate(candidate: number): Promise<void> {
  return changed(() => (asking.candidate.value = candidate));
}

export function chooseSentence(sentence: number): Promise<void> {
  return changed(() => {
    letGo();
    asking.sentence.value = sentence;
  });
}

/** Inspects the input in the form. A new text removes the forced pieces. */
export function inspectAgain(): Promise<void> {
  if (translates.value) {
    if (asking.text.value.trim() !== asked.text) letGo();
    asking.candidate.value = 0;
  }
  return inspectInput();
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

/** Appends a token to the text and inspects the text again. */
export function chooseNext(label: string): Promise<void> {
  asking.text.value += label;
  return inspectInput();
}

/** Updates the distribution of the next token when a sampling setting changes. */
export function followSampling(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const wanted = settings.value;
    clearTimeout(timer);
    if (!details.peek()?.streams || !inspection.peek()?.next) return;
    timer = setTimeout(() => {
      void run("next", async (signal) => {
        const { next } = await inspect({ ...asked, settings: wanted }, signal);
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
    const text = asking.text.value;
    clearTimeout(timer);
    if (asTyped.value && translates.value && text.trim()) timer = setTimeout(() => inspection.value === null && void inspectAgain(), PAUSE);
  });
}

/** Stops the running request when the text, the model or the settings in the form change. */
export function followForm(): void {
  effect(() => {
    const wanted = subject.value;
    if (running && running !== wanted) {
      running = "";
      stop("translate");
    }
  });
}
