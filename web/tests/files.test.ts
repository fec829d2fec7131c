import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { base64Of, bytesOf, contentsOf, described, isFileLine, rowsOf, valuesOf } from "../src/inputs";
import { documentOf, openPage, predictionOf, settled, surfaceOf } from "./server";

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined }));
  vi.stubGlobal("document", { getElementById: () => null });
});
afterEach(() => vi.unstubAllGlobals());

const LIMITS = { characters: 40, pieces: 0, beam: 0, nbest: 0, file_bytes: 4096, files: [] };

test("bytes are written as base64 and read back", () => {
  const bytes = Uint8Array.from({ length: 20_000 }, (_, index) => index % 256);
  expect(bytesOf(base64Of(bytes))).toEqual(bytes);
});

test("only lines with the contents of files are described by their size", () => {
  const sound = JSON.stringify({ audio: base64Of(new Uint8Array(4096)) });
  expect([described(sound), described('{"table":"a,b\\n1,2\\n"}'), described("a text")]).toEqual(["a sound of 4 KiB", "a table of 1 row", "a text"]);
  const wav = new Uint8Array(24_048);
  wav.set([0x52, 0x49, 0x46, 0x46]);
  new DataView(wav.buffer).setUint32(28, 16_000, true);
  const png = new Uint8Array(90);
  png.set([0x89, 0x50, 0x4e, 0x47]);
  new DataView(png.buffer).setUint32(16, 640);
  new DataView(png.buffer).setUint32(20, 48);
  expect([described(JSON.stringify({ audio: base64Of(wav) })), described(JSON.stringify({ image: base64Of(png) }))]).toEqual(["a sound of 1.5 s", "an image of 640 × 48 pixels"]);
  expect(described('{"audio":"***"}')).toBe("a sound of 1 KiB");
  expect([described('{"values": [[1, 2], [3, null]]}'), valuesOf('{"values": [[1, 2], 3]}'), valuesOf(sound)]).toEqual(["a table of 2 rows", [[1, 2], [3]], null]);
  expect([isFileLine(sound), isFileLine('{"text": 1}'), contentsOf("{\"image\": broken", "image"), contentsOf(sound, "image")]).toEqual([true, false, null, null]);
});

test("the rows of CSV and TSV, with quoted cells", () => {
  expect(rowsOf('a,"b, c"\r\n1,"x ""y""\nz"\n\n')).toEqual([["a", "b, c"], ["1", 'x "y"\nz']]);
  expect(rowsOf("a\tb,c\n1\t2")).toEqual([["a", "b,c"], ["1", "2"]]);
  expect(rowsOf("a;b\n1,5;2")).toEqual([["a", "b"], ["1,5", "2"]]);
});

test("a table that is too long keeps its heading and its last rows", async () => {
  const { inputProblem, lastRows } = await import("../src/files");
  const rows = Array.from({ length: 1000 }, (_, index) => `2018-06-26,${index}`);
  const table = ["date,load", ...rows, ""].join("\n");
  const { text, dropped } = lastRows(table, 2000);
  const kept = text.trimEnd().split("\n");
  expect([kept[0], kept.at(-1), kept.length - 1 + dropped]).toEqual(["date,load", "2018-06-26,999", 1000]);
  expect(kept.length).toBeGreaterThan(50);
  expect(inputProblem(JSON.stringify({ table: text }), { ...LIMITS, file_bytes: 2000 + 2048 + 64 })).toBe("");
  expect(lastRows("a,b\n1,2\n", 2000)).toEqual({ text: "a,b\n1,2\n", dropped: 0 });
});

test("a file is checked against the limit of a request, a text against that of characters", async () => {
  const { inputProblem, useBytes } = await import("../src/files");
  const { details, form } = await import("../src/state");
  const line = JSON.stringify({ audio: base64Of(new Uint8Array(6000)) });
  expect(inputProblem(line, LIMITS)).toContain("8 KiB");
  expect(inputProblem(JSON.stringify({ audio: base64Of(new Uint8Array(600)) }), LIMITS)).toBe("");
  expect(inputProblem("x".repeat(50), LIMITS)).toContain("50 characters");
  details.value = { limits: LIMITS } as never;
  expect(() => useBytes("image", new Uint8Array(0), "a.png")).toThrow("a.png is empty.");
  expect(() => useBytes("image", new Uint8Array(5000), "a.png")).toThrow("a.png is too large");
  useBytes("image", Uint8Array.from([1, 2, 3]), "a.png");
  expect(form.text.value).toBe('{"image":"AQID"}');
});

test("a sound becomes a WAV file with one channel of 16 bits", async () => {
  const { mixed, wavOf } = await import("../src/sound");
  const wav = wavOf(mixed([Float32Array.from([1, -1, 2]), Float32Array.from([1, 0, 2])]), 16_000);
  const view = new DataView(wav.buffer);
  const name = (at: number) => String.fromCharCode(...wav.subarray(at, at + 4));
  expect([name(0), name(8), name(36), view.getUint32(4, true), view.getUint32(40, true), wav.length]).toEqual(["RIFF", "WAVE", "data", 42, 6, 50]);
  expect([view.getUint16(22, true), view.getUint32(24, true), view.getUint32(28, true), view.getUint16(34, true)]).toEqual([1, 16_000, 32_000, 16]);
  expect([0, 1, 2].map((sample) => view.getInt16(44 + 2 * sample, true))).toEqual([32767, -16383, 32767]);
});

test("a refused microphone is explained", async () => {
  const { record } = await import("../src/sound");
  const refusing = (name: string) => ({ mediaDevices: { getUserMedia: () => Promise.reject(new DOMException("no", name)) } });
  vi.stubGlobal("navigator", {});
  await expect(record(() => undefined)).rejects.toThrow("https");
  vi.stubGlobal("navigator", refusing("NotAllowedError"));
  await expect(record(() => undefined)).rejects.toThrow("Allow it in the settings");
  vi.stubGlobal("navigator", refusing("NotFoundError"));
  await expect(record(() => undefined)).rejects.toThrow("No microphone was found");
});

test("a file is sent in the request, not in the address, and its sound can be played only while it is in the form", async () => {
  const details = { one: { search: undefined, examples: [], streams: false, input: { kind: "audio", boxes: [], choices: [] }, limits: LIMITS } };
  const { asked, actions, state } = await openPage("", ["one"], { entries: { one: { task: "some" } }, details });
  const { useBytes } = await import("../src/files");
  const { sound } = await import("../src/sound");
  const { curlOf, pythonOf } = await import("../src/snippet");
  void actions.start();
  await settled();
  useBytes("audio", Uint8Array.from([1, 2, 3]), "a.wav");
  void actions.submit();
  await asked[0].answer(documentOf({ text: "a sound of 1 KiB", surfaces: [surfaceOf(["1"])], predictions: [predictionOf("whole", [], "seven")] }));
  expect(asked[0].body.text).toBe('{"audio":"AQID"}');
  expect(location.hash).not.toContain("AQID");
  expect(location.hash).toContain("model=one");
  expect(sound.value).toBe("AQID");
  expect(curlOf("http://host")).toBe("curl -s http://host/v1/predict -F file=@FILE -F 'model=one'");
  expect(pythonOf()).toContain("model.read_file(file.read()");
  state.form.text.value = "";
  expect(sound.value).toBeNull();
});
