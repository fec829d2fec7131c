import type { ComponentChildren } from "preact";
import type { Help } from "../help";

/** One line on the content of a section. If opened, it also explains how to read the section, and its limits. */
function HelpText({ help: { content, reading, limits }, id }: { help: Help; id: string }) {
  return (
    <details class="help" data-testid={`help-${id}`}>
      <summary>{content}</summary>
      <p>
        <b>How to read it.</b> {reading}
      </p>
      <p>
        <b>Limits.</b> {limits}
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
