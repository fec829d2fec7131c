import { useSignal } from "@preact/signals";
import { copyText } from "../clipboard";
import { alignedSvg, download, exportPage, exportPng, heatMapSvg, numbersSvg, stripSvg } from "../exporting";
import { fileName } from "../format";
import { described } from "../inputs";
import { isNumeric } from "../numbers";
import { inspection, offline } from "../state";
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

/** Copies the address, which follows the view without a rendering of this section. */
function CopyLink() {
  const status = useSignal("");
  const copy = async () => {
    status.value = (await copyText(location.href)) ? "Link copied." : "The browser does not allow copying. Copy the address of the page.";
  };
  return (
    <>
      <Choice id="link" onClick={() => void copy()}>
        Copy link
      </Choice>{" "}
      <span role="status" class="quiet">
        {status.value}
      </span>
    </>
  );
}

export function Export() {
  const text = described(inspection.value!.text);
  const svg = (drawing: string, part: string) => download(drawing, "image/svg+xml", fileName(text, `${part}.svg`));
  const png = (drawing: string, part: string) => void exportPng(drawing, fileName(text, `${part}.png`));
  return (
    <>
      <div class="controls">
        {!offline && (
          <CopyLink />
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
        {isNumeric(inspection.value!.surfaces[0]) && (
          <>
            <Choice id="numbers-svg" onClick={() => svg(numbersSvg(), "input")}>
              Input, SVG
            </Choice>
            <Choice id="numbers-png" onClick={() => png(numbersSvg(), "input")}>
              Input, PNG
            </Choice>
          </>
        )}
        {alignedView.value && !isNumeric(inspection.value!.surfaces[0]) && (
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
