// A server with made-up inspections, to work on the page without a model: npm run build && npm run mock [-- PORT]
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const PAGE = new URL("../regard/inspection/page/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };
const MODELS = { large: { layers: 6, heads: 8 }, small: { layers: 2, heads: 4 }, plain: { layers: 0, heads: 0 } };
const WIDTH = 16;

let seed = 1;
const random = () => ((seed = (seed * 16807) % 2147483647) / 2147483647);
const list = (length, make) => Array.from({ length }, (_, index) => make(index));
const floats = (shape, values) => ({ shape, data: Buffer.from(Float32Array.from(values.flat(9)).buffer).toString("base64") });

function side(words, spell) {
  const pieces = words.flatMap((word, index) =>
    (word.length > 6 ? [`▁${word.slice(0, 4)}`, word.slice(4)] : [`▁${word}`]).map((piece) => [spell(piece), index]));
  pieces.push(["</s>", words.length]);
  return {
    text: words.map(spell).join(" "), ids: pieces.map((_, index) => 10 + index), pieces: pieces.map(([piece]) => piece),
    words: pieces.map(([, word]) => word), spelled: [...words.map(spell), "</s>"],
  };
}

/** Vectors that lean to the diagonal, and the weights that follow from them. */
function attend(kind, layer, heads, queries, keys) {
  const vector = (place, width) => list(WIDTH, (i) => 2 * Math.cos((place * (i + 1)) / (3 * width)) + random());
  const all = list(heads, () => {
    const width = 0.3 + random() * 1.5;
    const q = list(queries, (i) => vector((i * keys) / queries, width));
    const k = list(keys, (j) => vector(j, width));
    const rows = q.map((query, i) => {
      const powers = k.map((key, j) => (kind === "decoder" && j > i ? 0 : Math.exp(query.reduce((sum, x, d) => sum + x * key[d], 0) / 4)));
      const total = powers.reduce((sum, power) => sum + power, 0);
      return powers.map((power) => power / total);
    });
    return { q, k, v: list(keys, () => list(WIDTH, () => random() - 0.5)), rows };
  });
  const names = ["entropy", "distance", "diagonality", "largest", "end"];
  const measures = Object.fromEntries(names.map((name) => [name, all.map(random)]));
  const three = (name, length) => floats([heads, length, WIDTH], all.map((head) => head[name]));
  return {
    attention: { kind, layer, mechanism: "scaled dot product", weights: floats([heads, queries, keys], all.map((head) => head.rows)), measures },
    vectors: { kind: "product", scale: 0.25, query: three("q", queries), key: three("k", keys), value: three("v", keys), allowed: floats([queries, keys], all[0].rows.map((row) => row.map((weight) => (weight > 0 ? 1 : 0)))), vector: null, bias: null, formula: "q·k / √16" },
    rows: all.map((head) => head.rows),
  };
}

/** The best path, from each of its pieces one that is kept for a step, and from that one that is pruned. */
const beamOf = (pieces) => pieces.flatMap((piece, step) => list(3, (way) => ({
  id: 3 * step + way, parent: step ? 3 * (step - 1) + (way === 2 ? 1 : 0) : null, step, token: 10 + step, piece: way ? piece + way : piece,
  log_probability: -0.1 - way, total: -0.1 * (step + 1) - way, score: step === pieces.length - 1 ? -0.1 - way / (step + 1) ** 0.6 : null,
  state: way === 2 ? "pruned" : step === pieces.length - 1 ? "ended" : "live", best: way === 0,
})));

const sentencesOf = (text) => text.trim().split(/\n+|(?<=[.!?])\s+/);

function inspect({ text: whole, model = "large", checkpoint = "best", beam = 4, nbest = 3, length_penalty = 0.6, force = [], candidate = 0, sentence = 0, include = [] }) {
  const sentences = sentencesOf(whole);
  const text = sentences[sentence];
  seed = 1 + [...text + model + checkpoint].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 1e6, 7);
  const { layers, heads } = MODELS[model];
  const words = text.trim().split(/\s+/);
  const source = side(words, (piece) => piece);
  const target = side(words, (piece) => piece.replace(/[aeiou]/g, (c) => "eioua"["aeiou".indexOf(c)]));
  if (model === "small" && target.pieces.length > 3) target.pieces[2] = "▁other";
  if (candidate) target.pieces[0] = `▁output${candidate}`;
  if (candidate) target.text = target.text.replace(/\S+/, `output${candidate}`);
  force.forEach((id, index) => ((target.ids[index] = id), (target.pieces[index] = id >= 500 ? `▁forced${id}` : target.pieces[index])));
  target.inputs = ["<s>", ...target.pieces.slice(0, -1)];
  const [S, T] = [source.pieces.length, target.pieces.length];
  const steps = target.pieces.map((piece, index) => ({
    entropy: 2 * random(), rank: index % 7 ? 0 : 1, log_probability: -0.2 - random(),
    candidates: list(10, (rank) => ({ id: rank ? 500 + rank : target.ids[index], piece: rank ? `▁choice${rank}` : piece, log_probability: -0.2 - rank * 0.7 })),
  }));
  const [attention, vectors, ablation] = [{}, {}, {}];
  const add = (name, ...what) => {
    const made = attend(...what);
    [attention[name], vectors[name], ablation[name]] = [made.attention, made.vectors, list(heads, () => -2 * random())];
    return made.rows;
  };
  list(layers, (n) => add(`encoder.${n}.self`, "encoder", n, heads, S, S));
  const rows = list(layers, (n) => [add(`decoder.${n}.self`, "decoder", n, heads, T, T), add(`decoder.${n}.source`, "source", n, heads, T, S)]).at(-1)?.[1];
  return {
    format: "regard-inspection", version: 1, model: { name: model, checkpoint, source_language: "en", target_language: "de" },
    search: { beam, length_penalty, nbest }, forced: force.length, candidate, source, target,
    unknown: [...new Set(text.match(/[^\p{Script=Latin}\p{N}\p{P}\s]/gu) ?? [])], ...(sentences.length > 1 && { sentences, sentence }), score: -1.234, log_probability: -5.678, finished: true,
    candidates: list(nbest, (n) => ({ text: n ? target.text.replace(/\S+/, `output${n}`) : source.text.replace(/[aeiou]/g, "e"), score: -1.2 - n, log_probability: -5.6 - n })), steps, attention,
    alignment: rows ? { attention: `decoder.${layers - 1}.source`, head: 0, shift: 1, why: "This head agrees best with the aligner on 500 sentences.", links: [], weights: floats([T, S], [...rows[0].slice(1), Array(S).fill(0)]) } : null,
    rollout: rows ? { encoder: floats([S, S], list(S * S, random)), source: floats([T, S], rows[0]) } : {},
    ...(include.includes("vectors") && { vectors }), ...(include.includes("ablation") && { ablation }),
    ...(include.includes("beam") && { beam: beamOf(target.pieces) }),
  };
}

const curve = (name, unit, value) => ({ name, unit, points: list(40, (n) => [n * 500, value(n)]) });
const details = (name) => ({
  name, source: "en", target: "de", checkpoints: ["1000", "5000", "20000", "best"], checkpoint: "best",
  weights: { 1000: `${name}1`, 5000: `${name}2`, 20000: `${name}3`, best: `${name}3` }, example: `The ${name} model is cleaning a window on a ladder .`,
  limits: { characters: 5000, pieces: 128, beam: 10, nbest: 10, file_bytes: 131072, files: [".txt", ".md", ".html", ".htm"] }, search: { beam: 4, length_penalty: 0.6, nbest: 3 },
  parts: [["Kind", "transformer"], ["Layers", String(MODELS[name].layers)], ["Heads", String(MODELS[name].heads)]],
  curves: [curve("training loss", "nats", (n) => 6 / (1 + n / 4)), curve("validation loss", "nats", (n) => 6.4 / (1 + n / 5)), curve("BLEU", "BLEU", (n) => 38 - 38 / (1 + n / 3))],
});

async function answer(request) {
  const path = new URL(request.url, "http://localhost").pathname;
  if (path === "/v1/models") return [200, "json", { data: Object.keys(MODELS).map((name) => ({ name, source: "en", target: "de", ready: name !== "plain" })) }];
  if (path.startsWith("/v1/models/")) return [200, "json", details(path.slice(11))];
  if (path === "/translate_file") return [200, "json", { translatedFileUrl: "http://elsewhere/download_file/x.txt" }];
  if (path.startsWith("/download_file/")) return [200, "text", "Ein Hund."];
  if (path === "/v1/inspect" || path === "/v1/translate") {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    if (path === "/v1/translate") return [200, "json", { translations: [{ text: body.text.replace(/[aeiou]/g, "e") }] }];
    if (body.text === "error") return [400, "json", { error: "This text is an error." }];
    if (body.text === "often") return [429, "json", { error: "Slowdown: 120 per 1 minute" }];
    if (body.text === "secret" && !request.headers.authorization) return [401, "json", { error: "An API key is needed." }];
    return [200, "json", inspect(body)];
  }
  const file = (name) => readFile(new URL(name, PAGE), "utf8");
  if (path === "/offline.html") {
    const [page, script, sheet] = await Promise.all(["index.html", "app.js", "app.css"].map(file));
    const inlined = page.replace(/<script type="module"[^>]*><\/script>/, () => `<script type="module">${script}</script>`);
    return [200, "html", inlined.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${sheet}</style>`)];
  }
  const name = path === "/" ? "index.html" : path.slice(1);
  return [200, name.split(".").at(-1), await file(name)];
}

createServer(async (request, response) => {
  const [status, type, body] = await answer(request).catch((error) => [404, "json", { error: String(error) }]);
  response.writeHead(status, { "Content-Type": TYPES[type] ?? "application/json", "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:" });
  response.end(type === "json" ? JSON.stringify(body) : body);
}).listen(Number(process.argv[2] ?? 8123), "127.0.0.1", function () { console.log(`http://127.0.0.1:${this.address().port}/`); });
