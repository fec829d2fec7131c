import { useSignal } from "@preact/signals";
import type { Word } from "../document";
import { fixed } from "../format";
import { playFrom, playing } from "../sound";

/** The words of an output of speech recognition, if it has them. */
export function wordsOf(result: unknown): Word[] {
  const { words } = (typeof result === "object" && result !== null ? result : {}) as { words?: unknown };
  const isWord = (each: unknown): each is Word => typeof each === "object" && each !== null && "word" in each && "start" in each && "end" in each;
  return Array.isArray(words) ? words.filter(isWord) : [];
}

/** Words with their seconds. A click plays the sound from there. */
export function HeardWords({ words, sound }: { words: Word[]; sound: string | null }) {
  const problem = useSignal("");
  if (!words.length) return null;
  const play = ({ start }: Word) => {
    problem.value = "";
    if (sound !== null) playFrom(sound, start).catch((error: Error) => (problem.value = error.message));
  };
  return (
    <>
      <p class="chips" data-testid="heard-words">
        {words.map((word, index) => (
          <button type="button" class="chip" key={index} disabled={sound === null} title={`${fixed(word.start)} to ${fixed(word.end)} s; play from here`} onClick={() => play(word)}>
            {word.word} <span class="quiet figures">{fixed(word.start)} s</span>
          </button>
        ))}
        {playing.value && (
          <button type="button" data-testid="stop-words" onClick={() => playing.value?.()}>
            Stop
          </button>
        )}
      </p>
      {problem.value && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </>
  );
}
