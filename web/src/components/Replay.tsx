import { useSignal } from "@preact/signals";
import { loadReplay } from "../inspecting";
import { distinct } from "../checkpoints";
import { count } from "../limits";
import { details, offline, replay } from "../state";
import { Chosen } from "./Chosen";
import { Scores } from "./Output";
import { Problem } from "./Problem";

/** The translation of the sentence by each checkpoint. */
export function Replay() {
  const place = useSignal(0);
  const all = replay.value;
  const index = Math.min(place.value, all.length - 1);
  const current = all[index];
  const total = details.value ? distinct(details.value).length : 0;
  return (
    <div data-testid="replay">
      <h3>Translation during training</h3>
      {!offline && (
        <div class="controls">
          <button type="button" data-testid="replay-load" onClick={() => void loadReplay()}>
            Load {count(total, "checkpoint")}
          </button>
          <Problem place="replay" doing={`Loaded ${all.length} of ${total} …`} />
        </div>
      )}
      {current && (
        <>
          <label class="wide">
            Checkpoint <b data-testid="replay-checkpoint">{current.model.checkpoint}</b>{" "}
            <input
              type="range"
              id="replay-slider"
              data-testid="replay-slider"
              min="0"
              max={all.length - 1}
              value={index}
              aria-valuetext={current.model.checkpoint}
              onInput={(event) => (place.value = Number(event.currentTarget.value))}
            />
          </label>
          <p class="translation" data-testid="replay-output" lang={current.model.target_language ?? undefined}>
            {current.search!.output}
          </p>
          <p>
            <Scores of={current.search!} />
          </p>
          <Chosen of={current} testId="replay-heatmap" />
        </>
      )}
    </div>
  );
}
