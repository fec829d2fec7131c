import { useMemo } from "preact/hooks";
import type { Inspection } from "../document";
import { settle, show } from "../shown";
import { choice } from "../state";
import { HeatMap } from "./HeatMap";

/** The heat map of another inspection than the main one: the head chosen there, or its own default. */
export function Chosen({ of: side, testId }: { of: Inspection; testId: string }) {
  const wanted = choice.value;
  const shown = useMemo(() => {
    const settled = settle(side, wanted);
    return settled && show(side, settled);
  }, [side, wanted]);
  if (!shown) return <p class="quiet">No attention.</p>;
  return (
    <>
      <p class="quiet">{shown.title}</p>
      <HeatMap matrix={shown.matrix} allowed={shown.allowed} queries={shown.queries} keys={shown.keys} label={`Weights of ${shown.title}`} testId={testId} />
    </>
  );
}
