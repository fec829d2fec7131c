import type { ComponentType } from "preact";
import { HELP } from "../help";
import { details, inspection, offline, other, replay, translates } from "../state";
import type { Inspection } from "../document";
import { isNumeric } from "../numbers";
import { heatView } from "../views";
import { AlignedText } from "./AlignedText";
import { Answer } from "./Answer";
import { BeamTree } from "./BeamTree";
import { CellWorked } from "./CellWorked";
import { Compare } from "./Compare";
import { Export } from "./Export";
import { Flow } from "./Flow";
import { HeadGrid } from "./HeadGrid";
import { HeatMapSection } from "./HeatMapSection";
import { InputBar } from "./InputBar";
import { LensTable } from "./LensTable";
import { Measures } from "./Measures";
import { NextTokens } from "./NextTokens";
import { Section } from "./Section";
import { Listening } from "./Listening";
import { Streaming } from "./Streaming";
import { ThemePicker } from "./ThemePicker";
import { Training } from "./Training";
import { Why } from "./Why";

interface Part {
  id: string;
  title: string;
  body: ComponentType;
  /** Whether the part has content for this inspection. Training and Share always have. */
  of: (inspection: Inspection) => boolean;
}

// With more keys than this, the heat map uses the whole width.
const LONG = 36;

const attends = ({ attention }: Inspection) => Object.keys(attention).length > 0;
/** Whether the input is drawn: its pieces have no text of their own. */
const isDrawn = ({ surfaces }: Inspection) => surfaces[0]?.kind === "graph" || isNumeric(surfaces[0]);
const measured = ({ attention, ablation }: Inspection) => ablation !== undefined || Object.values(attention).some(({ measures }) => Object.keys(measures).length > 0);
const translated = ({ search }: Inspection) => search !== undefined;

/** The parts of the page, in order. A part without data is left out. */
const PARTS: Part[] = [
  { id: "answer", title: "Answer", body: Answer, of: (inspection) => !translated(inspection) },
  { id: "aligned", title: "Where", body: AlignedText, of: (inspection) => attends(inspection) && !isDrawn(inspection) && translated(inspection) },
  { id: "why", title: "Why", body: Why, of: ({ predictions }) => predictions.length > 0 },
  { id: "links", title: "Where", body: AlignedText, of: (inspection) => attends(inspection) && !isDrawn(inspection) && !translated(inspection) },
  { id: "heads", title: "Heads", body: HeadGrid, of: attends },
  { id: "heatmap", title: "Heat map", body: HeatMapSection, of: attends },
  { id: "cell", title: "One weight", body: CellWorked, of: attends },
  { id: "measures", title: "Measures", body: Measures, of: (inspection) => attends(inspection) && measured(inspection) },
  { id: "lens", title: "Layer by layer", body: LensTable, of: ({ lens }) => lens !== undefined },
  { id: "flow", title: "Network", body: Flow, of: ({ network }) => (network ?? []).length > 0 },
  { id: "steps", title: "Next tokens", body: NextTokens, of: translated },
  { id: "beam", title: "Beam", body: BeamTree, of: (inspection) => translated(inspection) && (!offline || inspection.beam !== undefined) },
  { id: "compare", title: "Side by side", body: Compare, of: () => !offline || other.value !== null },
];
const TRAINING: Part = { id: "training", title: "Training", body: Training, of: () => true };
const STREAMING: Part = { id: "streaming", title: "As it arrives", body: Streaming, of: () => true };
const LISTENING: Part = { id: "listening", title: "As it arrives", body: Listening, of: () => true };
const EXPORT: Part = { id: "export", title: "Share", body: Export, of: () => true };

function jump(id: string) {
  const heading = document.getElementById(`${id}-heading`);
  heading?.scrollIntoView();
  heading?.focus({ preventScroll: true });
}

function partsShown(): Part[] {
  const current = inspection.value;
  const trained = offline ? details.value !== null || replay.value.length > 0 : details.value !== null;
  const training = trained ? [TRAINING] : [];
  const streaming = offline || details.value === null ? [] : translates.value ? [STREAMING] : details.value.listens ? [LISTENING] : [];
  return current ? [...PARTS.filter((part) => part.of(current)), ...streaming, ...training, EXPORT] : [...streaming, ...training];
}

export function App() {
  const parts = partsShown();
  const long = (heatView.value?.keys.length ?? 0) > LONG;
  return (
    <>
      <a class="skip" href="#translation">
        Skip to the input
      </a>
      <header class="top">
        <h1>Regard</h1>
        <nav aria-label="Sections">
          {parts.map((part) => (
            <button type="button" class="plain" key={part.id} onClick={() => jump(part.id)}>
              {part.title}
            </button>
          ))}
        </nav>
        <ThemePicker />
      </header>
      <main class={long ? "long" : ""}>
        <InputBar />
        {parts.map(({ id, title, body: Body }) => (
          <Section key={id} id={id} title={title} help={HELP[id]}>
            <Body />
          </Section>
        ))}
      </main>
    </>
  );
}
