import type { ComponentChildren } from "preact";
import type { Help } from "../help";

/** The content of a section in one line; if opened, how to read it, and its limits. */
function HelpText({ help: { drawn, read, cannot }, id }: { help: Help; id: string }) {
  return (
    <details class="help" data-testid={`help-${id}`}>
      <summary>{drawn}</summary>
      <p>
        <b>How to read it.</b> {read}
      </p>
      <p>
        <b>Limits.</b> {cannot}
      </p>
    </details>
  );
}

export function Section({ id, title, help, children }: { id: string; title: string; help: Help; children: ComponentChildren }) {
  return (
    <section id={id} data-testid={`section-${id}`} aria-labelledby={`${id}-heading`}>
      <h2 id={`${id}-heading`} tabIndex={-1}>
        {title}
      </h2>
      <HelpText help={help} id={id} />
      {children}
    </section>
  );
}
