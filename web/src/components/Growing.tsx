const ROWS = 60; // words with a bar

/** A word, and its delay. */
export interface Delayed {
  word: string;
  delay: number;
}

/** A bar for each of the last words, as long as its delay. */
export function Delays({ delays, caption, shown }: { delays: Delayed[]; caption: string; shown: (delay: number) => string }) {
  if (!delays.length) return null;
  const last = delays.slice(-ROWS);
  const most = Math.max(...last.map(({ delay }) => delay), 0.1);
  return (
    <table class="delays" data-testid="delays">
      <caption class="quiet">{caption}</caption>
      <tbody>
        {last.map(({ word, delay }, index) => (
          <tr key={index}>
            <th scope="row">{word}</th>
            <td class="figures">{shown(delay)}</td>
            <td class="track" aria-hidden="true">
              <span class="bar" style={{ inlineSize: `${(100 * delay) / most}%` }} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Committed text, and unstable text in gray. */
export function Growing({ committed, unstable, lang }: { committed: string; unstable: string; lang?: string }) {
  return (
    <p class="lines" data-testid="stream-output" lang={lang} aria-live="polite">
      <span data-testid="committed">{committed}</span>
      <span class="unstable" data-testid="unstable">
        {unstable}
      </span>
    </p>
  );
}
