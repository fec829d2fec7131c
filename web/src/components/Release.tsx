import { targetOf } from "../reading";
import { release } from "../inspecting";
import { inspection, offline } from "../state";

/** The forced pieces, and a button to stop forcing them. */
export function Release({ testId }: { testId: string }) {
  const current = inspection.value;
  if (!current?.search?.forced) return null;
  return (
    <p>
      Forced: <b>{targetOf(current).pieces.slice(0, current.search.forced).join(" ")}</b>{" "}
      {!offline && (
        <button type="button" data-testid={testId} onClick={() => void release()}>
          Stop forcing
        </button>
      )}
    </p>
  );
}
