import { release } from "../translating";
import { inspection, offline } from "../state";

/** Says which pieces were forced, and lets them go. */
export function Release({ testId }: { testId: string }) {
  const current = inspection.value;
  if (!current || current.forced === 0) return null;
  return (
    <p>
      Forced: <b>{current.target.pieces.slice(0, current.forced).join(" ")}</b>{" "}
      {!offline && (
        <button type="button" data-testid={testId} onClick={() => void release()}>
          Release
        </button>
      )}
    </p>
  );
}
