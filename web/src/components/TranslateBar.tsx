import { pickModel, translateText } from "../actions";
import { asking, details, keyNeeded, models, offline } from "../state";
import { KeyField } from "./KeyField";
import { Output } from "./Output";
import { Problem } from "./Problem";

const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

function languageOf(code: string | null): string {
  try {
    return code ? (LANGUAGES.of(code) ?? code) : "";
  } catch {
    return code ?? "";
  }
}

function ModelPicker() {
  return (
    <label>
      Model{" "}
      <select id="model" data-testid="model" value={asking.model.value} onChange={(event) => pickModel(event.currentTarget.value)}>
        {models.value.map((model) => (
          <option key={model.name} value={model.name}>
            {model.name}
            {model.source && model.target ? ` (${model.source} → ${model.target})` : ""}
            {model.ready ? "" : " – loads at first use"}
          </option>
        ))}
      </select>
    </label>
  );
}

function Settings() {
  const { checkpoint, beam, lengthPenalty } = asking;
  const numeric = (text: string) => (text === "" ? null : Number(text));
  return (
    <>
      {models.value.length > 1 && <ModelPicker />}
      {details.value && details.value.checkpoints.length > 1 && (
        <label>
          Checkpoint{" "}
          <select
            id="checkpoint"
            data-testid="checkpoint"
            value={checkpoint.value}
            onChange={(event) => (checkpoint.value = event.currentTarget.value)}
          >
            {details.value.checkpoints.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      <label>
        Beam{" "}
        <input
          id="beam-size"
          data-testid="beam-size"
          type="number"
          min="1"
          max="64"
          value={beam.value ?? ""}
          onInput={(event) => (beam.value = numeric(event.currentTarget.value))}
        />
      </label>
      <label>
        Length penalty{" "}
        <input
          id="length-penalty"
          data-testid="length-penalty"
          type="number"
          step="0.1"
          min="0"
          value={lengthPenalty.value ?? ""}
          onInput={(event) => (lengthPenalty.value = numeric(event.currentTarget.value))}
        />
      </label>
    </>
  );
}

function Form() {
  const { text } = asking;
  const submit = (event: Event) => {
    event.preventDefault();
    void translateText();
  };
  const language = languageOf(details.value?.source ?? null);
  return (
    <form onSubmit={submit}>
      <textarea
        id="text"
        data-testid="text"
        aria-label="Text to translate"
        aria-describedby="text-keys"
        lang={details.value?.source ?? undefined}
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
      </div>
    </form>
  );
}

export function TranslateBar() {
  return (
    <section id="translation" aria-label="Translation">
      {!offline && <Form />}
      {keyNeeded.value && <KeyField />}
      <Problem place="translate" doing="Translating …" />
      <Output />
    </section>
  );
}
