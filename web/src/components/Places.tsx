import { head, placeView, settledHead, weightsOf, type Head } from "../observing";
import { observation } from "../state";
import { HeatMap } from "./HeatMap";
import { Thumbnail } from "./Thumbnail";

/** Every head by place, and the chosen one large. */
export function Places() {
  const { attention } = observation.value!;
  const [view, chosen] = [placeView.value, settledHead.value];
  if (!view || !chosen) return <p class="quiet">This model has no attention, so there is nothing to show here.</p>;
  const headsOf = (place: string): Head[] => [
    ...[...Array(attention[place].weights.shape[0]).keys()].map((each) => ({ place, head: each as number | null })),
    { place, head: null },
  ];
  return (
    <>
      {Object.keys(attention).map((place) => (
        <div key={place}>
          <h3>{place}</h3>
          <div class="grid">
            {headsOf(place).map((each) => (
              <Thumbnail
                key={each.head}
                label={each.head === null ? "mean" : `head ${each.head}`}
                value=""
                testId={`place-${place}-${each.head ?? "mean"}`}
                selected={each.place === chosen.place && each.head === chosen.head}
                weights={() => weightsOf(each)}
                of={attention[place]}
                onSelect={() => (head.value = each)}
              />
            ))}
          </div>
        </div>
      ))}
      <p class="shown">
        Shown: <b data-testid="place-name">{view.title}</b>. Rows: <b>{view.rows}</b>; columns: <b>{view.columns}</b>.
      </p>
      <HeatMap matrix={view.matrix} queries={view.queries} keys={view.keys} label={`Weights of ${view.title}`} testId="place" />
    </>
  );
}
