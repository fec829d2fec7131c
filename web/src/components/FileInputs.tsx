import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ACCEPTED, contentsLimit, useBytes, useTable } from "../files";
import { contentsOf, rowsOf, valuesOf, type FileKind } from "../inputs";
import { count, kibibytes } from "../limits";
import { playFrom, playing, record, type Recording } from "../sound";
import { details, form } from "../state";

interface Properties {
  /** Sends the form. */
  send: () => void;
}

/** The kinds of input that are files. */
export const FILE_KINDS: string[] = ["audio", "image", "table"];

/** Runs `task`; its error becomes the problem. */
async function attempt(problem: Signal<string>, task: () => Promise<void> | void): Promise<void> {
  problem.value = "";
  try {
    await task();
  } catch (error) {
    problem.value = error instanceof Error ? error.message : String(error);
  }
}

/** A field that takes a file by choice or by drop. */
function DropField({ kind, label, onFile, problem, children }: {
  kind: FileKind;
  label: string;
  onFile: (file: File) => Promise<void>;
  problem: Signal<string>;
  children?: ComponentChildren;
}) {
  const over = useSignal(false);
  const use = (files: FileList | null | undefined) => {
    const [file] = files ?? [];
    if (file) void attempt(problem, () => onFile(file));
  };
  return (
    <div
      class={`drop${over.value ? " over" : ""}`}
      data-testid={`drop-${kind}`}
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => (over.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        use(event.dataTransfer?.files);
      }}
    >
      <div class="controls">
        <input
          type="file"
          id={kind === "table" ? "table-file" : "text"}
          data-testid={kind === "table" ? "table-file" : "text"}
          aria-label={label}
          accept={ACCEPTED[kind]}
          onClick={(event) => (event.currentTarget.value = "")} // the same file can be chosen again
          onChange={(event) => use(event.currentTarget.files)}
        />
        {children}
      </div>
      {problem.value && (
        <p class="problem" role="alert" data-testid="input-problem">
          {problem.value}
        </p>
      )}
    </div>
  );
}

const BYTES_PER_SECOND = 32_000; // of a recording

/** Records the microphone until the button is pressed again, or the server would refuse a longer sound. */
function Microphone({ onSound, problem }: { onSound: (bytes: Uint8Array, name: string) => void; problem: Signal<string> }) {
  const recording = useSignal<Recording | null>(null);
  const level = useSignal(0);
  const longest = Math.min(60, Math.floor((contentsLimit(details.value?.limits) - 44) / BYTES_PER_SECOND));
  const finish = () =>
    attempt(problem, async () => {
      const current = recording.value;
      recording.value = null;
      if (current) onSound(await current.stop(), "The recording");
    });
  const start = () =>
    attempt(problem, async () => {
      recording.value = await record((loudness) => (level.value = loudness));
    });
  useEffect(() => {
    if (!recording.value) return;
    const timer = setTimeout(() => void finish(), 1000 * longest);
    return () => clearTimeout(timer);
  }, [recording.value]);
  useEffect(() => () => recording.value?.cancel(), []);
  return (
    <>
      <button type="button" data-testid="record" aria-pressed={recording.value !== null} onClick={() => void (recording.value ? finish() : start())}>
        {recording.value ? "Stop recording" : "Record"}
      </button>
      {recording.value && <meter min={0} max={1} value={level.value} aria-label="Level of the microphone" data-testid="level" />}
      <span class="quiet" role="status">
        {recording.value ? `Recording, at most ${count(longest, "second")}.` : ""}
      </span>
    </>
  );
}

/** A sound from a file or the microphone. */
export function SoundInput({ send }: Properties) {
  const problem = useSignal("");
  const name = useSignal("");
  const use = (bytes: Uint8Array, from: string) => {
    useBytes("audio", bytes, from);
    name.value = from;
    send();
  };
  const current = contentsOf(form.text.value, "audio");
  return (
    <DropField kind="audio" label="Sound file" problem={problem} onFile={async (file) => use(new Uint8Array(await file.arrayBuffer()), file.name)}>
      <Microphone onSound={use} problem={problem} />
      {current !== null && (
        <>
          <button type="button" data-testid="play-sound" onClick={() => void (playing.value ? playing.value() : attempt(problem, () => playFrom(current, 0)))}>
            {playing.value ? "Stop" : "Play"}
          </button>
          <span data-testid="file-name">
            {name.value || "Example"}, {kibibytes((current.length * 3) / 4)}
          </span>
        </>
      )}
      <span class="quiet">Drop a sound file here, choose one, or record.</span>
    </DropField>
  );
}

const SIDE = 224; // pixels of a drawing

/** A drawing by mouse or finger. */
function Sketch({ onImage }: { onImage: (bytes: Uint8Array) => Promise<void> }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawn = useSignal(false);
  const inverse = useSignal(true);
  const point = (event: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return [((event.clientX - box.left) * SIDE) / box.width, ((event.clientY - box.top) * SIDE) / box.height] as const;
  };
  const clear = () => {
    const context = canvas.current!.getContext("2d")!;
    context.fillStyle = inverse.value ? "#000" : "#fff";
    context.fillRect(0, 0, SIDE, SIDE);
    drawn.value = false;
  };
  useEffect(clear, [inverse.value]);
  const start = (event: PointerEvent) => {
    const context = canvas.current!.getContext("2d")!;
    canvas.current!.setPointerCapture(event.pointerId);
    Object.assign(context, { strokeStyle: inverse.value ? "#fff" : "#000", lineWidth: 18, lineCap: "round", lineJoin: "round" });
    context.beginPath();
    context.moveTo(...point(event));
    context.lineTo(...point(event));
    context.stroke();
    drawn.value = true;
  };
  const draw = (event: PointerEvent) => {
    if (!canvas.current!.hasPointerCapture(event.pointerId)) return;
    const context = canvas.current!.getContext("2d")!;
    context.lineTo(...point(event));
    context.stroke();
  };
  const use = async () => {
    const blob = await new Promise<Blob | null>((resolve) => canvas.current!.toBlob(resolve, "image/png"));
    if (blob) await onImage(new Uint8Array(await blob.arrayBuffer()));
  };
  return (
    <details data-testid="sketch">
      <summary>Draw an image</summary>
      <canvas ref={canvas} class="sketch" width={SIDE} height={SIDE} role="img" aria-label="Drawing area for the mouse or a finger" data-testid="sketch-canvas" onPointerDown={start} onPointerMove={draw} />
      <p class="controls">
        <button type="button" data-testid="sketch-use" disabled={!drawn.value} onClick={() => void use()}>
          Use the drawing
        </button>
        <button type="button" data-testid="sketch-clear" onClick={clear}>
          Clear
        </button>
        <label>
          <input type="checkbox" checked={inverse.value} onChange={(event) => (inverse.value = event.currentTarget.checked)} /> white on black
        </label>
      </p>
    </details>
  );
}

/** An image from a file or drawn by hand. */
export function ImageInput({ send }: Properties) {
  const problem = useSignal("");
  const use = (bytes: Uint8Array, from: string) => {
    useBytes("image", bytes, from);
    send();
  };
  const current = contentsOf(form.text.value, "image");
  return (
    <>
      <DropField kind="image" label="Image file" problem={problem} onFile={async (file) => use(new Uint8Array(await file.arrayBuffer()), file.name)}>
        <span class="quiet">Drop an image here, choose a file, or draw one below.</span>
        {current !== null && <img class="preview" src={`data:image;base64,${current}`} alt="The chosen image" data-testid="image-preview" />}
      </DropField>
      <Sketch onImage={(bytes) => attempt(problem, () => use(bytes, "The drawing"))} />
    </>
  );
}

const PREVIEW = 5; // rows

/** The first rows of a table; the first of all is its heading. */
function Preview({ rows: [heading, ...rows] }: { rows: string[][] }) {
  if (!heading) return null;
  const odd = rows.filter((row) => row.length !== heading.length).length;
  return (
    <>
      <div class="scroller" tabIndex={0} role="region" aria-label="First rows of the table">
        <table data-testid="table-preview">
          <thead>
            <tr>
              {heading.map((name, index) => (
                <th scope="col" key={index}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, PREVIEW).map((row, index) => (
              <tr key={index}>
                {row.map((cell, at) => (
                  <td key={at}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet" data-testid="table-size">
        {count(rows.length, "row")}, {count(heading.length, "column")}.
        {odd > 0 && ` ${count(odd, "row")} with another number of columns than the heading.`}
      </p>
    </>
  );
}

/** A table as CSV or TSV text, from a file or pasted. */
export function TableInput({ send }: Properties) {
  const problem = useSignal("");
  const dropped = useSignal(0);
  const [table, values] = [contentsOf(form.text.value, "table"), valuesOf(form.text.value)];
  const use = (text: string) => void (dropped.value = useTable(text));
  return (
    <>
      <DropField
        kind="table"
        label="Table file"
        problem={problem}
        onFile={async (file) => {
          use(await file.text());
          if (!form.text.value) throw new Error(`${file.name} is empty.`);
          send();
        }}
      >
        <span class="quiet">Drop a CSV file here, choose one, or paste its text.</span>
      </DropField>
      <textarea
        id="text"
        data-testid="text"
        class="terms"
        aria-label="Table as CSV"
        aria-describedby="text-keys text-limits"
        rows={5}
        value={table ?? form.text.value}
        placeholder={"date,load\n2018-06-26 20:00,9.4"}
        onInput={(event) => use(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      {dropped.value > 0 && (
        <p class="notice" role="status" data-testid="table-dropped">
          The table is longer than this server accepts. Its first {count(dropped.value, "row")} are not sent.
        </p>
      )}
      {table && <Preview rows={rowsOf(table)} />}
      {values && <Preview rows={[values[0]?.map((_, index) => `column ${index + 1}`) ?? [], ...values.map((row) => row.map((cell) => (cell === null ? "" : String(cell))))]} />}
    </>
  );
}
