import { submit } from "../actions";
import { directionOf } from "../languages";
import { inputProblem } from "../files";
import { described, isFileLine } from "../inputs";
import { count, kibibytes, lengthOf } from "../limits";
import { output, predict } from "../predicting";
import { isBaseline, answer, form, translateWhileTyping, details, inspection, inspects, isExample, keyNeeded, offline, status, translates } from "../state";
import { visible } from "../words";
import { FileField } from "./FileField";
import { FILE_KINDS } from "./FileInputs";
import { Glossary } from "./Glossary";
import { InputFields } from "./InputFields";
import { KeyField } from "./KeyField";
import { Languages } from "./Languages";
import { Output } from "./Output";
import { Predicted } from "./Predicted";
import { Problem } from "./Problem";
import { RequestFields } from "./RequestFields";
import { CheckpointPicker, ModelPicker, SearchFields } from "./Settings";

/** Whether the model continues a text. If so, this is its main action. */
const continues = () => details.value?.streams === true;
/** Whether inputs are names, which fit on one line. */
const hasNames = () => details.value?.input?.kind === "nodes" || details.value?.input?.kind === "items";
/** Whether inputs are files. */
const hasFiles = () => FILE_KINDS.includes(details.value?.input?.kind ?? "text");
const FILES: Record<string, string> = { audio: "Sound", image: "Image", table: "Table" };
const takesTable = () => details.value?.input?.kind === "table";
const verb = () => (translates.value ? "Translate" : inspects.value && continues() ? "Inspect" : "Predict");

/** The number of characters of the input, with the limits of the server. */
function Count() {
  const limits = details.value?.limits;
  if (!limits) return null;
  const text = translates.value ? form.text.value.trim() : form.text.value;
  const over = inputProblem(form.text.value, limits) !== "";
  if (hasFiles()) {
    if (!limits.file_bytes) return null;
    return (
      <span id="text-limits" class={over ? "problem figures" : "quiet figures"} data-testid="text-limits">
        {kibibytes(isFileLine(text) ? text.length : 0)} of {kibibytes(limits.file_bytes)} of a request
      </span>
    );
  }
  return (
    <span id="text-limits" class={over ? "problem figures" : "quiet figures"} data-testid="text-limits">
      {lengthOf(text).toLocaleString("en")} of {count(limits.characters, "character")}
      {translates.value && `; a sentence of at most ${limits.pieces} pieces`}
    </span>
  );
}

/** Up to three inputs of the validation data. A click writes one into the form and predicts. */
function Examples() {
  const examples = details.value?.examples ?? [];
  if (!examples.length) return null;
  const run = (example: string) => {
    form.text.value = example;
    void submit();
  };
  return (
    <p class="examples" data-testid="examples">
      <span class="quiet">Examples from the validation data:</span>{" "}
      <span class="chips">
        {examples.map((example, index) => (
          <button type="button" class="chip" key={index} data-testid={`example-${index}`} aria-pressed={form.text.value === example} onClick={() => run(example)}>
            {shortened(example)}
          </button>
        ))}
      </span>
    </p>
  );
}

const LONGEST = 60;
const shortened = (text: string) => {
  const line = described(text).replaceAll("\t", " | ").replaceAll("\n", " ");
  return visible(line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line);
};

function Buttons() {
  const model = details.value;
  return (
    <>
      {continues() && (
        <button type="submit" class="main" data-testid="predict" disabled={!model}>
          Continue
        </button>
      )}
      {(inspects.value || !continues()) && (
        <button
          type={continues() ? "button" : "submit"}
          class={continues() ? "" : "main"}
          data-testid={translates.value ? "translate" : inspects.value ? "observe" : "predict"}
          onClick={continues() ? () => void submit() : undefined}
        >
          {verb()}
        </button>
      )}
    </>
  );
}

/** Continues the text, or predicts if the model cannot be inspected. Inspects the input if the model can be inspected. */
function run(): void {
  if (continues() || !inspects.value) void predict();
  if (inspects.value) void submit();
}

function Form() {
  const model = details.value;
  const send = (event: Event) => {
    event.preventDefault();
    run();
  };
  return (
    <form onSubmit={send} noValidate>
      {model?.about && (
        <p class="about" data-testid="about-model">
          <b>{model.name}</b> {model.about}
        </p>
      )}
      <Examples />
      <div class="controls">
        <label for="text">
          <b data-testid="direction">{(translates.value ? model && directionOf(model) : FILES[model?.input?.kind ?? ""] ?? model?.takes) || "Text"}</b>
        </label>
        {translates.value && <Languages />}
        {isExample.value && (
          <span class="quiet" data-testid="example">
            An example from the validation data of {model?.name}. Replace it with your own input.
          </span>
        )}
      </div>
      <InputFields send={send} />
      <div class="controls">
        <ModelPicker />
        <CheckpointPicker />
        {translates.value && <SearchFields />}
        {translates.value && (
          <label>
            <input type="checkbox" data-testid="as-typed" checked={translateWhileTyping.value} onChange={(event) => (translateWhileTyping.value = event.currentTarget.checked)} /> translate while typing
          </label>
        )}
        <Buttons />
        <span id="text-keys" class="quiet">
          {hasFiles() && !takesTable() ? "" : `Enter ${continues() ? "continues" : translates.value ? "translates" : "predicts"}${hasNames() ? "." : ", Shift+Enter starts a new line."}`}
        </span>
        <Count />
      </div>
      <RequestFields />
    </form>
  );
}

/** The next step for the user, if nothing is displayed. */
function Waiting() {
  if (offline || inspection.value || output.value || status.translate.value.busy || status.translate.value.problem) return null;
  const model = details.value;
  if (!model) return null;
  const written = form.text.value.trim() !== "";
  const button = continues() ? "Continue" : verb();
  if (isBaseline.value && !written) return <p class="quiet" data-testid="waiting">This model is a baseline without a network. It can predict, but it cannot be inspected. Press Predict.</p>;
  const changed = answer.value !== null && written;
  return (
    <p class="quiet" data-testid="waiting">
      {changed
        ? `The input, the model or a setting has changed. Press ${button}.`
        : written
          ? `Press ${button}.`
          : `${hasFiles() ? "Choose a file" : `Write ${model.takes ?? "a text"}`}${model.examples?.length ? " or choose an example" : ""}, and press ${button}.`}
    </p>
  );
}

export function InputBar() {
  return (
    <section id="translation" aria-label={translates.value ? "Translation" : "Input"}>
      {!offline && <Form />}
      {!offline && translates.value && <Glossary />}
      {!offline && translates.value && <FileField />}
      {keyNeeded.value && <KeyField />}
      <Problem place="translate" doing={translates.value ? "Translating …" : "Predicting …"} />
      <Problem place="predict" doing={continues() ? "Continuing …" : "Predicting …"} />
      <Waiting />
      {translates.value && <Output />}
      <Predicted />
    </section>
  );
}
