import { layRows } from "./aligned";
import { fetchTemplate } from "./api";
import { drawAligned, drawHeatMap, drawPlots, drawStrip, type Heading } from "./drawing";
import { fillTemplate } from "./offline";
import { fileName } from "./format";
import { described } from "./inputs";
import { forecastOf, isNumeric } from "./numbers";
import { measureText } from "./paint";
import { plotOf, shownChannels, type Plot } from "./plot";
import { channel, details, inspection, other, replay, status } from "./state";
import { plottedStrip, strip, type Strip } from "./strip";
import { viewOf } from "./view";
import { alignedView, heatView } from "./views";

export function download(content: BlobPart, type: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const LONGEST = 90;

/** The heading of a drawing of the current inspection. */
function heading(title: string): Heading {
  const { model, text } = inspection.value!;
  const line = described(text).replaceAll(/\s+/g, " ");
  return { title, source: `${model.name}, checkpoint ${model.checkpoint}: ${line.length > LONGEST ? `${line.slice(0, LONGEST - 1)}…` : line}` };
}

export function alignedSvg(): string {
  const { keys, queries, links, title } = alignedView.value!;
  return drawAligned(layRows(keys, queries, links, measureText), heading(title), measureText);
}

export function heatMapSvg(): string {
  const { colors, title, ...data } = heatView.value!;
  return drawHeatMap({ ...data, matrix: colors }, heading(title), measureText);
}

const titleOf = ({ mode, label }: Strip) => `${mode === "influence" ? "Influence on" : "Attention for"} “${label.trim()}”`;

const WIDTH = 760; // pixels of an exported plot

/** The plots of the strip, if it is over surfaces of numbers. */
function stripPlots(current: Strip): Plot[] {
  const { surfaces, facts } = inspection.value!;
  return current.lines.flatMap((line) => {
    const surface = line.surface === null ? undefined : surfaces[line.surface];
    if (!isNumeric(surface)) return [];
    const forecast = forecastOf(surfaces, line.surface!);
    const options = { width: WIDTH, dark: false, measure: measureText, strip: plottedStrip(current, line, surface) };
    return [plotOf(surface, forecast, shownChannels(surface, forecast, channel.value), facts.words ?? [], options)];
  });
}

/** The surfaces of numbers, without the values of "Why". */
export function numbersSvg(): string {
  const { surfaces, facts } = inspection.value!;
  const plots = surfaces.flatMap((surface, index) => {
    if (!isNumeric(surface) || forecastOf(surfaces, index - 1)) return [];
    const forecast = forecastOf(surfaces, index);
    return [plotOf(surface, forecast, shownChannels(surface, forecast, channel.value), facts.words ?? [], { width: WIDTH, dark: false, measure: measureText })];
  });
  return drawPlots(plots, heading(forecastOf(surfaces, 0) ? "Forecast" : "Input"), measureText);
}

/** The drawing of the part "Why". */
export function stripSvg(): string {
  const current = strip.value!;
  const plots = stripPlots(current);
  if (plots.length) return drawPlots(plots, heading(titleOf(current)), measureText);
  return drawStrip(current, heading(titleOf(current)), measureText);
}

/** Runs `task`. An error is shown next to the buttons. */
async function attempt(task: () => Promise<void>): Promise<void> {
  status.export.value = { busy: true, problem: "" };
  const problem = await task().then(
    () => "",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  status.export.value = { busy: false, problem };
}

/** Saves a drawing as PNG with twice its size in pixels. */
export function exportPng(svg: string, name: string): Promise<void> {
  return attempt(async () => {
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    await image.decode();
    URL.revokeObjectURL(image.src);
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("The picture is too large for this browser. Use the SVG instead.");
    download(blob, "image/png", name);
  });
}

/** Saves the page, with its data, as an HTML file. */
export function exportPage(): Promise<void> {
  return attempt(async () => {
    const main = inspection.value!;
    const page = fillTemplate(await fetchTemplate(), {
      main,
      other: other.value ?? undefined,
      replay: replay.value.length ? replay.value : undefined,
      model: details.value ?? undefined,
      view: viewOf(),
    });
    download(page, "text/html", fileName(main.text, "html"));
  });
}
