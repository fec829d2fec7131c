import { useSignal } from "@preact/signals";
import { copyText } from "../clipboard";

export function Copy({ text, of, testId }: { text: string; of: string; testId: string }) {
  const copied = useSignal<{ text: string; done: boolean } | null>(null);
  const copy = async () => {
    copied.value = { text, done: await copyText(text) };
  };
  const now = copied.value?.text === text ? copied.value : null;
  return (
    <>
      <button type="button" data-testid={testId} aria-label={`Copy ${of}`} onClick={() => void copy()}>
        Copy
      </button>{" "}
      <span role="status" class="quiet" data-testid={`${testId}-status`}>
        {now && (now.done ? "Copied." : "The browser does not allow copying. Select the text and copy it.")}
      </span>
    </>
  );
}
