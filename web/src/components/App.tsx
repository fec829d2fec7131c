import type { ComponentType } from "preact";
import { isContinued } from "../answers";
import { HELP } from "../help";
import { alone, details, inspection, observation, offline, other, replay, translates } from "../state";
import { heatView } from "../views";
import { AlignedText } from "./AlignedText";
import { Answer } from "./Answer";
import { BeamTree } from "./BeamTree";
import { CellWorked } from "./CellWorked";
import { Compare } from "./Compare";
import { Export } from "./Export";
import { HeadGrid } from "./HeadGrid";
import { HeatMapSection } from "./HeatMapSection";
import { Measures } from "./Measures";
import { NextTokens } from "./NextTokens";
import { ObserveBar } from "./ObserveBar";
import { Places } from "./Places";
import { Section } from "./Section";
import { StepText } from "./StepText";
import { ThemePicker } from "./ThemePicker";
import { Training } from "./Training";
import { TranslateBar } from "./TranslateBar";
import { Why } from "./Why";

interface Part {
  id: string;
  title: string;
  body: ComponentType;
  /** Shown with no attention, too. */
  always: boolean;
}

// From here on a heat map takes the whole width.
const LONG = 36;

const PARTS: Part[] = [
  { id: "aligned", title: "Aligned text", body: AlignedText, always: false },
  { id: "heads", title: "Heads", body: HeadGrid, always: false },
  { id: "heatmap", title: "Heat map", body: HeatMapSection, always: false },
  { id: "cell", title: "Cell worked out", body: CellWorked, always: false },
  { id: "measures", title: "Measures", body: Measures, always: false },
  { id: "steps", title: "Next tokens", body: NextTokens, always: true },
  { id: "beam", title: "Beam", body: BeamTree, always: true },
  { id: "compare", title: "Side by side", body: Compare, always: true },
  { id: "training", title: "Training", body: Training, always: true },
  { id: "export", title: "Export", body: Export, always: true },
];

/** Of an input of another task. */
const OBSERVED: Part[] = [
  { id: "text", title: "Text", body: StepText, always: true },
  { id: "why", title: "Why", body: Why, always: true },
  { id: "places", title: "Heads", body: Places, always: true },
  { id: "training", title: "Training", body: Training, always: true },
  { id: "export", title: "Export", body: Export, always: true },
];

/** The same where the answer is no continuation of the text. */
const ANSWERED: Part[] = [{ id: "answer", title: "Answer", body: Answer, always: true }, ...OBSERVED.slice(1)];

/** Of a model without a network. */
const ALONE: Part[] = [{ id: "training", title: "Training", body: Training, always: true }];

/** Offline, what was not saved with the page is left out. */
function present(part: Part): boolean {
  if (!offline) return true;
  if (part.id === "compare") return other.value !== null;
  if (part.id === "training") return details.value !== null || replay.value.length > 0;
  return part.id !== "beam" || inspection.value?.beam !== undefined;
}

function jump(id: string) {
  const heading = document.getElementById(`${id}-heading`);
  heading?.scrollIntoView();
  heading?.focus({ preventScroll: true });
}

function partsShown(): Part[] {
  if (translates.value) return inspection.value ? PARTS : [];
  if (observation.value) return isContinued(observation.value) ? OBSERVED : ANSWERED;
  return alone.value ? ALONE : [];
}

export function App() {
  const parts = partsShown().filter(present);
  const blind = inspection.value !== null && Object.keys(inspection.value.attention).length === 0;
  const long = (heatView.value?.keys.length ?? 0) > LONG;
  return (
    <>
      <header class="top">
        <h1>Regard</h1>
        <nav aria-label="Sections">
          {parts
            .filter((part) => part.always || !blind)
            .map((part) => (
              <button type="button" class="plain" key={part.id} onClick={() => jump(part.id)}>
                {part.title}
              </button>
            ))}
        </nav>
        <ThemePicker />
      </header>
      <main class={long ? "long" : ""}>
        {translates.value ? <TranslateBar /> : <ObserveBar />}
        {parts.map(({ id, title, body: Body, always }) => (
          <Section key={id} id={id} title={title} help={HELP[id]}>
            {blind && !always ? <p class="quiet">This model has no attention, so there is nothing to show here.</p> : <Body />}
          </Section>
        ))}
      </main>
    </>
  );
}
