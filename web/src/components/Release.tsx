import { targetOf } from "../reading";
import { release } from "../inspecting";
import { inspection, offline } from "../state";

/** The pieces that were forced, and a button to release them. */
export function Release({ testId }: { testId: string }) {
  const current = inspection.value;
  if (!current?.search?.forced) return null;
  return (
    <p>
      Forced: <b>{targetOf(current).pieces.slice(0, current.search.forced).join(" ")}</b>{" "}
      {!offline && (
        <button type="button" data-testid={testId} onClick={() => void release()}>
          Release
        </button>
      )}
    </p>
  );
}
