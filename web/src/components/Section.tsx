import type { ComponentChildren } from "preact";
import type { Help } from "../help";

/** What a panel draws, in a line; how to read it and what it cannot say, when opened. */
function Told({ help: { drawn, read, cannot }, id }: { help: Help; id: string }) {
  return (
    <details class="told" data-testid={`help-${id}`}>
      <summary>{drawn}</summary>
      <p>
        <b>How to read it.</b> {read}
      </p>
      <p>
        <b>What it cannot say.</b> {cannot}
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
      <Told help={help} id={id} />
      {children}
    </section>
  );
}
