import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { joinNames, namesOf } from "../inputs";
import { languageName } from "../languages";
import { form, details, translates } from "../state";
import { ImageInput, SoundInput, TableInput } from "./FileInputs";

interface Properties {
  send: (event: Event) => void;
}

const onEnter = (send: (event: Event) => void) => (event: KeyboardEvent) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
};

/** Suggestions from the vocabulary of the model. */
function Choices({ id, choices }: { id: string; choices: string[] }) {
  return (
    <datalist id={id}>
      {choices.map((name) => (
        <option key={name} value={name} />
      ))}
    </datalist>
  );
}

function TextBox({ label, value, placeholder, rows, id, onInput, send, lang }: {
  label: string;
  value: string;
  placeholder?: string;
  rows: number;
  id: string;
  lang?: string;
  onInput: (value: string) => void;
} & Properties) {
  return (
    <textarea
      id={id}
      data-testid={id}
      aria-label={label}
      aria-describedby="text-keys text-limits"
      rows={rows}
      lang={lang}
      value={value}
      placeholder={placeholder}
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={onEnter(send)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        const [file] = event.dataTransfer?.files ?? [];
        if (!file) return;
        event.preventDefault();
        void file.text().then((text) => onInput(text.trimEnd()));
      }}
    />
  );
}

/** One box for each text. Tab moves to the next box. */
function Texts({ boxes, send }: { boxes: string[] } & Properties) {
  const parts = form.text.value.split("\t");
  const write = (index: number, value: string) => {
    form.text.value = boxes.map((_, at) => (at === index ? value.replaceAll("\t", " ") : (parts[at] ?? ""))).join("\t");
  };
  return (
    <div class="columns">
      {boxes.map((name, index) => (
        <label key={name} class="column">
          {name}
          <TextBox
            id={index ? `text-${index}` : "text"}
            label={name}
            rows={2}
            value={parts[index] ?? ""}
            onInput={(value) => write(index, value)}
            send={send}
          />
        </label>
      ))}
    </div>
  );
}

/** A text with gaps, and a button that inserts a gap. */
function Gaps({ send }: Properties) {
  const insert = () => {
    const box = document.getElementById("text") as HTMLTextAreaElement;
    const [start, end] = [box.selectionStart, box.selectionEnd];
    const before = form.text.value;
    form.text.value = `${before.slice(0, start)}___${before.slice(end)}`;
    box.focus();
    requestAnimationFrame(() => box.setSelectionRange(start + 3, start + 3));
  };
  return (
    <>
      <TextBox id="text" label="Input" rows={3} value={form.text.value} placeholder="A text with ___ for each gap" onInput={(value) => (form.text.value = value)} send={send} />
      <p>
        <button type="button" data-testid="insert-gap" onClick={insert}>
          Insert a gap
        </button>
      </p>
    </>
  );
}

/** Items in the order of time, or names of nodes, as chips. The vocabulary is suggested while the user types. */
function Names({ choices, label, max, send }: { choices: string[]; label: string; max: number } & Properties) {
  const list = useId();
  const draft = useSignal("");
  const names = namesOf(form.text.value);
  const write = (all: string[]) => (form.text.value = joinNames(all));
  const add = () => {
    const added = namesOf(draft.value);
    draft.value = "";
    write([...names, ...added].slice(-max));
  };
  return (
    <div class="names" data-testid="names">
      <span class="chips">
        {names.map((name, index) => (
          <button type="button" class="chip" key={index} aria-label={`Remove ${name}`} title="Remove" onClick={() => write(names.filter((_, at) => at !== index))}>
            {name} ×
          </button>
        ))}
      </span>
      <input
        type="text"
        id="text"
        data-testid="text"
        aria-label={label}
        aria-describedby="text-keys text-limits"
        list={list}
        value={draft.value}
        placeholder={label}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
          if (/[\s]$/.test(draft.value) && draft.value.trim() && !draft.value.startsWith("[")) add();
        }}
        onKeyDown={(event) => {
          if (event.key === "Backspace" && draft.value === "" && names.length) write(names.slice(0, -1));
          if (event.key === "Enter" && !event.isComposing) {
            if (draft.value.trim()) add();
            send(event);
          }
        }}
        onBlur={() => draft.value.trim() && add()}
      />
      <Choices id={list} choices={choices} />
      {names.length > 0 && (
        <button type="button" class="plain" data-testid="clear-names" onClick={() => write([])}>
          Clear
        </button>
      )}
    </div>
  );
}

/** The name of one node. */
function Name({ choices, send }: { choices: string[] } & Properties) {
  const list = useId();
  return (
    <div class="names">
      <input
        type="text"
        id="text"
        data-testid="text"
        aria-label="Name of a node"
        aria-describedby="text-keys text-limits"
        list={list}
        value={form.text.value}
        placeholder="Name of a node"
        onInput={(event) => (form.text.value = event.currentTarget.value)}
        onKeyDown={onEnter(send)}
      />
      <Choices id={list} choices={choices} />
    </div>
  );
}

/** The fields for the input form of the model. */
export function InputFields({ send }: Properties) {
  const model = details.value;
  const inputForm = model?.input ?? { kind: "text", boxes: [], choices: [] };
  if (inputForm.kind === "text" && inputForm.boxes.length > 1) return <Texts boxes={inputForm.boxes} send={send} />;
  const submit = () => send(new Event("submit", { cancelable: true }));
  if (inputForm.kind === "audio") return <SoundInput send={submit} />;
  if (inputForm.kind === "image") return <ImageInput send={submit} />;
  if (inputForm.kind === "table") return <TableInput send={submit} />;
  if (inputForm.kind === "gaps") return <Gaps send={send} />;
  if (inputForm.kind === "items") return <Names choices={inputForm.choices} label="Add an item" max={10_000} send={send} />;
  if (inputForm.kind === "nodes" && inputForm.boxes.length < 2) return <Name choices={inputForm.choices} send={send} />;
  if (inputForm.kind === "nodes") return <Names choices={inputForm.choices} label="Add a node" max={inputForm.boxes.length} send={send} />;
  const language = languageName(model?.source);
  return (
    <TextBox
      id="text"
      label={translates.value ? "Text to translate" : "Input"}
      lang={(translates.value && model?.source) || undefined}
      rows={translates.value ? 2 : 3}
      value={form.text.value}
      placeholder={translates.value ? (language ? `A sentence in ${language}` : "A sentence") : model?.takes}
      onInput={(value) => (form.text.value = value)}
      send={send}
    />
  );
}
