import { serverAddress } from "../api";
import { curlOf, pythonOf } from "../snippet";
import { Copy } from "./Copy";

/** The request of this page as a curl command and as Python code. */
export function Snippet() {
  const [curl, python] = [curlOf(serverAddress()), pythonOf()];
  return (
    <details data-testid="snippet">
      <summary>Send this request from a shell or Python</summary>
      {[
        ["curl", curl],
        ["Python", python],
      ].map(([name, text]) => (
        <div key={name}>
          <h3>{name}</h3>
          <pre class="snippet" data-testid={`snippet-${name.toLowerCase()}`}>
            {text}
          </pre>
          <Copy text={text} of={`the ${name} snippet`} testId={`copy-${name.toLowerCase()}`} />
        </div>
      ))}
    </details>
  );
}
