import { glossaryOf } from "../glossary";
import { glossary } from "../state";

/** Required terms, one per line. Only the translation of the whole text uses them. */
export function Glossary() {
  const { problem } = glossaryOf(glossary.value);
  return (
    <details class="file" data-testid="glossary">
      <summary>Glossary</summary>
      <label>
        One term per line: <code>source phrase = target phrase</code>
        <textarea
          data-testid="glossary-terms"
          rows={3}
          value={glossary.value}
          aria-invalid={problem !== ""}
          onInput={(event) => (glossary.value = event.currentTarget.value)}
        />
      </label>
      {problem && (
        <p class="problem" role="status">
          {problem}
        </p>
      )}
      <p class="quiet">The translation of the whole text uses these terms. The sections below inspect the translation without them.</p>
    </details>
  );
}
