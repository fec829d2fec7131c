import { POLICIES, shownText, type Policy } from "../arriving";
import { details } from "../state";
import { Delays, Growing } from "./Growing";
import { chooseLag, choosePolicy, current, follow, lag, policy, problem, restarted, source } from "../streaming";

const LARGEST = 20; // lag

function Controls() {
  const { least, unit } = POLICIES[policy.value];
  return (
    <div class="controls" role="group" aria-label="Streaming">
      <label>
        policy{" "}
        <select data-testid="policy" value={policy.value} onChange={(event) => choosePolicy(event.currentTarget.value as Policy)}>
          {Object.keys(POLICIES).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        lag{" "}
        <input type="number" data-testid="lag" min={least} max={LARGEST} value={lag.value} onChange={(event) => chooseLag(Number(event.currentTarget.value))} />{" "}
        <span class="quiet">{unit}</span>
      </label>
      <button type="button" data-testid="end-stream" onClick={() => void follow(true)}>
        End the sentence
      </button>
    </div>
  );
}

export function Streaming() {
  const { committed, unstable } = shownText(current.value);
  return (
    <>
      <textarea
        rows={2}
        aria-label="Source of the stream"
        data-testid="stream-source"
        lang={details.value?.source ?? undefined}
        placeholder="Type here. Words are translated as they arrive."
        value={source.value}
        onInput={(event) => {
          source.value = event.currentTarget.value;
          void follow();
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void follow(true);
        }}
      />
      <Controls />
      <Growing committed={committed} unstable={unstable} lang={details.value?.target ?? undefined} />
      {restarted.value && <p class="quiet">The source was changed where it had been read, and is translated again.</p>}
      {problem.value && (
        <p class="problem" role="alert" data-testid="stream-problem">
          {problem.value}
        </p>
      )}
      <Delays delays={current.value.delays} caption="Source words that were read when each word was committed" shown={String} />
    </>
  );
}
