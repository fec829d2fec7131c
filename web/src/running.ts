// Each place of the page runs one task. A new task stops the previous task of its place.
import { KeyNeeded } from "./api";
import { keyNeeded, status, type Place } from "./state";

const controllers = new Map<Place, AbortController>();

/** Runs `task` and stores its progress and error in `status[place]`. A task must check `signal` before it changes state. */
export async function run(place: Place, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
  controllers.get(place)?.abort();
  const controller = new AbortController();
  controllers.set(place, controller);
  status[place].value = { busy: true, problem: "" };
  let problem = "";
  try {
    await task(controller.signal);
  } catch (error) {
    if (controllers.get(place) === controller && error instanceof KeyNeeded) keyNeeded.value = true;
    problem = error instanceof Error ? error.message : String(error);
  }
  if (controllers.get(place) === controller) status[place].value = { busy: false, problem };
}

export function stop(...places: Place[]): void {
  for (const place of places) {
    controllers.get(place)?.abort();
    controllers.delete(place);
    status[place].value = { busy: false, problem: "" };
  }
}
