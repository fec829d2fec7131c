import { heardText } from "../hearing";
import { heard, lag, listen, listening, problem, step } from "../listening";
import { fixed } from "../format";
import { Delays, Growing } from "./Growing";

function Controls() {
  const busy = listening.value !== null;
  return (
    <div class="controls" role="group" aria-label="Listening">
      <button type="button" class="main" data-testid="listen" aria-pressed={busy} onClick={() => void (listening.value ? listening.value() : listen())}>
        {busy ? "Stop" : "Listen to the microphone"}
      </button>
      <label>
        lag{" "}
        <input type="number" data-testid="listen-lag" min={1} max={20} value={lag.value} disabled={busy} onChange={(event) => (lag.value = Math.max(1, Number(event.currentTarget.value)))} />{" "}
        <span class="quiet">steps between two hypotheses</span>
      </label>
      <label>
        step{" "}
        <input type="number" data-testid="listen-step" min={0.1} max={5} step={0.1} value={step.value} disabled={busy} onChange={(event) => (step.value = Math.min(5, Math.max(0.1, Number(event.currentTarget.value))))} />{" "}
        <span class="quiet">seconds</span>
      </label>
    </div>
  );
}

export function Listening() {
  const { committed, unstable } = heardText(heard.value);
  return (
    <>
      <Controls />
      <Growing committed={committed} unstable={unstable} />
      {heard.value.seconds > 0 && (
        <p class="quiet figures" data-testid="heard-seconds">
          {fixed(heard.value.seconds)} s of sound
        </p>
      )}
      {problem.value && (
        <p class="problem" role="alert" data-testid="listen-problem">
          {problem.value}
        </p>
      )}
      <Delays delays={heard.value.delays} caption="Seconds from the end of each word to its commit" shown={fixed} />
    </>
  );
}
