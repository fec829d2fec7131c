// The request of the page as a command and as Python.
import { contentsOf, type FileKind } from "./inputs";
import { form, details, settings, translates } from "./state";

/** A text as one quoted word of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** ASCII JSON. For strings, numbers and their lists it is also a Python literal. */
export function literal(value: unknown): string {
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The command that sends the same request to the server at this address. */
export function curlOf(server: string): string {
  const [text, model] = [form.text.value, form.model.value];
  const streams = details.value?.streams;
  const kind = (["audio", "image"] as const).find((each) => contentsOf(text, each) !== null);
  const chosen = Object.keys(settings.value).length ? ` -F ${quoted(`settings=${JSON.stringify(settings.value)}`)}` : "";
  if (kind) return `curl -s ${server}/v1/predict -F file=@FILE -F ${quoted(`model=${model}`)}${chosen}`;
  const path = translates.value ? "translate" : streams ? "generate" : "predict";
  const body = translates.value ? { text: text.trim(), model } : streams ? { prompt: text, model, ...settings.value } : { inputs: [text], model, settings: settings.value };
  return `curl -s ${server}/v1/${path} -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
}

/** The same request in Python. It loads the run from `runs/NAME`. */
export function pythonOf(): string {
  const [text, name] = [form.text.value, form.model.value];
  const options = Object.entries(settings.value).map(([key, value]) => `, ${key}=${typeof value === "boolean" ? (value ? "True" : "False") : value}`);
  if (["audio", "image"].some((kind) => contentsOf(text, kind as FileKind) !== null))
    return `import regard\n\nmodel = regard.load(${literal(`runs/${name}`)})  # the run folder\nwith open("FILE", "rb") as file:\n    input = model.read_file(file.read(), "FILE")\nprint(model([input]${options.join("")})[0])`;
  const input = translates.value ? literal(text.trim()) : `model.read(${literal(text)})`;
  return `import regard\n\nmodel = regard.load(${literal(`runs/${name}`)})  # the run folder\nprint(model([${input}]${options.join("")})[0])`;
}
