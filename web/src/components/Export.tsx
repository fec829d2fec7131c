import { alignedSvg, download, exportPage, exportPng, heatMapSvg, placeSvg, shownDocument, shownText } from "../exporting";
import { placeView } from "../observing";
import { fileName } from "../format";
import { offline } from "../state";
import { Problem } from "./Problem";
import { heatView } from "../views";

function Choice({ id, children, onClick }: { id: string; children: string; onClick: () => void }) {
  return (
    <button type="button" data-testid={`export-${id}`} onClick={onClick}>
      {children}
    </button>
  );
}

export function Export() {
  const text = shownText();
  const svg = (drawing: string, part: string) => download(drawing, "image/svg+xml", fileName(text, `${part}.svg`));
  const png = (drawing: string, part: string) => void exportPng(drawing, fileName(text, `${part}.png`));
  return (
    <>
      <div class="controls">
        {!offline && (
          <Choice id="html" onClick={() => void exportPage()}>
            HTML, works offline
          </Choice>
        )}
        <Choice id="json" onClick={() => download(JSON.stringify(shownDocument()), "application/json", fileName(text, "json"))}>
          JSON
        </Choice>
        {placeView.value && (
          <>
            <Choice id="place-svg" onClick={() => svg(placeSvg(), "heatmap")}>
              Heat map, SVG
            </Choice>
            <Choice id="place-png" onClick={() => png(placeSvg(), "heatmap")}>
              Heat map, PNG
            </Choice>
          </>
        )}
        {heatView.value && (
          <>
            <Choice id="aligned-svg" onClick={() => svg(alignedSvg(), "aligned")}>
              Aligned text, SVG
            </Choice>
            <Choice id="aligned-png" onClick={() => png(alignedSvg(), "aligned")}>
              Aligned text, PNG
            </Choice>
            <Choice id="heatmap-svg" onClick={() => svg(heatMapSvg(), "heatmap")}>
              Heat map, SVG
            </Choice>
            <Choice id="heatmap-png" onClick={() => png(heatMapSvg(), "heatmap")}>
              Heat map, PNG
            </Choice>
          </>
        )}
      </div>
      <p class="quiet">The page and the JSON carry what is on this page now, with all that has been loaded.</p>
      <Problem place="export" doing="Writing …" />
    </>
  );
}
