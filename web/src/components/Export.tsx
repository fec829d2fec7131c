import { alignedSvg, download, exportPage, exportPng, heatMapSvg, stripSvg } from "../exporting";
import { fileName } from "../format";
import { inspection, offline } from "../state";
import { Copy } from "./Copy";
import { Problem } from "./Problem";
import { Snippet } from "./Snippet";
import { strip } from "../strip";
import { alignedView, heatView } from "../views";

function Choice({ id, children, onClick }: { id: string; children: string; onClick: () => void }) {
  return (
    <button type="button" data-testid={`export-${id}`} onClick={onClick}>
      {children}
    </button>
  );
}

export function Export() {
  const { text } = inspection.value!;
  const svg = (drawing: string, part: string) => download(drawing, "image/svg+xml", fileName(text, `${part}.svg`));
  const png = (drawing: string, part: string) => void exportPng(drawing, fileName(text, `${part}.png`));
  return (
    <>
      <div class="controls">
        {!offline && (
          <Copy text={location.href} of="the link to this view" testId="copy-link" />
        )}
        {!offline && (
          <Choice id="html" onClick={() => void exportPage()}>
            HTML (works offline)
          </Choice>
        )}
        <Choice id="json" onClick={() => download(JSON.stringify(inspection.value), "application/json", fileName(text, "json"))}>
          JSON
        </Choice>
        {strip.value && (
          <>
            <Choice id="strip-svg" onClick={() => svg(stripSvg(), "why")}>
              Why, SVG
            </Choice>
            <Choice id="strip-png" onClick={() => png(stripSvg(), "why")}>
              Why, PNG
            </Choice>
          </>
        )}
        {alignedView.value && (
          <>
            <Choice id="aligned-svg" onClick={() => svg(alignedSvg(), "aligned")}>
              Aligned text, SVG
            </Choice>
            <Choice id="aligned-png" onClick={() => png(alignedSvg(), "aligned")}>
              Aligned text, PNG
            </Choice>
          </>
        )}
        {heatView.value && (
          <>
            <Choice id="heatmap-svg" onClick={() => svg(heatMapSvg(), "heatmap")}>
              Heat map, SVG
            </Choice>
            <Choice id="heatmap-png" onClick={() => png(heatMapSvg(), "heatmap")}>
              Heat map, PNG
            </Choice>
          </>
        )}
      </div>
      <p class="quiet">The HTML file contains all parts of this page that are loaded. The JSON file contains the inspection only.</p>
      <Problem place="export" doing="Writing …" />
      {!offline && <Snippet />}
    </>
  );
}
