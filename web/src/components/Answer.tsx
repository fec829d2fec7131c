import { answersOf, huesOf, inputsOf, type Answer as Found, type Marked } from "../answers";
import type { Alternative } from "../document";
import { percent } from "../format";
import { place } from "../observing";
import { observation } from "../state";
import { visible } from "../words";
import { Bar } from "./Bar";

const chance = (value: number | null) => percent(value ?? -Infinity);

/** Labels with their probabilities, the most probable first; of an answer it is bold. */
export function Ranked({ options, testId = "options" }: { options: Alternative[]; testId?: string }) {
  return (
    <ul class={`candidates${testId === "options" ? " ranked" : ""}`} data-testid={testId}>
      {options.map((each, order) => (
        <li key={order}>
          <span>{visible(each.label)}</span>
          <Bar share={Math.exp(each.log_probability ?? -Infinity)} />
          <span class="figures">{chance(each.log_probability)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Pieces of a text with what was answered at each; one of them at a time shows its alternatives. */
function Pieces({ pieces, form }: { pieces: Marked[]; form: "tags" | "gaps" }) {
  const chosen = place.value;
  const current = chosen === null ? null : pieces[chosen]?.answer;
  const hues = huesOf(pieces.flatMap(({ answer }) => (answer ? [answer.label] : [])));
  return (
    <>
      <p class={`lines answered ${form}`} data-testid="pieces">
        {pieces.map(({ text, answer }, index) => {
          if (!answer) return <span key={index}>{text}</span>;
          const label = `${visible(form === "gaps" ? "gap" : text)}: ${visible(answer.label)}, ${chance(answer.log_probability)}`;
          const shared = {
            type: "button" as const, "aria-label": label, title: label, "aria-pressed": chosen === index,
            "data-testid": `piece-${index}`, onClick: () => (place.value = chosen === index ? null : index),
          };
          return form === "gaps" ? (
            <button key={index} class="gap" {...shared}>
              {visible(answer.label)}
            </button>
          ) : (
            <span key={index}>
              <button class="tagged" style={{ "--hue": hues.get(answer.label) }} {...shared}>
                <span>{text}</span>
                <span class="tag">{visible(answer.label)}</span>
              </button>{" "}
            </span>
          );
        })}
      </p>
      <div aria-live="polite">
        {current ? (
          <>
            <p>
              Most probable at <b>{form === "gaps" ? "this gap" : visible(pieces[chosen!].text)}</b>:
            </p>
            <Ranked options={current.alternatives} testId="alternatives" />
          </>
        ) : (
          <p class="quiet">{form === "gaps" ? "Choose a gap" : "Choose a word"} to see its other answers.</p>
        )}
      </div>
    </>
  );
}

function Given({ texts }: { texts: string[] }) {
  return (
    <>
      {texts.map((text, index) => (
        <p class="lines given" data-testid={`given-${index}`} key={index}>
          {text}
        </p>
      ))}
    </>
  );
}

function One({ answer, texts }: { answer: Found; texts: string[] }) {
  switch (answer.form) {
    case "tags":
    case "gaps":
      return <Pieces pieces={answer.pieces} form={answer.form} />;
    case "number":
      return (
        <>
          <Given texts={texts} />
          <p class="translation figures" data-testid="number">
            {answer.value}
          </p>
        </>
      );
    case "next":
      return (
        <>
          <Given texts={texts} />
          <p>Next:</p>
          <Ranked options={answer.options} />
        </>
      );
    case "ranked":
      return (
        <>
          {answer.about === null ? <Given texts={texts} /> : <p data-testid="about">{answer.about}</p>}
          <Ranked options={answer.options} />
        </>
      );
  }
}

/** What the model answered, with the input; nothing to click for it. */
export function Answer() {
  const current = observation.value!;
  const { name, checkpoint } = current.model;
  return (
    <>
      {answersOf(current).map((answer, index) => (
        <One key={index} answer={answer} texts={inputsOf(current)} />
      ))}
      <p class="quiet figures">
        {name}, checkpoint {checkpoint}
        {current.parts &&
          ` · parts of the answer: ${Object.entries(current.parts)
            .map(([part, value]) => `${part} ${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`)
            .join(", ")}`}
      </p>
    </>
  );
}
