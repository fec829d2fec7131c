// Requests of a translation that grows while its source arrives. One runs at a time; the newest source follows it.
import { signal } from "@preact/signals";
import { Conflict, stream } from "./api";
import { advanced, EMPTY, POLICIES, type Policy, type Stream } from "./arriving";
import { details } from "./state";

export const source = signal("");
export const policy = signal<Policy>("local-agreement");
export const lag = signal(POLICIES["local-agreement"].lag);
export const current = signal<Stream>(EMPTY);
export const problem = signal("");
/** Whether the source was changed where it had been read, and translated again from the beginning. */
export const restarted = signal(false);

let sending = false;
let waiting = false;
let ends = false;
/** The model of the stream. */
let model: string | undefined;

/** Sends the source as it is now. One request runs at a time; the newest source follows it. */
export async function follow(final = false): Promise<void> {
  waiting = true;
  ends = ends || final;
  if (sending) return;
  sending = true;
  try {
    while (waiting) {
      waiting = false;
      await send();
    }
  } catch (error) {
    problem.value = error instanceof Error ? error.message : String(error);
  } finally {
    sending = false;
  }
}

async function send(): Promise<void> {
  const text = source.value;
  const name = details.value?.name;
  if (!text.startsWith(current.value.closed) || name !== model) restart();
  if (name !== model) restarted.value = false;
  model = name;
  const before = current.value;
  const { closed, answer } = before;
  const finishing = ends;
  ends = false;
  const part = text.slice(closed.length);
  if (!part.trim()) return;
  const body = {
    text: part, committed: answer?.committed ?? "", unstable: answer?.unstable ?? "", cursor: answer?.cursor ?? "", final: finishing,
    policy: policy.value, lag: lag.value, model,
  };
  try {
    const next = await stream(body);
    if (current.value !== before) {
      // Another policy or lag was chosen.
      ends = ends || finishing;
      waiting = true;
      return;
    }
    problem.value = "";
    current.value = advanced(current.value, text, next);
    if (next.final && next.rest.trim()) waiting = true;
    ends = ends || (finishing && next.rest.trim() !== "");
  } catch (error) {
    if (!(error instanceof Conflict) || !body.cursor) throw error;
    restart();
    ends = finishing;
    waiting = true;
  }
}

/** Forgets the stream, for another source or policy. */
export function restart(): void {
  restarted.value = (current.value.answer !== null || current.value.closed !== "") && source.value !== "";
  current.value = { ...EMPTY };
  problem.value = "";
}

export function choosePolicy(name: Policy): void {
  policy.value = name;
  lag.value = POLICIES[name].lag;
  restart();
  restarted.value = false;
  void follow();
}

export function chooseLag(value: number): void {
  lag.value = Math.max(value, POLICIES[policy.value].least);
  restart();
  restarted.value = false;
  void follow();
}
