import { useMemo } from "preact/hooks";
import type { Inspection } from "../document";
import { settle, show } from "../shown";
import { choice } from "../state";
import { HeatMap } from "./HeatMap";

/** The heat map of a second inspection: the chosen head if it has it, otherwise its default. */
export function Chosen({ of: side, testId }: { of: Inspection; testId: string }) {
  const chosenHead = choice.value;
  const shown = useMemo(() => {
    const settled = settle(side, chosenHead);
    return settled && show(side, settled);
  }, [side, chosenHead]);
  if (!shown) return <p class="quiet">This model has no attention.</p>;
  return (
    <>
      <p class="quiet">{shown.title}</p>
      <HeatMap matrix={shown.matrix} allowed={shown.allowed} queries={shown.queries} keys={shown.keys} label={`Weights of ${shown.title}`} testId={testId} />
    </>
  );
}
