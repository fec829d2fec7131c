import type { ComponentChildren } from "preact";

interface Properties<Id extends string> {
  label: string;
  tabs: { id: Id; title: string }[];
  current: Id;
  onPick: (id: Id) => void;
  children: ComponentChildren;
}

const slug = (id: string) => id.toLowerCase().replaceAll(/\W+/g, "-");

/** Tabs with one tab stop. Arrow keys change the tab. */
export function Tabs<Id extends string>({ label, tabs, current, onPick, children }: Properties<Id>) {
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = (tabs.findIndex((tab) => tab.id === current) + by + tabs.length) % tabs.length;
    onPick(tabs[next].id);
    ((event.currentTarget as Element).children[next] as HTMLElement).focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ id, title }) => (
          <button
            type="button"
            role="tab"
            key={id}
            id={`tab-${slug(id)}`}
            data-testid={`tab-${slug(id)}`}
            aria-selected={id === current}
            aria-controls="tab-panel"
            tabIndex={id === current ? 0 : -1}
            onClick={() => onPick(id)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${slug(current)}`}>
        {children}
      </div>
    </>
  );
}
