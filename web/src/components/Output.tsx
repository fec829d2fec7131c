import type { Inspection } from "../document";
import { fixed } from "../format";
import { inspection, offline } from "../state";
import { Release } from "./Release";

export function Scores({ of }: { of: { score: number; log_probability: number } }) {
  return (
    <span class="figures">
      score {fixed(of.score, 3)} · log P {fixed(of.log_probability, 3)}
    </span>
  );
}

function Candidates({ candidates }: { candidates: Inspection["candidates"] }) {
  return (
    <details>
      <summary>{candidates.length} best outputs</summary>
      <ol data-testid="nbest">
        {candidates.map((candidate, index) => (
          <li key={index}>
            {candidate.text} <Scores of={candidate} />
          </li>
        ))}
      </ol>
    </details>
  );
}

export function Output() {
  const current = inspection.value;
  if (!current) return null;
  const { model, search, source, target } = current;
  return (
    <div class="output">
      {offline && (
        <p data-testid="source" lang={model.source_language ?? undefined}>
          {source.text}
        </p>
      )}
      <p class="translation" data-testid="output" lang={model.target_language ?? undefined} aria-live="polite">
        {target.text}
      </p>
      <p class="quiet">
        {model.name}, checkpoint {model.checkpoint}, beam {search.beam}, length penalty {search.length_penalty} ·{" "}
        <Scores of={current} />
        {!current.finished && " · not finished: the longest output allowed was reached"}
      </p>
      <Release testId="release" />
      {current.candidates.length > 1 && <Candidates candidates={current.candidates} />}
    </div>
  );
}
