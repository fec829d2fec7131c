import { translateText } from "../actions";
import { count, lengthOf, textProblem } from "../limits";
import { lookAtOutput, output, predict, set, settableFields, textOf, wanted } from "../observing";
import { alone, asking, details, keyNeeded, observation, observed, offline, status, task } from "../state";
import { Copy } from "./Copy";
import { KeyField } from "./KeyField";
import { Problem } from "./Problem";
import { CheckpointPicker, ModelPicker } from "./Settings";

const isText = () => task.value === "language-model";

/** Tasks whose answer is drawn with the input; the outputs of others are asked for separately. */
const ANSWERED = new Set(["classification", "tagging", "graphs", "nodes", "links", "next-item"]);
const isAnswered = () => details.value?.inspects !== false && ANSWERED.has(task.value);

/** What may be set for an output; left empty, it is as the run has it. */
function RequestFields() {
  const fields = settableFields(details.value?.settings);
  if (!fields.length) return null;
  return (
    <div class="controls" role="group" aria-label="Settings of the output" data-testid="request-settings">
      {fields.map(({ name, type, own, description, least, most }) => (
        <label key={name} title={description}>
          {type === "boolean" ? (
            <>
              <input
                type="checkbox"
                data-testid={`set-${name}`}
                checked={Boolean(wanted.value[name] ?? own)}
                onChange={(event) => set(name, event.currentTarget.checked)}
              />{" "}
              {name.replace("_", " ")}
            </>
          ) : (
            <>
              {name.replace("_", " ")}{" "}
              <input
                type="number"
                data-testid={`set-${name}`}
                placeholder={own === null ? "" : String(own)}
                min={least}
                max={name === "length" ? (details.value?.limits?.length ?? most) : most}
                step={type === "integer" ? 1 : "any"}
                value={(wanted.value[name] as number | undefined) ?? ""}
                onInput={(event) => set(name, event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}
              />
            </>
          )}
        </label>
      ))}
    </div>
  );
}

function Form() {
  const { text } = asking;
  const model = details.value;
  const looks = model?.inspects !== false;
  const submit = (event: Event) => {
    event.preventDefault();
    void (looks ? translateText() : predict());
  };
  const problem = textProblem(text.value, model?.limits);
  return (
    <form onSubmit={submit}>
      <label for="text">
        <b data-testid="direction">{model ? `${model.task}: ${model.takes}` : "Input"}</b>
      </label>
      <textarea
        id="text"
        data-testid="text"
        aria-label="Input"
        aria-describedby="text-keys text-limits"
        rows={3}
        value={text.value}
        placeholder={model?.takes}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event)}
      />
      <div class="controls">
        <ModelPicker />
        <CheckpointPicker />
        {looks && (
          <button type="submit" class="main" data-testid="observe">
            {isAnswered() ? "Predict" : "Look"}
          </button>
        )}
        {!isAnswered() && (
          <button type="button" class={looks ? "" : "main"} data-testid="predict" onClick={() => void predict()} disabled={!model}>
            {isText() ? "Continue" : "Predict"}
          </button>
        )}
        <span id="text-keys" class="quiet">
          Enter {looks && !isAnswered() ? "looks" : "predicts"}, Shift+Enter begins a line.
        </span>
        {model?.limits && (
          <span id="text-limits" class={problem ? "problem figures" : "quiet figures"} data-testid="text-limits">
            {lengthOf(text.value).toLocaleString("en")} of {count(model.limits.characters, "character")}
          </span>
        )}
      </div>
      {!isAnswered() && <RequestFields />}
    </form>
  );
}

/** The output, beside the input that it belongs to. */
function Predicted() {
  const current = output.value;
  if (!current) return null;
  const text = textOf(current.found);
  if (text === null) {
    return (
      <pre class="lines" data-testid="output">
        {JSON.stringify(current.found, null, 1)}
      </pre>
    );
  }
  const goesOn = text.startsWith(current.input);
  const grows = status.predict.value.busy;
  return (
    <div class="output" aria-busy={grows}>
      <h3>{details.value?.gives ?? "Output"}</h3>
      <p class="lines continued" data-testid="output" aria-live="polite">
        {goesOn && <span class="given">{current.input}</span>}
        {goesOn ? text.slice(current.input.length) : text}
      </p>
      {!grows && (
        <p>
          <Copy text={text} of="the output" testId="copy" />{" "}
          {details.value?.inspects !== false && (
            <button type="button" data-testid="look-at-output" onClick={() => void lookAtOutput(text)}>
              Look at it
            </button>
          )}
        </p>
      )}
    </div>
  );
}

function Waiting() {
  if (offline || observation.value || output.value || status.translate.value.busy || status.translate.value.problem) return null;
  const model = details.value;
  if (!model) return null;
  const [looks, button] = [model.inspects !== false, isAnswered() ? "Predict" : "Look"];
  const none = alone.value ? "This model is a simple baseline without a network: there is nothing to look into. Press Predict." : `The task ${task.value} shows nothing: its predictor has no method inspect(input) that returns an Observation.`;
  return (
    <p class="quiet" data-testid="waiting">
      {!looks ? none : observed.value && asking.text.value.trim() ? `This is not looked at yet. Press ${button}.` : `Write ${model.takes ?? "a text"}, and press ${button}.`}
    </p>
  );
}

export function ObserveBar() {
  return (
    <section id="translation" aria-label="Input">
      {!offline && <Form />}
      {keyNeeded.value && <KeyField />}
      <Problem place="translate" doing="Looking …" />
      <Problem place="predict" doing={isText() ? "Continuing …" : "Predicting …"} />
      <Waiting />
      <Predicted />
    </section>
  );
}
