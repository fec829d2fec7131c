import { status, type Place } from "../state";

/** The progress or the error of a request, next to its result. */
export function Problem({ place, doing, testId = `status-${place}` }: { place: Place; doing: string; testId?: string }) {
  const { busy, problem } = status[place].value;
  return (
    <div role="status" data-testid={testId}>
      {busy && <p class="quiet">{doing}</p>}
      {problem && <p class="problem">{problem}</p>}
    </div>
  );
}
