import { chooseCandidate, chooseSentence } from "../inspecting";
import { unknownNotice } from "../characters";
import type { Search } from "../document";
import { fixed } from "../format";
import { languageName } from "../languages";
import { glossary, inspection, offline, status, whole } from "../state";
import { Copy } from "./Copy";
import { Problem } from "./Problem";
import { Release } from "./Release";

export function Scores({ of }: { of: { score: number; log_probability: number } }) {
  return (
    <span class="figures">
      score {fixed(of.score, 3)} · log P {fixed(of.log_probability, 3)}
    </span>
  );
}

/** The n best outputs of the search. Each can be inspected. */
function Candidates({ candidates, chosen, language }: { candidates: Search["candidates"]; chosen: number; language?: string }) {
  return (
    <details open data-testid="candidates">
      <summary>
        {candidates.length} best outputs{!offline && ". Choose one to inspect it."}
      </summary>
      <ol data-testid="nbest">
        {candidates.map((candidate, index) => (
          <li key={index} aria-current={index === chosen || undefined}>
            {offline ? (
              <span lang={language}>{candidate.text}</span>
            ) : (
              <button
                type="button"
                class="plain"
                lang={language}
                data-testid={`nbest-${index}`}
                aria-pressed={index === chosen}
                onClick={() => void chooseCandidate(index)}
              >
                {candidate.text || "(empty)"}
              </button>
            )}{" "}
            <Scores of={candidate} />
          </li>
        ))}
      </ol>
    </details>
  );
}

/** The translation of a text with several sentences, and a selector for the inspected sentence. */
function Sentences({ sentences, sentence, language }: { sentences: string[]; sentence: number; language?: string }) {
  return (
    <div class="whole">
      <Problem place="whole" doing="Translating the whole text …" />
      {whole.value !== null && (
        <>
          <h3>{glossary.value.trim() ? "Translation of the whole text, with the glossary" : "Translation of the whole text"}</h3>
          <p data-testid="whole" class="lines" lang={language}>
            {whole.value}
          </p>
          <Copy text={whole.value} of="the whole translation" testId="copy-whole" />
        </>
      )}
      {sentences.length > 1 && <div class="controls">
        <label>
          Inspected sentence:{" "}
          <select
            data-testid="sentence"
            value={sentence}
            disabled={offline || status.translate.value.busy}
            onChange={(event) => void chooseSentence(Number(event.currentTarget.value))}
          >
            {sentences.map((text, index) => (
              <option key={index} value={index}>
                {index + 1} of {sentences.length}: {text.length > 60 ? `${text.slice(0, 59)}…` : text}
              </option>
            ))}
          </select>
        </label>
      </div>}
    </div>
  );
}

export function Output() {
  const current = inspection.value;
  if (!current)
    return whole.value === null || !status.translate.value.problem ? null : (
      <p class="translation lines" data-testid="whole">
        {whole.value}
      </p>
    );
  const { model, sentences = [], sentence = 0, text } = current;
  const search = current.search!;
  const { candidate, candidates, output, settings } = search;
  const language = model.target_language ?? undefined;
  const unknown = unknownNotice(current.facts.unknown);
  return (
    <div class="output" data-testid="translation-output" aria-busy={status.translate.value.busy}>
      {offline && (
        <p data-testid="source" lang={model.source_language ?? undefined}>
          {text}
        </p>
      )}
      {unknown && (
        <p class="notice" role="status" data-testid="unknown">
          {unknown}
        </p>
      )}
      {(sentences.length > 1 || whole.value !== null || status.whole.value.problem) && <Sentences sentences={sentences} sentence={sentence} language={language} />}
      <h3>{languageName(language) || "Output"}</h3>
      <p class="translation">
        <span data-testid="output" lang={language} aria-live="polite">
          {output}
        </span>{" "}
        <Copy text={output} of="the translation" testId="copy" />
      </p>
      <p class="quiet">
        {model.name}, checkpoint {model.checkpoint}, beam {settings.beam}, length penalty {settings.length_penalty} ·{" "}
        <Scores of={search} />
        {candidate > 0 && ` · output ${candidate + 1} of the search, not the best one`}
        {!search.finished && " · not finished: the output reached the maximum length"}
      </p>
      <Release testId="release" />
      {candidates.length > 1 && <Candidates candidates={candidates} chosen={candidate} language={language} />}
    </div>
  );
}
