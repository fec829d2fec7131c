import { loadFile } from "../actions";
import type { Limits } from "../document";
import { download } from "../exporting";
import { kibibytes } from "../limits";
import { details, status, translatedFile } from "../state";
import { Problem } from "./Problem";

/** Translates a file. The browser saves the result. */
function Field({ limits }: { limits: Limits }) {
  const file = translatedFile.value;
  return (
    <details class="file" data-testid="file-field">
      <summary>Translate a file</summary>
      <div class="controls">
        <label>
          File{" "}
          <input
            type="file"
            data-testid="file"
            accept={limits.files.join(",")}
            aria-describedby="file-limits"
            disabled={status.file.value.busy}
            onChange={(event) => {
              const [chosen] = event.currentTarget.files ?? [];
              if (chosen) void loadFile(chosen);
            }}
          />
        </label>
        <span id="file-limits" class="quiet">
          {limits.files.join(", ")} in UTF-8, at most {limits.characters.toLocaleString("en")} characters and {kibibytes(limits.file_bytes)}.
        </span>
        {file && (
          <button type="button" class="main" data-testid="file-save" onClick={() => download(file.content, "application/octet-stream", file.name)}>
            Save {file.name}
          </button>
        )}
        <Problem place="file" doing="Translating the file …" />
      </div>
    </details>
  );
}

export function FileField() {
  const limits = details.value?.limits;
  return limits && limits.files.length > 0 ? <Field limits={limits} /> : null;
}
