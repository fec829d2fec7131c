import { translateText } from "../actions";
import { directionOf, languageName } from "../languages";
import { lengthOf, textProblem } from "../limits";
import { answer, asking, details, inspection, isExample, keyNeeded, offline, status } from "../state";
import { FileField } from "./FileField";
import { KeyField } from "./KeyField";
import { Output } from "./Output";
import { Problem } from "./Problem";
import { Settings } from "./Settings";

/** How much of what a server takes has been written. */
function Count() {
  const limits = details.value?.limits;
  if (!limits) return null;
  const length = lengthOf(asking.text.value.trim());
  const over = textProblem(asking.text.value, limits) !== "";
  return (
    <span id="text-limits" class={over ? "problem figures" : "quiet figures"} data-testid="text-limits">
      {length.toLocaleString("en")} of {limits.characters.toLocaleString("en")} characters; a sentence of at most {limits.pieces} pieces
    </span>
  );
}

/** What the page waits for, where nothing is shown. */
function Waiting() {
  if (offline || inspection.value || status.translate.value.busy || status.translate.value.problem || !details.value) return null;
  const written = asking.text.value.trim() !== "";
  return (
    <p class="quiet" data-testid="waiting">
      {!written
        ? "Write a text: its translation and all that the model looked at appear here."
        : answer.value
          ? "This is not translated yet; what was shown belonged to another text, model or search. Press Translate."
          : "Press Translate."}
    </p>
  );
}

function Form() {
  const { text } = asking;
  const submit = (event: Event) => {
    event.preventDefault();
    void translateText();
  };
  const model = details.value;
  const language = languageName(model?.source);
  return (
    <form onSubmit={submit}>
      <div class="controls">
        <label for="text">
          <b data-testid="direction">{(model && directionOf(model)) || "Text"}</b>
        </label>
        {isExample.value && (
          <span class="quiet" data-testid="example">
            An example from the validation data of {model?.name}; write your own.
          </span>
        )}
      </div>
      <textarea
        id="text"
        data-testid="text"
        aria-label="Text to translate"
        aria-describedby="text-keys text-limits"
        lang={model?.source ?? undefined}
        rows={2}
        value={text.value}
        placeholder={language ? `A sentence in ${language}` : "A sentence"}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event)}
      />
      <div class="controls">
        <Settings />
        <button type="submit" class="main" id="translate" data-testid="translate">
          Translate
        </button>
        <span id="text-keys" class="quiet">
          Enter translates, Shift+Enter begins a line.
        </span>
        <Count />
      </div>
    </form>
  );
}

export function TranslateBar() {
  return (
    <section id="translation" aria-label="Translation">
      {!offline && <Form />}
      {!offline && <FileField />}
      {keyNeeded.value && <KeyField />}
      <Problem place="translate" doing="Translating …" />
      <Waiting />
      <Output />
    </section>
  );
}
